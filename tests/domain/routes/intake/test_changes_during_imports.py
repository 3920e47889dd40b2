"""A change of the fleet that commits while an import is under way: neither transaction sees the other, and the
five-minute pass looks again."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from domain.database.connections import Connection, Database
from domain.fleet.matching import Matched
from domain.fleet.vehicles import VehicleRow
from domain.lifecycle import RouteStatus
from domain.routes.intake.fleet_changes import add_mapping, add_vehicle
from domain.routes.intake.holds import routes_that_can_move
from domain.routes.intake.imports import import_routes
from domain.routes.intake.retiring import match_again_lately_retired, retire
from tests.domain.helpers import pushed, status_of
from tests.factories import DOT, Fleet, make_fleet


@pytest.fixture
def fleet(database: Database) -> Fleet:
    with database.transaction() as connection:
        return make_fleet(connection)


@pytest.mark.parametrize(
    "change",
    [
        lambda connection, fleet: add_mapping(connection, fleet.company_id, "unit_number", "new", fleet.trucks[0], DOT),
        lambda connection, fleet: add_vehicle(connection, fleet.company_id, VehicleRow(unit_number="new"), DOT),
    ],
    ids=["mapping", "vehicle"],
)
def test_the_pass_finds_the_routes_of_what_was_added_during_their_import(
    database: Database, fleet: Fleet, now: datetime, change: Callable[[Connection, Fleet], object]
) -> None:
    with database.transaction() as connection:
        route_id = pushed(connection, fleet.live, now=now, start=now, vehicle={"unitNumber": "new"})
    with database.transaction() as importing:
        import_routes(importing, [route_id], now=now)
        with database.transaction() as connection:
            change(connection, fleet)

    with database.transaction() as connection:
        assert status_of(connection, route_id) == RouteStatus.PENDING_MAPPING
        assert routes_that_can_move(connection, now=now)[route_id] == fleet.company_id


@pytest.mark.parametrize("kind", ["vehicle", "driver"])
def test_the_pass_matches_routes_again_whose_truck_or_driver_was_retired_during_their_import(
    database: Database, fleet: Fleet, now: datetime, kind: Matched
) -> None:
    with database.transaction() as connection:
        route_id = pushed(connection, fleet.live, now=now, start=now)
    record_id = fleet.trucks[0] if kind == "vehicle" else fleet.drivers[0]
    with database.transaction() as importing:
        import_routes(importing, [route_id], now=now)
        with database.transaction() as connection:
            retire(connection, fleet.company_id, kind, record_id, DOT, force=False, now=now)

    with database.transaction() as connection:
        assert status_of(connection, route_id) == RouteStatus.DRAFT
        assert route_id in match_again_lately_retired(connection, now=now + timedelta(minutes=5))
        import_routes(connection, [route_id], now=now)
        assert status_of(connection, route_id) == RouteStatus.PENDING_MAPPING
