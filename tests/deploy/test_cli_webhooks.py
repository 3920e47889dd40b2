"""`fuelroute webhooks`: endpoints are added, changed and watched; secrets are shown once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from domain.database.connections import Database
from domain.database.visibility import NOTHING
from domain.ids import shown_id
from domain.settings import Settings
from domain.webhooks.endpoints import ENDPOINTS
from tests.conftest import make_database
from tests.deploy.commands import Cli
from tests.domain.helpers import imported
from tests.domain.webhooks.endpoints import events_of, make_endpoint
from tests.factories import DOT, Fleet
from tests.webhook_receiver import Receiver
from workers.context import Context
from workers.webhook_couriers import WebhookCouriers

URL = "https://tms.example.com/hooks?code=receivers-own-secret"


@pytest.fixture(scope="module")
def settings(settings: Settings) -> Settings:
    """The settings with a database of this module's own: a running service would deliver what its sweep finds."""
    return settings.model_copy(update={"database_url": make_database("webhooks")})


@pytest.fixture(scope="module")
def database(settings: Settings) -> Iterator[Database]:
    with Database.of(settings) as opened:
        yield opened


def audited(database: Database, fleet: Fleet) -> list[tuple[str, str, int]]:
    """The commands' actions on the company's endpoints."""
    with database.transaction() as connection:
        query = "SELECT action, reason, affected FROM audit_log WHERE company_id = %s AND actor <> %s ORDER BY id"
        return connection.execute(query, (fleet.company_id, DOT.name)).fetchall()


def test_an_endpoint_is_added_listed_changed_and_removed(cli: Cli, fleet: Fleet, database: Database) -> None:
    company = ("--company", fleet.shown_company_id)
    added = cli("webhooks", "add", *company, "--environment", "live", "--url", URL, "--json").document
    assert added["secret"].startswith("whsec_")
    assert added["types"] == ["all"]
    id = added["id"]

    (listed,) = cli("webhooks", "list", *company, "--json").document
    assert (listed["id"], listed["state"], listed["url"]) == (id, "enabled", "https://tms.example.com/hooks?***")
    for command in ("list", "show"):
        for form in ((), ("--json",)):
            said = cli("webhooks", command, *company, *([id] if command == "show" else []), *form).out
            assert added["secret"] not in said
            assert "receivers-own-secret" not in said

    changed = cli(
        "webhooks", "set", *company, id, "--type", "route.planned", "--description", "TMS", "--disable", "--json"
    ).document
    assert (changed["types"], changed["description"]) == (["route.planned"], "TMS")
    assert changed["state"] == "disabled: by hand"
    assert cli("webhooks", "set", *company, id, "--all-types", "--enable", "--json").document["types"] == ["all"]

    rotated = cli("webhooks", "rotate-secret", *company, id, "--json").document
    assert rotated["secret"] != added["secret"]
    assert "give --yes" in cli("webhooks", "remove", *company, id).sentence
    assert cli("webhooks", "remove", *company, id, "--yes", "--reason", "gone", "--json").document == {
        "id": id,
        "removed": True,
    }
    assert cli("webhooks", "list", *company, "--json").document == []
    assert [action for action, _, _ in audited(database, fleet)] == [
        f"webhooks.{one}" for one in ("add", "change", "disable", "change", "enable", "rotate_secret", "remove")
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "--environment", "live", "--url", "https://127.0.0.1/"), "is not on the public internet"),
        (("add", "--environment", "live", "--url", "http://tms.example.com/"), "begins with https://"),
        (("add", "--environment", "live", "--url", "https://xn--/"), "cannot be read"),
        (("add", "--environment", "live", "--url", URL, "--type", "route.moved"), "no event type 'route.moved'"),
        (("show", "whe_1"), "there is no webhook endpoint 'whe_1'"),
        (("set", "ID"), "say what to change"),
        (("set", "ID", "--all-types", "--type", "route.held"), "not both"),
        (("deliveries", "ID", "--status", "lost"), "is none of pending, delivered, failed"),
        (("deliveries", "ID", "--event", "evt_1"), "no delivery of 'evt_1'"),
        (("replay", "ID"), "name one event with --event, or give --failed-since"),
        (("replay", "ID", "--failed-since", "yesterday"), "--failed-since: "),
    ],
    ids=lambda value: " ".join(value)[:50] if isinstance(value, tuple) else "",
)
def test_a_mistake_is_told_in_a_sentence(
    cli: Cli, fleet: Fleet, database: Database, arguments: tuple[str, ...], said: str
) -> None:
    with database.transaction() as connection:
        endpoint_id = shown_id("whe", make_endpoint(connection, fleet.live).endpoint.id)
    command, *rest = (endpoint_id if one == "ID" else one for one in arguments)

    assert said in cli("webhooks", command, "--company", fleet.shown_company_id, *rest).sentence


@contextmanager
def working(settings: Settings, fleet: Fleet, database: Database) -> Iterator[None]:
    """Delivers what is due, as a worker does."""
    hooked = settings.model_copy(update={"webhook_allowed_hosts": "127.0.0.1"})
    done = threading.Event()
    with Database.of(hooked, visible=lambda: NOTHING) as own:
        couriers = WebhookCouriers(Context(hooked, own, None))  # type: ignore[arg-type]  # it enqueues nothing
        couriers.start()

        def wake() -> None:
            while not done.wait(0.1):
                with database.transaction() as connection:
                    endpoints = ENDPOINTS.all(connection, fleet.company_id)
                for endpoint in endpoints:
                    couriers.wake(endpoint.id, fleet.company_id)

        waking = threading.Thread(target=wake)
        waking.start()
        try:
            yield
        finally:
            done.set()
            waking.join()
            couriers.stop(180)


def test_a_test_event_is_sent_and_its_answer_shown(
    cli: Cli, fleet: Fleet, database: Database, settings: Settings, receiver: Receiver
) -> None:
    with database.transaction() as connection:
        made = make_endpoint(connection, fleet.live, receiver.url)
    company = ("--company", fleet.shown_company_id)
    id = shown_id("whe", made.endpoint.id)
    receiver.status, receiver.answer = 200, b"welcome"

    with working(settings, fleet, database):
        taken = cli("webhooks", "test", *company, id, "--json")
        receiver.status, receiver.answer = 500, b"no"
        refused = cli("webhooks", "test", *company, id)

    assert taken.status == 0
    assert (taken.document["status"], taken.document["attempts"][0]["answer"]) == ("delivered", "welcome")
    assert refused.status == 1
    assert "it answered 500" in refused.out
    assert receiver.requests[0].verify(made.secret)["type"] == "webhook.test"


def test_deliveries_are_listed_and_replayed(
    cli: Cli, fleet: Fleet, database: Database, settings: Settings, receiver: Receiver
) -> None:
    with database.transaction() as connection:
        made = make_endpoint(connection, fleet.live, receiver.url)
        route_id = imported(connection, fleet.live, now=datetime.now(UTC))
    company = ("--company", fleet.shown_company_id)
    id = shown_id("whe", made.endpoint.id)
    with working(settings, fleet, database):
        receiver.wait_for(1)

        (listed,) = cli("webhooks", "deliveries", *company, id, "--json").document
        assert (listed["type"], listed["route_id"]) == ("route.imported", shown_id("rte", route_id))
        assert cli("webhooks", "deliveries", *company, id, "--status", "failed", "--json").document == []
        event = ("--event", listed["event_id"])
        shown = cli("webhooks", "deliveries", *company, id, *event, "--json").document
        assert shown["payload"] == receiver.requests[0].body.decode()
        assert "route.imported" in cli("webhooks", "deliveries", *company, id, *event).out

        assert cli("webhooks", "replay", *company, id, *event, "--reason", "lost", "--json").document == {"replayed": 1}
        first, again = receiver.wait_for(2)
        assert (first.event_id, first.body) == (again.event_id, again.body)
    since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    with database.transaction() as connection:
        connection.execute(
            "UPDATE webhook_deliveries SET status = 'failed' WHERE endpoint_id = %s", (made.endpoint.id,)
        )
    assert cli("webhooks", "replay", *company, id, "--failed-since", since, "--json").document == {"replayed": 1}
    with database.transaction() as connection:
        assert [event.status for event in events_of(connection, made.endpoint.id)] == ["pending"]
    assert audited(database, fleet) == [("webhooks.replay", "lost", 1), ("webhooks.replay", "", 1)]
