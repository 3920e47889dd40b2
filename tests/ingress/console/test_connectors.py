"""The pages Connectors: added and tried by owners, vehicles linked by dispatchers; no credential is ever shown."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from domain.accounts.contacts import IN_CLEAR
from domain.connectors.connectors import CONNECTORS, Connector, read_access
from domain.connectors.vendor import VendorVehicle
from domain.connectors.vendor_vehicles import list_connector_vehicles, match_vehicles
from domain.ids import shown_id
from domain.lifecycle import Role
from tests.domain.connectors.helpers import added
from tests.factories import Fleet
from tests.ingress.console.conftest import Browser, World, words
from tests.ingress.console.records import stored_rows

TOKEN = "samsara-token-of-the-owner"


@pytest.fixture
def owner(world: World, fleet: Fleet) -> Browser:
    browser = world.browser(Role.OWNER, fleet)
    browser.look("/connectors")
    return browser


def connectors_of(world: World, fleet: Fleet) -> list[Connector]:
    with world.database.transaction() as connection:
        return CONNECTORS.all(connection, fleet.company_id)


def path_of(connector_id: UUID) -> str:
    return f"/connectors/{shown_id('con', connector_id)}"


def with_a_stranger(world: World, fleet: Fleet) -> Connector:
    """A connector whose vendor names TRK-102, which none of our vehicles is called."""
    with world.database.transaction() as connection:
        connector = added(
            connection, fleet.live, "traccar", "http://127.0.0.1:9", {"forward_token": "a-token-of-forwarding"}
        )
        match_vehicles(
            connection, fleet.company_id, connector.id, [VendorVehicle("7", "TRK-102")], now=datetime.now(UTC)
        )
        return connector


def test_an_owner_adds_a_connector_and_its_token_is_never_shown(world: World, fleet: Fleet, owner: Browser) -> None:
    answer = owner.submit("/connectors", kind="samsara", environment="live", field_token=TOKEN, url="", name="")
    assert answer.status_code == 303
    (connector,) = connectors_of(world, fleet)
    page = owner.look(path_of(connector.id))
    assert "waits for a process" in words(page)
    assert TOKEN not in page + owner.look("/connectors")

    owner.submit(f"{path_of(connector.id)}/change", field_token="another-token", url="")
    with world.database.transaction() as connection:
        access = read_access(connection, fleet.company_id, connector.id, contacts=IN_CLEAR)
    assert access.credentials == {"token": "another-token"}
    for action, state in (("pause", "paused"), ("resume", "waits for a process")):
        owner.submit(f"{path_of(connector.id)}/{action}")
        assert state in words(owner.look(path_of(connector.id)))
    owner.submit(f"{path_of(connector.id)}/remove")
    assert connectors_of(world, fleet) == []


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"kind": "samsara", "field_token": ""}, "give the API token"),
        ({"kind": "nobody"}, "Choose a vendor"),
        ({"kind": "samsara", "field_token": TOKEN, "url": "http://169.254.169.254/"}, "not on the public internet"),
        ({"kind": "samsara", "field_token": TOKEN, "environment": "moon"}, "Choose an environment"),
        ({"kind": "traccar", "url": "https://gps.example.com", "field_forward_token": "short"}, "16 characters"),
        ({"kind": "samsara", "field_token": TOKEN, "name": "x" * 101}, "one line"),
    ],
)
def test_a_connector_that_cannot_work_is_refused_with_the_reason(
    world: World, fleet: Fleet, owner: Browser, fields: dict[str, Any], fault: str
) -> None:
    answer = owner.submit("/connectors", **{"environment": "live", **fields})
    assert answer.status_code == 400
    assert fault.lower() in words(answer.text).lower()
    assert TOKEN not in answer.text
    assert connectors_of(world, fleet) == []


def test_the_test_button_says_what_the_vendor_answered(world: World, fleet: Fleet, owner: Browser) -> None:
    """The address is on loopback, which the console's settings do not allow."""
    with world.database.transaction() as connection:
        connector = added(connection, fleet.live, "samsara", "http://127.0.0.1:9", {"token": TOKEN})
    answer = owner.submit(f"{path_of(connector.id)}/test")
    assert answer.status_code == 200
    assert "not on the public internet" in words(answer.text)
    (kept,) = stored_rows(
        world, "SELECT action, reason FROM audit_log WHERE company_id = %s ORDER BY id DESC LIMIT 1", fleet.company_id
    )
    assert kept == ("connectors.test", "it failed: its address is not on the public internet")


def test_a_vehicle_in_doubt_stands_on_the_page_with_the_reason(world: World, fleet: Fleet, owner: Browser) -> None:
    named = [VendorVehicle("7", "101", "1XKAD49X0CJ000102"), VendorVehicle("8", "x", "1XKAD49X0CJ000102")]
    with world.database.transaction() as connection:
        connector = added(connection, fleet.live, "samsara", "", {"token": TOKEN})
        match_vehicles(connection, fleet.company_id, connector.id, named, now=datetime.now(UTC))
    page = words(owner.look(path_of(connector.id)))
    assert "its references disagree: the VIN 1XKAD49X0CJ000102 is your 102, the number 101 is your 101" in page

    owner.submit(f"{path_of(connector.id)}/link", vehicle_key="7", unit_number="101")
    with world.database.transaction() as connection:
        match_vehicles(connection, fleet.company_id, connector.id, named, now=datetime.now(UTC) + timedelta(hours=1))
        connection.execute(
            "UPDATE connectors SET created_at = created_at - interval '2 days', answered_at = now(), leased_until ="
            " now() + interval '1 hour', remark = 'its ids began anew', remarked_at = now() WHERE id = %s",
            (connector.id,),
        )
    page = words(owner.look(path_of(connector.id)))
    assert "Matches in doubt" in page
    assert "its VIN is that of 102" in page
    assert "its ids began anew" in page
    assert "no position for a day" in page


@pytest.mark.parametrize("host", ["a..b.com", f"{'a' * 64}.com", "a%2eb.com", "xn--a.com"])
def test_an_address_that_cannot_be_one_is_refused_and_a_stored_one_fails_with_a_sentence(
    world: World, fleet: Fleet, owner: Browser, host: str
) -> None:
    given: dict[str, Any] = {"kind": "samsara", "field_token": TOKEN, "environment": "live", "name": ""}
    assert owner.submit("/connectors", url=f"https://{host}", **given).status_code == 400
    owner.submit("/connectors", url="", **given)
    (connector,) = connectors_of(world, fleet)
    with world.database.transaction() as connection:
        connection.execute("UPDATE connectors SET url = %s WHERE id = %s", (f"https://{host}", connector.id))

    answer = owner.submit(f"{path_of(connector.id)}/test")

    assert answer.status_code == 200
    assert "It could" in words(answer.text) or "cannot be read" in words(answer.text)


def test_a_dispatcher_links_what_matches_none_by_the_suggestion(world: World, fleet: Fleet) -> None:
    connector = with_a_stranger(world, fleet)
    dispatcher = world.browser(Role.DISPATCHER, fleet)
    page = dispatcher.look(path_of(connector.id))
    assert "TRK-102" in page
    assert f'<option value="{fleet.shown_trucks[1]}" selected>102 (likely)' in page
    assert "New credentials" not in page

    dispatcher.submit(f"{path_of(connector.id)}/link", vehicle_key="7", vehicle=fleet.shown_trucks[1], unit_number="")
    assert "Links that people made" in dispatcher.look(path_of(connector.id))
    dispatcher.submit(f"{path_of(connector.id)}/link", vehicle_key="7", vehicle="none")
    dispatcher.submit(f"{path_of(connector.id)}/link", vehicle_key="7", unit_number="101")

    with world.database.transaction() as connection:
        (linked,) = list_connector_vehicles(connection, fleet.company_id, connector.id, now=datetime.now(UTC))
    assert (linked.vehicle_id, linked.matched_by) == (fleet.trucks[0], "person")
    wrong = dispatcher.submit(f"{path_of(connector.id)}/link", vehicle_key="7", unit_number="no such")
    assert wrong.status_code == 400


def test_a_viewer_sees_and_changes_nothing(world: World, fleet: Fleet) -> None:
    connector = with_a_stranger(world, fleet)
    viewer = world.browser(Role.VIEWER, fleet)
    assert "a dispatcher can link it" in viewer.look(path_of(connector.id))
    for action in ("link", "test", "pause", "remove", "change"):
        assert viewer.submit(f"{path_of(connector.id)}/{action}", vehicle_key="7").status_code == 403
