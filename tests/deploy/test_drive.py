"""`fuelroute drive`; the README's tour drives whole routes."""

from datetime import UTC, datetime, timedelta

import pytest

from deploy.drive import CannotDrive, _feed, _load, _start_time
from domain import clock
from domain.accounts.keys import list_keys
from domain.contract.shapes import Position
from domain.database.connections import Database
from domain.ids import shown_id
from domain.lifecycle import Environment
from domain.sandbox.drives import begin_drives
from domain.settings import Settings
from tests.deploy.commands import Cli
from tests.domain.helpers import imported
from tests.factories import make_fleet, route_body
from tests.service import Service


def test_the_key_of_a_drive_that_is_killed_expires(settings: Settings, database: Database) -> None:
    now = datetime.now(UTC)
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        route_id = imported(connection, fleet.live, now=now)
    route, _ = _load(database, shown_id("rte", route_id))

    with _feed(settings, database, route, key=None), database.transaction() as connection:
        (key,) = list_keys(connection, fleet.company_id)

    assert key.expires_at is not None
    assert key.expires_at < now + timedelta(days=15)


def test_a_drive_tells_the_time_by_the_clock_of_the_service(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine of the command may be minutes ahead, and the feed drops fixes of the future."""
    now = datetime.now(UTC) - timedelta(hours=1)
    monkeypatch.setattr(clock, "now", lambda: now)
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        route_id = imported(connection, fleet.live, now=now)
    route, _ = _load(database, shown_id("rte", route_id))

    assert _start_time(route, live=True) == now
    with _feed(settings, database, route, key=None), database.transaction() as connection:
        (key,) = list_keys(connection, fleet.company_id)
    assert key.expires_at == now + timedelta(days=14)


def test_a_truck_that_drives_by_itself_is_left_alone(database: Database) -> None:
    now = datetime.now(UTC)
    with database.transaction() as connection:
        fleet = make_fleet(connection, sandbox_autodrive="60x")
        route_id = imported(connection, fleet.sandbox, now=now)
        assert begin_drives(connection, early=timedelta(hours=12), limit=1000, now=now)

    with pytest.raises(CannotDrive, match="drives in the sandbox by itself"):
        _load(database, shown_id("rte", route_id))


def test_a_key_of_another_company_or_environment_drives_nothing(service: Service) -> None:
    """A live key would post the positions of the simulated truck as those of the real one."""
    now = datetime.now(UTC)
    settings = service.settings.model_copy(update={"api_url": service.url})
    with (
        service.new_tenant(Environment.SANDBOX) as client,
        service.client(client.fleet, Environment.LIVE) as live,
        service.new_tenant(Environment.SANDBOX) as other,
    ):
        route, _ = _load(service.database, client.push(route_body(now)).json()["id"])
        for key in (live.key, other.key):
            with (
                pytest.raises(CannotDrive, match="another company or environment"),
                _feed(settings, service.database, route, key),
            ):
                pass
        with _feed(settings, service.database, route, client.key) as post:
            stranger = Position(latitude=41, longitude=-88, recorded_at=now, unit_number="nobody")
            with pytest.raises(CannotDrive, match="refuses a position"):
                post([stranger])


@pytest.mark.parametrize("place", [("95", "0"), ("0", "181"), ("nan", "0"), ("0", "nan")])
def test_a_drive_by_way_of_no_place_is_refused(cli: Cli, place: tuple[str, str]) -> None:
    refused = cli("drive", "rte_1", "--by-way-of", *place)

    assert refused.status == 2
    assert "--by-way-of" in refused.err
