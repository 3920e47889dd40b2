"""The fills of a route that was restarted are those of the truck that drives it now, since it set out."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from domain.database.connections import Connection
from domain.fills.importing import read_stations
from domain.fills.matching_again import match_fills_again
from domain.fills.reviewing import Decision, decide
from domain.routes.intake.imports import import_routes
from domain.routes.intake.pushes import Push, store_pushes
from domain.routes.transitions import cancel_route, end_routes
from domain.settings import Settings
from tests.domain.fills.cards import efs, fills, import_fills, plaza_and_keystone, verdicts, write_efs
from tests.domain.helpers import deliver, imported, planned_by_hand
from tests.factories import DOT, Fleet, route_input

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads

NINE = datetime(2026, 11, 20, 9, tzinfo=UTC)
"""Truck 101 sets out; it buys 100 gallons at 14:10 UTC, where the plan has them."""
NEXT_DAY = NINE + timedelta(days=1)


@pytest.fixture(autouse=True)
def stations(connection: Connection) -> None:
    plaza_and_keystone(connection)


@pytest.fixture
def route_id(connection: Connection, fleet: Fleet, settings: Settings, tmp_path: Path) -> UUID:
    """A route of truck 101 with a fill at its first fuel stop."""
    route_id = imported(connection, fleet.live, now=NINE, externalId="LOAD")
    sent_out(connection, settings, route_id, at=NINE)
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs()))
    (verdict,) = verdicts(connection, fleet.live)
    assert (verdict.verdict, verdict.vehicle_id) == ("followed", fleet.trucks[0])
    return route_id


def sent_out(connection: Connection, settings: Settings, route_id: UUID, *, at: datetime) -> None:
    """The truck is at its first stop, and its driver has the plan of the factories."""
    connection.execute("UPDATE routes SET arrived_at = %s WHERE id = %s", (at, route_id))
    deliver(connection, planned_by_hand(connection, route_id, now=at), settings=settings, now=at)


def restarted(connection: Connection, fleet: Fleet, settings: Settings, route_id: UUID, *, unit: str) -> None:
    """It ends in error, is pushed again for this truck, and that truck sets out a day later."""
    end_routes(connection, [route_id], "a test", now=NINE + timedelta(hours=8))
    body = route_input(NEXT_DAY, externalId="LOAD", vehicle={"unitNumber": unit})
    store_pushes(connection, [Push(fleet.live, body)], now=NINE + timedelta(hours=9))
    import_routes(connection, [route_id], now=NINE + timedelta(hours=9))
    sent_out(connection, settings, route_id, at=NEXT_DAY)


@pytest.mark.parametrize("unit", ["101", "102"])
def test_a_fill_of_the_run_before_is_neither_followed_nor_proven(
    connection: Connection, fleet: Fleet, settings: Settings, route_id: UUID, unit: str
) -> None:
    restarted(connection, fleet, settings, route_id, unit=unit)

    assert verdicts(connection, fleet.live) == []
    (fill,) = fills(connection, fleet.live)
    assert (fill.vehicle_id, fill.route_id, fill.stop_number) == (fleet.trucks[0], None, None)
    row = connection.execute(
        "SELECT bought_gallons, paid_cents FROM savings WHERE route_id = %s", (route_id,)
    ).fetchone()
    assert row == (None, None)


def test_a_fill_that_the_truck_of_now_buys_is_compared_alone(
    connection: Connection, fleet: Fleet, settings: Settings, route_id: UUID, tmp_path: Path
) -> None:
    restarted(connection, fleet, settings, route_id, unit="102")
    bought = efs(unit="102", date="2026-11-21", qty="60.00", amount="207.30", invoice="0777")
    import_fills(connection, fleet.live, write_efs(tmp_path / "next.csv", bought))

    (verdict,) = verdicts(connection, fleet.live)
    assert (verdict.verdict, verdict.bought_gallons, verdict.vehicle_id) == ("partly", 60.0, fleet.trucks[1])


def test_a_fill_of_a_canceled_route_is_matched_again(
    connection: Connection, fleet: Fleet, settings: Settings, tmp_path: Path
) -> None:
    """The load was canceled while its message was on its way, and pushed anew: another route."""
    canceled = imported(connection, fleet.live, now=NINE, externalId="LOAD")
    planned_by_hand(connection, canceled, now=NINE)
    connection.execute("UPDATE routes SET arrived_at = %s WHERE id = %s", (NINE, canceled))
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs()))
    assert [fill.route_id for fill in fills(connection, fleet.live)] == [canceled]
    cancel_route(connection, fleet.live, canceled, now=NINE + timedelta(hours=6))
    route_id = imported(connection, fleet.live, now=NINE + timedelta(hours=6), start=NINE, externalId="LOAD")
    assert route_id != canceled
    sent_out(connection, settings, route_id, at=NINE)

    stations = read_stations(connection, fleet.company_id)
    match_fills_again(connection, fleet.live, stations, far_miles=5, now=NEXT_DAY)

    assert [fill.route_id for fill in fills(connection, fleet.live)] == [route_id]
    assert [one.verdict for one in verdicts(connection, fleet.live)] == ["followed"]


def test_a_person_may_put_a_fill_on_the_run_of_now(
    connection: Connection, fleet: Fleet, settings: Settings, route_id: UUID
) -> None:
    restarted(connection, fleet, settings, route_id, unit="101")
    (fill,) = fills(connection, fleet.live)

    decide(connection, fleet.company_id, fill.id, Decision(route=route_id), DOT, far_miles=5, now=NEXT_DAY)

    assert [one.verdict for one in verdicts(connection, fleet.live)] == ["followed"]


def test_a_decision_about_the_run_before_does_not_prove_the_run_of_now(
    connection: Connection, fleet: Fleet, settings: Settings, route_id: UUID
) -> None:
    (fill,) = fills(connection, fleet.live)
    then = NINE + timedelta(hours=6)
    decide(connection, fleet.company_id, fill.id, Decision(route=route_id), DOT, far_miles=5, now=then)

    restarted(connection, fleet, settings, route_id, unit="101")

    assert verdicts(connection, fleet.live) == []
