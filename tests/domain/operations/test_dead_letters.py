"""Dead letters of a real worker: found by what they are about, replayed and discarded once."""

from datetime import datetime
from typing import Any
from uuid import UUID

import dramatiq
import pytest

from domain.audit.entries import Actor, NoReason, latest_actions
from domain.database.connections import Connection
from domain.ids import new_id
from domain.operations import dead_letters
from domain.operations.dead_letters import DeadLetter, Filter
from domain.queue.dramatiq_messages import companies_of
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import (
    ask_read_status_job,
    build_plan_job,
    import_due_job,
    import_routes_job,
    make_menu_job,
    process_positions_job,
)
from domain.queue.redis_layout import messages_key
from tests.domain.helpers import imported, planned_by_hand, route_row
from tests.dying import kill, working
from tests.factories import Fleet, make_fleet
from tests.service import eventually

ANN = Actor("ann@example.com", "the road service is back")
ALL = Filter()


def found(connection: Connection, jobs: JobQueue, wanted: Filter = ALL) -> list[DeadLetter]:
    return dead_letters.find(connection, jobs.client, wanted)


def test_dead_letters_are_found_by_queue_job_error_company_and_route(
    connection: Connection, jobs: JobQueue, fleet: Fleet, now: datetime
) -> None:
    other = make_fleet(connection)
    mine, theirs = (imported(connection, one.live, now=now) for one in (fleet, other))
    planned_by_hand(connection, mine, now=now)
    kill(
        jobs,
        build_plan_job(mine),
        import_routes_job([theirs]),
        process_positions_job("live", [fleet.trucks[0]]),
        build_plan_job(new_id()),
        import_due_job(other.company_id, 0),
        make_menu_job(route_row(connection, mine).plan_id),
        ask_read_status_job(other.company_id),
    )

    def jobs_of(**wanted: Any) -> list[str]:
        return sorted(letter.stored.job for letter in found(connection, jobs, Filter(**wanted)))

    of_queues = ["arrivals.process", "imports.due", "imports.run", "messages.read_status"]
    assert jobs_of() == [*of_queues, "plans.build", "plans.build", "plans.menu"]
    assert jobs_of(queue="plans") == ["plans.build", "plans.build", "plans.menu"]
    assert jobs_of(job="imports.run") == ["imports.run"]
    assert jobs_of(error="ROAD service") == jobs_of()
    assert jobs_of(error="something else") == []
    assert jobs_of(company_id=fleet.company_id) == ["arrivals.process", "plans.build", "plans.menu"]
    assert jobs_of(company_id=other.company_id, queue="plans") == []
    assert jobs_of(company_id=other.company_id) == ["imports.due", "imports.run", "messages.read_status"]
    assert jobs_of(route_id=mine) == ["plans.build", "plans.menu"]
    errors = {letter.stored.error for letter in found(connection, jobs)}
    assert errors == {"ConnectionError: the road service at https://me:***@roads.example.com is <b>away</b>"}


def test_a_replayed_dead_letter_runs_again_with_fresh_attempts(
    connection: Connection, jobs: JobQueue, now: datetime
) -> None:
    route_id = new_id()
    kill(jobs, build_plan_job(route_id), import_routes_job([route_id]))
    wanted = Filter(queue="plans")
    letters = found(connection, jobs, wanted)

    assert dead_letters.replay(connection, jobs.client, letters, wanted, ANN) == 1
    assert dead_letters.replay(connection, jobs.client, letters, wanted, ANN) == 0, "somebody was faster"

    assert [letter.stored.queue for letter in found(connection, jobs)] == ["imports"]
    ran: list[dict[str, Any]] = []
    with working(jobs, ran, fails=False):
        eventually(lambda: jobs.client.hlen("dramatiq:plans.msgs"), lambda count: count == 0)
    assert ran == [{"route_id": route_id.hex}]


def test_a_replayed_dead_letter_sees_the_same_companies(connection: Connection, jobs: JobQueue) -> None:
    """A job that names no company would see no rows, and do nothing."""
    first, second = new_id(), new_id()
    kill(
        jobs,
        build_plan_job(new_id(), first),
        import_routes_job([new_id()], company_ids=[first, second]),
        import_routes_job([new_id()]),
    )

    dead_letters.replay(connection, jobs.client, found(connection, jobs), ALL, ANN)

    messages: Any = [*jobs.client.hvals(messages_key("plans")), *jobs.client.hvals(messages_key("imports"))]
    options = [dramatiq.Message.decode(message).options for message in messages]
    assert sorted(companies_of(one) or [] for one in options) == [[], [first], [first, second]]


def test_a_replayed_dead_letter_may_fail_again(connection: Connection, jobs: JobQueue, now: datetime) -> None:
    kill(jobs, build_plan_job(new_id()))
    dead_letters.replay(connection, jobs.client, found(connection, jobs), ALL, ANN)
    ran: list[dict[str, Any]] = []

    with working(jobs, ran, fails=True):
        eventually(lambda: jobs.length("plans").dead_letters, lambda dead: dead == 1)

    assert len(ran) == 2, "its attempts were counted anew"


def test_discarded_dead_letters_are_deleted_and_later_ones_stay(
    connection: Connection, jobs: JobQueue, now: datetime
) -> None:
    kill(jobs, build_plan_job(new_id()), build_plan_job(new_id()))
    first, second = found(connection, jobs)

    assert dead_letters.discard(connection, jobs.client, [first], Filter(id=first.stored.id), ANN) == 1

    assert found(connection, jobs) == [second]
    assert jobs.client.hlen("dramatiq:plans.XQ.msgs") == 1
    assert jobs.backlog("plans") == 0


def test_the_audit_log_records_every_action_on_dead_letters(
    connection: Connection, jobs: JobQueue, now: datetime
) -> None:
    kill(jobs, build_plan_job(new_id()))
    wanted = Filter(queue="plans", error="away")
    letters = found(connection, jobs, wanted)

    with pytest.raises(NoReason):
        dead_letters.discard(connection, jobs.client, letters, wanted, Actor("ann@example.com", "  "))
    assert found(connection, jobs, wanted) == letters, "without a reason nothing was done"
    dead_letters.discard(connection, jobs.client, letters, wanted, ANN)

    entry = latest_actions(connection, limit=1)[0]
    assert entry._replace(id=UUID(int=0), at=now) == (
        UUID(int=0),
        now,
        "ann@example.com",
        "discard",
        "queue=plans error=away",
        "the road service is back",
        1,
        None,
    )


def test_dead_letters_that_are_no_jobs_are_skipped(connection: Connection, jobs: JobQueue, now: datetime) -> None:
    for number, junk in enumerate((b"{", b"[]", b'{"actor_name": "x", "options": 1}', b"\xff", b"{}")):
        jobs.client.zadd("dramatiq:plans.XQ", {f"junk {number}": 1})
        jobs.client.hset("dramatiq:plans.XQ.msgs", f"junk {number}", junk)
    assert found(connection, jobs) == []
