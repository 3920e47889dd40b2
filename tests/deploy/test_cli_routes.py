"""Routes are listed, shown, canceled and watched; a drive posts to the address of the API that is set."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from deploy.cli import routes
from domain.contract.shapes import Route
from domain.database.connections import Database
from domain.ids import shown_id
from domain.lifecycle import Environment
from tests.deploy.commands import Cli
from tests.domain.helpers import imported
from tests.factories import JOLIET, NEWARK, Fleet, route_body
from tests.pipeline.world import store_prices
from tests.service import Client, Service, eventually

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


@pytest.fixture
def ids(fleet: Fleet, database: Database, now: datetime) -> dict[str, str]:
    """The ids of a draft, a held and an active route of the company."""
    with database.transaction() as connection:
        draft = imported(connection, fleet.live, now=now, externalId="A-1")
        held = imported(connection, fleet.live, now=now, externalId="B-2", vehicle={"unitNumber": "unknown"})
        active = imported(connection, fleet.live, now=now, externalId="C-3", vehicle={"unitNumber": "102"})
        connection.execute("UPDATE routes SET status = 'active' WHERE id = %s", (active,))
    return {name: shown_id("rte", one) for name, one in (("draft", draft), ("held", held), ("active", active))}


def test_routes_are_listed_by_status_and_words(cli: Cli, fleet: Fleet, ids: dict[str, str]) -> None:
    def listed(*options: str) -> set[str]:
        document = cli("routes", "list", "--company", fleet.shown_company_id, *options, "--json").document
        assert document["total"] == len(document["data"])
        return {one["externalId"] for one in document["data"]}

    assert listed() == {"A-1", "B-2", "C-3"}
    assert listed("--status", "draft") == {"A-1"}
    assert listed("--held", "vehicle_unmapped") == {"B-2"}
    assert listed("--unit", "102") == {"C-3"}
    assert listed("--search", "b-2") == {"B-2"}
    assert listed("--environment", "sandbox") == set()
    text = cli("routes", "list", "--company", fleet.shown_company_id, "--limit", "2").out
    assert text.splitlines()[-1] == "2 of 3 routes"
    assert ids["held"] in cli("routes", "list", "--company", fleet.shown_company_id, "--search", "B-2").out


def test_a_route_is_shown_as_the_api_shows_it(cli: Cli, ids: dict[str, str]) -> None:
    document = cli("routes", "show", ids["held"], "--json").document
    assert (document["externalId"], document["status"]) == ("B-2", "pending_mapping")
    text = cli("routes", "show", ids["held"]).out
    assert document["pending"]["detail"] in text
    assert document["stops"][0]["name"] in text
    for unknown in ("nobody", "rte_" + "0" * 32):
        assert "see `fuelroute routes list`" in cli("routes", "show", unknown).sentence


def test_a_route_is_canceled_with_a_reason_until_it_has_started(cli: Cli, ids: dict[str, str]) -> None:
    assert "say why" in cli("routes", "cancel", ids["draft"], "--reason", " ").sentence
    assert cli("routes", "cancel", ids["draft"], "--reason", "sold").out.strip().endswith(" canceled")
    assert cli("routes", "cancel", ids["draft"], "--reason", "sold").out.strip().endswith("canceled already")
    assert cli("routes", "show", ids["draft"], "--json").document["status"] == "canceled"
    assert "the route is active" in cli("routes", "cancel", ids["active"], "--reason", "sold").sentence


def test_a_route_that_has_ended_is_watched_for_one_line(cli: Cli, ids: dict[str, str]) -> None:
    cli("routes", "cancel", ids["draft"], "--reason", "sold")
    (line,) = cli("routes", "watch", ids["draft"]).out.splitlines()
    assert "canceled" in line
    (told,) = cli("routes", "watch", ids["draft"], "--json").out.splitlines()
    assert json.loads(told)["status"] == "canceled"


def test_each_change_of_a_route_is_a_line_until_it_has_ended(
    cli: Cli, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "_LOOK_SECONDS", 0.05)
    store_prices(client.service)
    route_id = client.push(route_body(datetime.now(UTC))).json()["id"]
    client.wait_for(route_id, "draft")

    shown = set[str]()
    write_line = routes._line

    def write_and_note(route: Route, reached: str) -> str:
        shown.add(route.status)
        return write_line(route, reached)

    monkeypatch.setattr(routes, "_line", write_and_note)

    def drive() -> None:
        eventually(lambda: "draft" in shown, bool)  # a busy machine may take long until the first look
        now = datetime.now(UTC)
        client.post_fixes(JOLIET, at=now, fuelPercent=60)
        eventually(lambda: "active" in shown, bool)  # and between two looks
        client.post_fixes(NEWARK, at=now + timedelta(seconds=60))

    with ThreadPoolExecutor(1) as other:
        driving = other.submit(drive)
        lines = cli("routes", "watch", route_id).out.splitlines()
        driving.result()

    statuses = [line.split()[1] for line in lines]
    assert statuses[0] == "draft"
    assert "active" in statuses
    assert statuses[-1] == "completed"
    assert "2 of 2 stops" in lines[-1]
    assert "plan $" in lines[-1]


def test_a_drive_posts_to_the_address_of_the_api_that_is_set(
    cli: Cli, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_prices(service)
    with service.new_tenant(Environment.SANDBOX) as client:
        route_id = client.push(route_body(datetime.now(UTC))).json()["id"]
        client.wait_for(route_id, "draft")
        monkeypatch.setenv("FUELROUTE_API_URL", "http://127.0.0.1:9")
        nobody = cli("drive", route_id)
        assert (nobody.status, "set FUELROUTE_API_URL" in nobody.err) == (1, True)

        monkeypatch.setenv("FUELROUTE_API_URL", f"{service.url}/")
        assert cli("drive", route_id, "--json").document["status"] == "completed"
