"""Operators are told of what is urgent by the scheduler itself, also while Redis is away."""

from typing import Any

import pytest

from domain.database.connections import Connection
from domain.database.visibility import of_companies
from domain.notices.subscriptions import OPERATORS
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import QUEUES
from domain.queue.redis_clients import redis_client
from scheduler.passes import Passes
from tests.domain.helpers import go_behind_the_wall
from tests.domain.notices.subscriptions import notices_of, subscribe
from tests.factories import make_fleet
from tests.gateway import HOST, Gateway


def statuses(passes: Passes) -> list[tuple[str, str, str]]:
    with passes.database.transaction() as connection:
        return [(one.kind, one.part, one.status) for one in notices_of(connection, OPERATORS)]


@pytest.fixture
def told(passes: Passes) -> Passes:
    """Passes that may call gateways of this machine, and end a need at once."""
    with passes.database.transaction() as connection:
        connection.execute("TRUNCATE notices, notice_subscriptions")
    settings = passes.settings.model_copy(update={"message_allowed_hosts": HOST, "notices_end_seconds": 0})
    return Passes(settings, passes.database, passes.jobs)


def call(passes: Passes, gateway: Gateway, **values: Any) -> None:
    with passes.database.transaction() as connection:
        subscribe(connection, OPERATORS, url=gateway.url, **{"kinds": ("redis_away",), **values})


def test_an_absence_of_redis_is_told_without_redis_and_so_is_its_end(told: Passes, gateway: Gateway) -> None:
    call(told, gateway)
    away = Passes(told.settings, told.database, JobQueue(redis_client("redis://127.0.0.1:9/0")))

    for _ in range(3):
        away.tell_operators()
    assert gateway.titles == ["Fuelroute: Redis does not answer"]
    assert gateway.received[0]["message"].startswith("Start it again; the sweep then enqueues everything that is due.")
    told.tell_operators()
    told.tell_operators()

    assert gateway.titles[1:] == ["Fuelroute: over. Redis answers again"]
    assert statuses(told) == [("redis_away", "beginning", "sent"), ("redis_away", "end", "sent")]


def test_several_alerts_of_a_kind_are_one_notice_after_its_minutes(told: Passes, gateway: Gateway) -> None:
    call(told, gateway, kinds=("unserved", "pass_late"), minutes_by_kind={"pass_late": 5})
    told.tell_operators()
    assert gateway.titles == ["Fuelroute: No worker serves imports"]
    assert f" And {len(QUEUES) - 1} more." in gateway.received[0]["message"]


def test_a_gateway_that_is_silent_ends_nothing_but_its_own_notice(told: Passes, gateway: Gateway) -> None:
    told = Passes(told.settings.model_copy(update={"message_timeout_seconds": 0.5}), told.database, told.jobs)
    gateway.answering.clear()
    call(told, gateway, kinds=("unserved",))
    told.tell_operators()
    assert statuses(told) == [("unserved", "beginning", "doubtful")]


def test_nothing_is_measured_while_nobody_wants_to_know(told: Passes) -> None:
    away = Passes(told.settings, told.database, JobQueue(redis_client("redis://127.0.0.1:9/0")))
    assert away.tell_operators() == {"needs_opened": 0, "needs_ended": 0, "notices": 0}
    assert statuses(told) == []


def test_a_company_sees_nothing_of_the_operators(connection: Connection) -> None:
    subscribe(connection, OPERATORS, kinds=("unserved",))
    fleet = make_fleet(connection)
    go_behind_the_wall(connection, of_companies([fleet.company_id]))
    assert connection.execute("SELECT FROM notice_subscriptions").rowcount == 0
