"""Couriers deliver over real connections: signed, in order, at least once, and none holds up another."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.errors import LockNotAvailable
from standardwebhooks import WebhookVerificationError

from domain.accounts import name_lookups
from domain.claims import Retries
from domain.database.connections import Connection, Database
from domain.database.visibility import NOTHING
from domain.queue.job_queue import JobQueue
from domain.routes.transitions import cancel_route
from domain.settings import Settings
from domain.webhooks import deliveries
from domain.webhooks.deliveries import due_endpoints
from domain.webhooks.endpoints import NewSecret
from tests.conftest import make_database
from tests.domain.helpers import imported
from tests.domain.webhooks.endpoints import events_of, make_endpoint
from tests.factories import Fleet, make_fleet
from tests.rows import named
from tests.service import eventually
from tests.webhook_receiver import Receiver, running_receiver
from workers.context import Context
from workers.webhook_couriers import WebhookCouriers


@pytest.fixture(scope="module")
def settings(settings: Settings) -> Settings:
    """The settings with a database of this module's own: a running service would deliver what its sweep finds."""
    return settings.model_copy(update={"database_url": make_database("webhooks")})


@pytest.fixture(scope="module")
def database(settings: Settings) -> Iterator[Database]:
    with Database.of(settings) as opened:
        yield opened


@pytest.fixture
def hooked(settings: Settings) -> Settings:
    """Settings that let tests receive on this machine. An endpoint that is held up is held up for longer than a test
    waits."""
    return settings.model_copy(update={"webhook_allowed_hosts": "127.0.0.0/8", "webhook_timeout_seconds": 600})


@pytest.fixture
def couriers(hooked: Settings) -> Iterator[WebhookCouriers]:
    with running_couriers(hooked) as one:
        yield one


@contextmanager
def running_couriers(settings: Settings, stop_seconds: float = 180) -> Iterator[WebhookCouriers]:
    """The couriers of a worker process, which sees no company's data unless it says so."""
    with Database.of(settings, visible=lambda: NOTHING) as database:
        couriers = WebhookCouriers(Context(settings, database, JobQueue.of(settings)))
        couriers.start()
        try:
            yield couriers
        finally:
            couriers.stop(stop_seconds)


class Company:
    """A company with an endpoint."""

    def __init__(self, database: Database, url: str, now: datetime) -> None:
        self.database = database
        self.now = now
        with database.transaction() as connection:
            self.fleet: Fleet = make_fleet(connection)
        self.made: NewSecret = self.add_endpoint(url)

    @property
    def endpoint_id(self) -> UUID:
        return self.made.endpoint.id

    def add_endpoint(self, url: str) -> NewSecret:
        with self.database.transaction() as connection:
            return make_endpoint(connection, self.fleet.live, url)

    def import_routes(self, count: int = 1) -> list[UUID]:
        with self.database.transaction() as connection:
            return [imported(connection, self.fleet.live, now=self.now) for _ in range(count)]

    def cancel(self, route_id: UUID) -> None:
        with self.database.transaction() as connection:
            cancel_route(connection, self.fleet.live, route_id, now=self.now)

    def events(self) -> list[Any]:
        with self.database.transaction() as connection:
            return events_of(connection, self.endpoint_id)

    def endpoint(self) -> Any:
        with self.database.transaction() as connection:
            query = "SELECT * FROM webhook_endpoints WHERE id = %s"
            return named(connection).execute(query, (self.endpoint_id,)).fetchone()

    def wake(self, couriers: WebhookCouriers) -> None:
        couriers.wake(self.endpoint_id, self.fleet.company_id)

    def wait_until_settled(self) -> list[Any]:
        return eventually(self.events, lambda events: all(event.status != "pending" for event in events))


@pytest.fixture
def company(database: Database, receiver: Receiver, now: datetime) -> Company:
    return Company(database, receiver.url, now)


def test_an_event_arrives_signed(company: Company, couriers: WebhookCouriers, receiver: Receiver) -> None:
    (route_id,) = company.import_routes()
    company.wake(couriers)

    (received,) = receiver.wait_for(1)
    (event,) = company.wait_until_settled()

    document = received.verify(company.made.secret)
    assert received.event_id == f"evt_{event.id.hex}"
    assert received.body.decode() == event.payload
    assert (document["type"], document["data"]["id"]) == ("route.imported", f"rte_{route_id.hex}")
    assert document["data"]["status"] == "draft"
    assert received.headers["content-type"] == "application/json"
    assert received.headers["host"] == receiver.url.removeprefix("http://").removesuffix("/hooks")
    with pytest.raises(WebhookVerificationError):
        received._replace(body=received.body + b" ").verify(company.made.secret)
    assert (event.status, event.attempts, event.error) == ("delivered", 1, None)


def test_the_events_of_each_route_come_in_order(
    company: Company, couriers: WebhookCouriers, receiver: Receiver
) -> None:
    routes = company.import_routes(40)
    for route_id in routes:
        company.cancel(route_id)
    receiver.delay_seconds = 0.02
    for _ in range(3):
        company.wake(couriers)

    received = receiver.wait_for(80)
    company.wait_until_settled()

    told: dict[str, list[str]] = {}
    for one in received:
        told.setdefault(one.document["data"]["id"], []).append(one.type)
    assert set(told) == {f"rte_{route_id.hex}" for route_id in routes}
    assert set(map(tuple, told.values())) == {("route.imported", "route.canceled")}
    assert len(receiver.requests) == 80
    assert 1 < receiver.most_open <= 32


def test_a_slow_endpoint_holds_up_no_other(
    company: Company, hooked: Settings, receiver: Receiver, database: Database, now: datetime
) -> None:
    with running_receiver() as slow, running_couriers(hooked) as couriers:
        slow.answering.clear()
        others = [Company(database, slow.url, now) for _ in range(6)]
        for other in others:
            other.import_routes(10)
            other.wake(couriers)
        slow.wait_for(60)

        company.import_routes(20)
        company.wake(couriers)
        receiver.wait_for(20)

        assert len(slow.requests) == 60, "none of them has been given up"
        slow.answering.set()


def test_names_that_nobody_answers_for_hold_up_no_other_company(
    hooked: Settings, database: Database, receiver: Receiver, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eighteen names of two companies, whose name servers are silent until the end of the test."""
    over = threading.Event()

    def answer(host: str) -> list[str]:
        if host.startswith("silent"):
            over.wait(180)
            raise OSError
        return ["127.0.0.1"]

    monkeypatch.setattr(name_lookups, "ask_system", answer)
    others = [Company(database, "https://silent.example.com/", now) for _ in range(2)]
    for number in range(16):
        others[number % 2].add_endpoint(f"https://silent{number}.example.com/")
    named_one = Company(database, "https://hooks.example.com/", now)
    with database.transaction() as connection:
        url = receiver.url.replace("127.0.0.1", "hooks.example.com")
        connection.execute("UPDATE webhook_endpoints SET url = %s WHERE id = %s", (url, named_one.endpoint_id))
    try:
        with running_couriers(hooked, stop_seconds=0) as couriers:
            for other in others:
                other.import_routes(3)
                with database.transaction() as connection:
                    for endpoint in endpoints_of(connection, other.fleet.company_id):
                        couriers.wake(endpoint, other.fleet.company_id)
            time.sleep(0.3)
            named_one.import_routes(1)
            named_one.wake(couriers)

            receiver.wait_for(1)

            assert not over.is_set()
            assert [event.status for event in named_one.wait_until_settled()] == ["delivered"]
    finally:
        over.set()


def endpoints_of(connection: Connection, company_id: UUID) -> list[UUID]:
    return [id for (id,) in connection.execute("SELECT id FROM webhook_endpoints WHERE company_id = %s", (company_id,))]


def test_a_new_event_does_not_wait_for_a_slow_one(
    company: Company, couriers: WebhookCouriers, receiver: Receiver
) -> None:
    receiver.answering.clear()
    company.import_routes()
    company.wake(couriers)
    receiver.wait_for(1)

    company.import_routes()
    company.wake(couriers)

    receiver.wait_for(2)
    receiver.answering.set()


@pytest.mark.parametrize(
    ("arrange", "timeout_seconds", "error"),
    [
        ({"status": 500, "answer": b"no token=hunter2 today"}, 600, "it answered 500"),
        ({"status": 302, "headers": {"Location": "http://127.0.0.1:1/"}}, 600, "it answered 302"),
        ({"delay_seconds": 600.0}, 2, "it did not answer within 2 s"),
    ],
    ids=["error", "redirect", "silence"],
)
def test_a_failed_attempt_is_kept_and_tried_again(
    company: Company,
    hooked: Settings,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    arrange: dict[str, Any],
    timeout_seconds: float,
    error: str,
) -> None:
    monkeypatch.setattr(deliveries, "_RETRIES", Retries(timedelta(hours=1), longest=timedelta(hours=1)))
    for name, value in arrange.items():
        setattr(receiver, name, value)
    company.import_routes()
    with running_couriers(hooked.model_copy(update={"webhook_timeout_seconds": timeout_seconds})) as couriers:
        company.wake(couriers)
        eventually(company.events, lambda events: events[0].error is not None)
    (event,) = company.events()

    assert (event.status, event.error, event.attempts) == ("pending", error, 1)
    assert company.endpoint().failing_since is not None
    assert len(receiver.requests) == 1
    with company.database.transaction() as connection:
        (answer,) = connection.execute(
            "SELECT answer FROM webhook_attempts WHERE event_id = %s", (event.id,)
        ).fetchone() or ("",)
    assert answer == ("no token=*** today" if event.error == "it answered 500" else None)


def test_an_answer_without_an_end_is_cut_off(company: Company, couriers: WebhookCouriers, receiver: Receiver) -> None:
    receiver.floods, receiver.status, receiver.answer = True, 200, b"x" * 4096
    company.import_routes()
    company.wake(couriers)

    (event,) = company.wait_until_settled()

    assert event.status == "delivered"
    with company.database.transaction() as connection:
        (answer,) = connection.execute(
            "SELECT answer FROM webhook_attempts WHERE event_id = %s", (event.id,)
        ).fetchone() or ("",)
    assert answer == "x" * 1024


def test_an_endpoint_that_is_gone_is_disabled_and_its_owner_told(
    company: Company, couriers: WebhookCouriers, receiver: Receiver
) -> None:
    receiver.status = 410
    company.import_routes(3)
    company.wake(couriers)

    endpoint = eventually(company.endpoint, lambda row: row.disabled_at is not None)

    assert endpoint.disabled_reason == "it answered 410 (Gone)"
    with company.database.transaction() as connection:
        entry = (
            named(connection)
            .execute("SELECT * FROM audit_log WHERE company_id = %s ORDER BY id DESC", (company.fleet.company_id,))
            .fetchone()
        )
    assert entry is not None
    assert (entry.actor, entry.action) == ("Fuelroute", "webhooks.disable")
    assert entry.subject == f"webhook endpoint whe_{company.endpoint_id.hex}"
    assert entry.reason == "it answered 410 (Gone)"


def test_a_worker_that_stops_gives_back_what_it_could_not_finish(
    company: Company, hooked: Settings, receiver: Receiver
) -> None:
    receiver.answering.clear()
    company.import_routes()
    with running_couriers(hooked, stop_seconds=0.2) as couriers:
        company.wake(couriers)
        receiver.wait_for(1)
    receiver.answering.set()

    with running_couriers(hooked) as couriers:
        company.wake(couriers)
        first, second = receiver.wait_for(2)

    assert first.event_id == second.event_id
    assert first.body == second.body


def test_a_worker_that_stops_lets_attempts_end(company: Company, hooked: Settings, receiver: Receiver) -> None:
    receiver.delay_seconds = 0.4
    company.import_routes(5)
    with running_couriers(hooked) as couriers:
        company.wake(couriers)
        receiver.wait_for(5)

    assert {event.status for event in company.events()} == {"delivered"}


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("claim_deliveries", psycopg.OperationalError("the connection is lost")),
        ("settle_deliveries", LockNotAvailable("canceling statement due to lock timeout")),
    ],
)
def test_no_attempt_is_made_again_because_the_database_failed_meanwhile(
    company: Company,
    couriers: WebhookCouriers,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    error: psycopg.Error,
) -> None:
    real, failed = getattr(deliveries, step), threading.Event()

    def fail_once(*given: Any, **more: Any) -> Any:
        if not failed.is_set():
            failed.set()
            raise error
        return real(*given, **more)

    receiver.answering.clear()
    company.import_routes(2)
    company.wake(couriers)
    receiver.wait_for(2)
    monkeypatch.setattr(deliveries, step, fail_once)
    company.import_routes()
    company.wake(couriers)
    if step == "claim_deliveries":
        assert failed.wait(180)
    receiver.answering.set()

    events = company.wait_until_settled()

    assert failed.is_set()
    assert [(event.status, event.attempts) for event in events] == [("delivered", 1)] * 3
    assert len(receiver.requests) == 3


def test_a_paused_queue_begins_nothing(company: Company, couriers: WebhookCouriers, receiver: Receiver) -> None:
    couriers.is_paused = lambda: True
    company.import_routes()
    company.wake(couriers)
    time.sleep(0.3)
    assert receiver.requests == []

    couriers.is_paused = lambda: False
    with company.database.transaction() as connection:
        assert company.endpoint_id in due_endpoints(connection, now=company.now.replace(year=2100))
    company.wake(couriers)
    receiver.wait_for(1)


def test_two_processes_share_the_work(company: Company, hooked: Settings, receiver: Receiver) -> None:
    routes = company.import_routes(60)
    for route_id in routes:
        company.cancel(route_id)
    with running_couriers(hooked) as one, running_couriers(hooked) as two:
        company.wake(one)
        company.wake(two)
        received = receiver.wait_for(120)
        company.wait_until_settled()

    assert len(received) == len({one.event_id for one in received}) == 120
    told: dict[str, list[str]] = {}
    for item in received:
        told.setdefault(item.document["data"]["id"], []).append(item.type)
    assert set(map(tuple, told.values())) == {("route.imported", "route.canceled")}
