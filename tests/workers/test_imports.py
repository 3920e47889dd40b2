"""The imports worker around the rule: a batch in one transaction, and when it fails, each route on its own."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from queue import Queue
from typing import Any
from uuid import UUID, uuid4

import msgspec
import psycopg
import pytest
from dramatiq.brokers.stub import StubBroker
from psycopg.errors import DeadlockDetected, LockNotAvailable

from domain.database.connections import Connection, Database
from domain.lifecycle import RouteStatus
from domain.queue.job_queue import JobQueue
from domain.routes.intake import holds, imports
from domain.routes.intake.imports import ImportOutcome
from domain.settings import Settings
from tests.conftest import own_database
from tests.domain.helpers import positions_at, post, pushed, refusing, route_row, visits_of
from tests.domain.trucks import process
from tests.factories import JOLIET, Fleet, make_fleet
from tests.rows import named
from workers.context import Context
from workers.imports import DatabaseAway, import_batch, import_due, register


@pytest.fixture
def context(settings: Settings, database: Database, jobs: JobQueue) -> Context:
    return Context(settings.model_copy(update={"step_attempts": 2}), database, jobs)


@pytest.fixture
def undisturbed(context: Context) -> Iterator[Context]:
    """A context with a database of its own: the sweep of no running service imports the routes that are due."""
    with own_database("due") as database:
        yield replace(context, database=database)


@pytest.fixture
def stored_fleet(database: Database) -> Fleet:
    with database.transaction() as connection:
        return make_fleet(connection)


def statuses(outcomes: dict[UUID, ImportOutcome]) -> dict[UUID, RouteStatus]:
    return {route_id: outcome.status for route_id, outcome in outcomes.items()}


def push(database: Database, fleet: Fleet, now: datetime, *external_ids: str) -> list[UUID]:
    with database.transaction() as connection:
        return [pushed(connection, fleet.live, now=now, start=now, externalId=name) for name in external_ids]


def poisoned(database: Database, external_id: str) -> AbstractContextManager[None]:
    """Within the block, the database refuses to make a draft of this one route."""
    return refusing(database, "UPDATE", f"NEW.external_id = '{external_id}' AND NEW.status = 'draft'")


def test_a_batch_is_imported_together(context: Context, stored_fleet: Fleet, now: datetime) -> None:
    ids = push(context.database, stored_fleet, now, "A", "B", "C")

    outcomes = import_batch(context, ids)

    assert statuses(outcomes) == dict.fromkeys(ids, RouteStatus.DRAFT)


def test_a_failing_route_stops_no_other_in_its_batch_and_is_an_error_after_its_last_attempt(
    context: Context, stored_fleet: Fleet, now: datetime
) -> None:
    bad = f"BAD-{uuid4().hex}"
    ids = push(context.database, stored_fleet, now, "A", bad, "C")

    with poisoned(context.database, bad):
        first = import_batch(context, ids)
        second = import_batch(context, ids)
        third = import_batch(context, ids)

    assert statuses(first) == {ids[0]: RouteStatus.DRAFT, ids[1]: RouteStatus.PENDING, ids[2]: RouteStatus.DRAFT}
    assert statuses(second) == {ids[1]: RouteStatus.ERROR}
    assert third == {}
    with context.database.transaction() as connection:
        assert "2 times" in route_row(connection, ids[1]).closed_reason


def test_a_route_that_failed_once_is_imported_at_a_later_attempt(
    context: Context, stored_fleet: Fleet, now: datetime
) -> None:
    bad = f"BAD-{uuid4().hex}"
    (route_id,) = push(context.database, stored_fleet, now, bad)
    with poisoned(context.database, bad):
        import_batch(context, [route_id])
    with context.database.transaction() as connection:
        assert route_row(connection, route_id).pending_reason == "error"

    assert statuses(import_batch(context, [route_id])) == {route_id: RouteStatus.DRAFT}
    with context.database.transaction() as connection:
        row = route_row(connection, route_id)
    assert (row.pending_reason, row.attempts, row.retry_at) == (None, 0, None)


@pytest.mark.parametrize("held", ["the route", "its truck"])
def test_a_locked_route_is_left_for_later_and_stops_no_other_in_its_batch(
    context: Context, stored_fleet: Fleet, now: datetime, held: str
) -> None:
    database, tenant = context.database, stored_fleet.live
    one_truck, other_truck = {"vehicle": {"unitNumber": "101"}}, {"vehicle": {"unitNumber": "102"}}
    with database.transaction() as connection:
        free, stuck, behind = (
            pushed(connection, tenant, now=now, start=now, externalId=name, **truck)
            for name, truck in (("A", other_truck), ("B", one_truck), ("C", other_truck))
        )
        post(connection, tenant, positions_at(JOLIET, now - timedelta(minutes=5), unit_number="101"), now=now)
    with database.transaction() as holder:
        if held == "the route":
            holder.execute("SELECT FROM routes WHERE id = %s FOR UPDATE", (stuck,))
        else:
            holder.execute("SELECT FROM tracks WHERE vehicle_id = %s FOR UPDATE", (stored_fleet.trucks[0],))

        outcomes = import_batch(context, [free, stuck, behind])
        alone = import_batch(context, [stuck], wait=True)

    assert statuses(outcomes) == {free: RouteStatus.DRAFT, behind: RouteStatus.DRAFT}
    assert alone == {}
    with database.transaction() as connection:
        row = route_row(connection, stuck)
        assert (row.status, row.pending_reason, row.attempts) == ("pending", "not_attempted", 0)
    assert statuses(import_batch(context, [stuck])) == {stuck: RouteStatus.DRAFT}


def test_a_route_that_is_locked_for_a_moment_is_imported_after_the_others(
    context: Context, stored_fleet: Fleet, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, locked, other = push(context.database, stored_fleet, now, "A", "B", "C")
    broker, announced = StubBroker(), Queue[set[UUID]]()
    register(broker, context)
    monkeypatch.setattr(
        JobQueue,
        "announce",
        lambda _, __, outcomes: announced.put({UUID(name) for name in msgspec.json.decode(outcomes)}),
    )

    with ThreadPoolExecutor(1) as threads:
        with context.database.transaction() as holder:
            holder.execute("SELECT FROM routes WHERE id = %s FOR UPDATE", (locked,))
            run = threads.submit(broker.get_actor("imports.run").fn, [id.hex for id in (one, locked, other)], "ingress")
            assert announced.get(timeout=120) == {one, other}
        run.result()

    assert announced.get(timeout=120) == {locked}
    with context.database.transaction() as connection:
        assert route_row(connection, locked).status == "draft"


def test_a_job_without_a_database_fails_and_is_retried(context: Context, settings: Settings) -> None:
    nowhere = Database("postgresql://postgres@127.0.0.1:9/nowhere", timeout_seconds=0.2)
    with nowhere, pytest.raises(DatabaseAway) as failure:
        import_batch(Context(settings, nowhere, context.jobs), [uuid4()])
    assert isinstance(failure.value.__cause__, psycopg.OperationalError)


@pytest.mark.parametrize("routes", [1, 2])
@pytest.mark.parametrize(
    "fault", ["SELECT pg_terminate_backend(pg_backend_pid())", "DO $$ BEGIN RAISE disk_full; END $$"]
)
def test_a_restart_or_a_full_disk_counts_as_no_failed_attempt_of_the_routes(
    context: Context, stored_fleet: Fleet, now: datetime, monkeypatch: pytest.MonkeyPatch, fault: str, routes: int
) -> None:
    ids = push(context.database, stored_fleet, now, *"AB"[:routes])
    imported = imports.import_routes

    def interrupted(connection: Connection, route_ids: Sequence[UUID], **more: Any) -> Any:
        named(connection).execute(fault).fetchall()
        return imported(connection, route_ids, **more)

    with monkeypatch.context() as patch:
        patch.setattr(imports, "import_routes", interrupted)
        with pytest.raises(DatabaseAway):
            import_batch(context, ids)

    with context.database.transaction() as connection:
        assert [route_row(connection, route_id).attempts for route_id in ids] == [0] * routes
    assert statuses(import_batch(context, ids)) == dict.fromkeys(ids, RouteStatus.DRAFT)


@pytest.mark.parametrize("error", [LockNotAvailable, DeadlockDetected])
def test_a_route_whose_rows_are_held_has_not_failed(
    context: Context, stored_fleet: Fleet, now: datetime, monkeypatch: pytest.MonkeyPatch, error: type[psycopg.Error]
) -> None:
    ids = push(context.database, stored_fleet, now, "A", "B")

    def held(*_: Any, **__: Any) -> Any:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(imports, "import_routes", held)
        assert import_batch(context, ids) == {}
    with context.database.transaction() as connection:
        assert [route_row(connection, route_id).attempts for route_id in ids] == [0, 0]


def test_a_job_without_routes_does_nothing(context: Context) -> None:
    assert import_batch(context, []) == {}


def test_due_routes_are_imported_though_one_of_them_fails(undisturbed: Context, now: datetime) -> None:
    with undisturbed.database.transaction() as connection:
        fleet = make_fleet(connection)
    bad = f"BAD-{uuid4().hex}"
    ids = push(undisturbed.database, fleet, now - timedelta(minutes=1), "A", bad, "C")

    with poisoned(undisturbed.database, bad):
        outcomes = import_due(undisturbed)

    assert [outcomes[route_id].status for route_id in ids] == [
        RouteStatus.DRAFT,
        RouteStatus.PENDING,
        RouteStatus.DRAFT,
    ]
    assert not outcomes.keys() & import_due(undisturbed).keys()  # the failed one is not due yet


def test_an_import_that_stood_still_looks_again_at_its_trucks(
    undisturbed: Context, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep has had the truck's first fix processed when the import commits."""
    database, settings = undisturbed.database, undisturbed.settings
    with database.transaction() as connection:
        fleet = make_fleet(connection)
    (route_id,) = push(database, fleet, now - timedelta(minutes=1), "A")
    import_routes = imports.import_routes

    def import_and_stand_still(*arguments: Any, **more: Any) -> dict[UUID, ImportOutcome]:
        outcomes = import_routes(*arguments, **more)
        with database.transaction() as feed:
            post(feed, fleet.live, positions_at(JOLIET, now, count=2), now=now)
        with database.transaction() as worker:
            process(worker, settings, fleet, now=now + timedelta(seconds=10))
        monkeypatch.setattr("workers.imports.clock.now", lambda: now + timedelta(seconds=11))
        return outcomes

    monkeypatch.setattr(imports, "import_routes", import_and_stand_still)
    assert statuses(import_due(undisturbed)) == {route_id: RouteStatus.DRAFT}

    with database.transaction() as worker:
        process(worker, settings, fleet, now=now + timedelta(seconds=11))
        assert visits_of(worker, route_id) == {0: (now, None)}


def test_jobs_that_run_at_the_same_time_take_different_routes(undisturbed: Context, now: datetime) -> None:
    with undisturbed.database.transaction() as connection:
        fleet = make_fleet(connection)
    ids = push(undisturbed.database, fleet, now - timedelta(minutes=1), "A", "B", "C")

    with undisturbed.database.transaction() as connection:
        taken = holds.take_due_imports(connection, now=now)
        outcomes = import_due(undisturbed)

    assert set(ids) <= set(taken)
    assert not outcomes.keys() & set(taken)
    assert set(ids) <= import_due(undisturbed).keys()
