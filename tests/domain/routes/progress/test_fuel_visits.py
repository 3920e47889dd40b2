"""The truck at the fuel stops of its plan: the contract's `actualArrival` and `actualDeparture` of a `fuel_stop`."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from domain.contract.shapes import Position
from domain.database.connections import Connection, as_json
from domain.lifecycle import Environment, RouteStatus
from domain.routes.reading.lookups import read_any_route
from domain.routes.transitions import driver_has_plan
from domain.settings import Settings
from tests.domain.helpers import positions_at, post, visits_of
from tests.domain.routes.journey import Journey, Leg
from tests.domain.trucks import minutes
from tests.factories import JOLIET, NEWARK, Fleet, put_demo_stations
from tests.jobs import jobs_of

Times = list[tuple[datetime | None, datetime | None]]


@pytest.fixture(params=[False, True], ids=["sandbox", "live"])
def journey(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, request: pytest.FixtureRequest
) -> Journey:
    put_demo_stations(connection, now=now)
    return Journey(connection, fleet, settings, now - timedelta(hours=20), live=request.param)


def shown(journey: Journey) -> Times:
    """The times of the fuel stops, as the API shows them."""
    found = read_any_route(journey.connection, journey.route_id)
    assert found is not None
    return [(stop.actual_arrival, stop.actual_departure) for stop in found[1].stops if stop.type == "fuel_stop"]


def halt(journey: Journey, stop: dict[str, Any], *, count: int = 5) -> list[Position]:
    """Fixes of a truck that stands at a fuel stop for some minutes, one each minute, and then drives away, one each
    four minutes."""
    standing = positions_at(stop, journey.now + minutes(4), count=count, seconds_apart=60, fuel_percent=50.0)
    left = standing[-1].recorded_at
    away = [
        Position(stop["latitude"] + 0.05 * number, stop["longitude"], left + minutes(4 * number), "101", speed_mph=60)
        for number in (1, 2, 3)
    ]
    return [*standing, *away]


def report(journey: Journey, positions: Sequence[Position], *, at_once: bool) -> None:
    for part in [positions] if at_once else [[one] for one in positions]:
        journey.run(journey.report(part))


@pytest.mark.parametrize("at_once", [True, False], ids=["in one batch", "one by one"])
def test_a_truck_that_halts_at_a_fuel_stop_has_reached_it(journey: Journey, at_once: bool) -> None:
    first, *others = journey.fuel_stops
    assert shown(journey) == [(None, None)] * (1 + len(others))
    before = visits_of(journey.connection, journey.route_id)
    positions = halt(journey, first)

    report(journey, positions, at_once=at_once)

    assert shown(journey)[0] == (positions[0].recorded_at, positions[5].recorded_at)
    assert shown(journey)[1:] == [(None, None)] * len(others)
    assert visits_of(journey.connection, journey.route_id).keys() == before.keys(), "no stop of the route is reached"


def test_a_truck_that_drives_by_has_not_reached_the_fuel_stop(journey: Journey) -> None:
    stop = journey.fuel_stops[0]

    report(
        journey,
        positions_at(stop, journey.now + minutes(4), count=2, seconds_apart=20, speed_mph=60),
        at_once=True,
    )

    assert shown(journey)[0] == (None, None)


def test_only_the_arrival_at_a_fuel_stop_is_worth_a_job_of_its_own(journey: Journey) -> None:
    """Fixes behind it are processed at the next full minute, in one job for all trucks."""
    is_live = journey.tenant.environment == Environment.LIVE
    journey.drive(Leg(2, 30))
    positions = halt(journey, journey.fuel_stops[0])
    has_own_job = []
    for position in positions:
        journey.now = position.recorded_at
        post(journey.connection, journey.tenant, [position], now=journey.now)
        jobs = jobs_of(journey.connection)
        has_own_job.append(bool(jobs))
        journey.run(jobs)
    arrived = next(index for index, one in enumerate(has_own_job) if not one) if is_live else len(positions)
    assert has_own_job == [True] * arrived + [False] * (len(positions) - arrived)
    assert arrived >= 2
    assert arrived < 5 or not is_live
    assert shown(journey)[0] == (positions[0].recorded_at, None if is_live else positions[5].recorded_at)

    journey.run(journey.swept())

    assert shown(journey)[0] == (positions[0].recorded_at, positions[5].recorded_at)


def test_a_late_fix_makes_the_arrival_earlier(journey: Journey) -> None:
    positions = halt(journey, journey.fuel_stops[0])
    report(journey, positions[2:], at_once=True)
    assert shown(journey)[0][0] == positions[2].recorded_at

    report(journey, positions[:2], at_once=True)

    assert shown(journey)[0] == (positions[0].recorded_at, positions[5].recorded_at)


def test_the_version_of_a_route_changes_with_the_visit_of_a_fuel_stop(journey: Journey) -> None:
    before = journey.route.updated_at

    report(journey, halt(journey, journey.fuel_stops[0]), at_once=True)

    assert journey.route.updated_at > before


def test_another_plan_keeps_the_visits_of_the_fuel_stops_that_stay(journey: Journey) -> None:
    """A correction may change one purchase alone. Here it is the same plan once more."""
    report(journey, halt(journey, journey.fuel_stops[0]), at_once=True)
    before = shown(journey)
    assert before[0][1] is not None

    corrected(journey, as_of=before[0][0])
    assert shown(journey) == before


def corrected(journey: Journey, **changes: object) -> None:
    """The driver gets the same plan once more, with other values of columns."""
    for column, value in {"as_of": journey.now, **changes}.items():
        journey.connection.execute(f"UPDATE plans SET {column} = %s WHERE id = %s", (value, journey.route.plan_id))
    journey.connection.execute("UPDATE routes SET correction_id = plan_id WHERE id = %s", (journey.route_id,))
    assert driver_has_plan(journey.connection, journey.route_id, journey.route.plan_id, now=journey.now)


def test_a_plan_that_leads_back_to_a_station_has_not_reached_it_yet(journey: Journey) -> None:
    report(journey, halt(journey, journey.fuel_stops[0]), at_once=True)
    assert shown(journey)[0][1] is not None

    corrected(journey)

    assert shown(journey)[0] == (None, None)


def test_a_plan_with_a_station_twice_has_reached_it_once(journey: Journey) -> None:
    positions = halt(journey, journey.fuel_stops[0])
    report(journey, positions[:5], at_once=True)
    (plan,) = [version for version in journey.versions() if version.id == journey.route.plan_id]
    there = plan.document["stops"][0]
    between = {**there, "latitude": there["latitude"] + 1}

    corrected(journey, document=as_json({**plan.document, "stops": [there, between, there]}))
    assert shown(journey) == [(positions[0].recorded_at, None), (None, None), (None, None)]

    report(journey, positions[5:], at_once=True)
    assert shown(journey) == [(positions[0].recorded_at, positions[5].recorded_at), (None, None), (None, None)]


@pytest.mark.parametrize("at_once", [True, False], ids=["in one batch", "one by one"])
def test_a_station_that_comes_twice_in_a_row_is_reached_again_on_the_way_back(journey: Journey, at_once: bool) -> None:
    """Out and back, with no other fuel stop between: first at the station, then at a stop of the route, then there
    again. A truck that only turns round has not reached it twice."""
    (plan,) = [version for version in journey.versions() if version.id == journey.route.plan_id]
    there = plan.document["stops"][0]
    corrected(journey, document=as_json({**plan.document, "stops": [there, there]}))
    turned = {**NEWARK, "latitude": NEWARK["latitude"] + 0.5}
    journey.connection.execute(
        "UPDATE routes SET stops = %s WHERE id = %s", (as_json([JOLIET, turned, NEWARK]), journey.route_id)
    )
    out = halt(journey, there)
    journey.now = out[-1].recorded_at
    again = halt(journey, there)
    journey.now = again[-1].recorded_at + timedelta(hours=9)
    at_stop = positions_at(turned, journey.now, count=3, seconds_apart=60)
    journey.now = at_stop[-1].recorded_at + timedelta(hours=9)
    back = halt(journey, there)
    once = (out[0].recorded_at, out[5].recorded_at)

    report(journey, [*out, *again], at_once=at_once)
    assert shown(journey) == [once, (None, None)]

    report(journey, [*at_stop, *back], at_once=at_once)
    assert shown(journey) == [once, (back[0].recorded_at, back[5].recorded_at)]


def test_a_completed_route_tells_when_its_truck_fueled(journey: Journey) -> None:
    positions = halt(journey, journey.fuel_stops[0])
    report(journey, positions, at_once=True)
    report(journey, positions_at(NEWARK, journey.now + timedelta(hours=14), count=3, seconds_apart=60), at_once=True)

    assert journey.route.status == RouteStatus.COMPLETED
    assert shown(journey)[0] == (positions[0].recorded_at, positions[5].recorded_at)


def test_a_route_from_before_the_visits_were_kept_goes_on(journey: Journey) -> None:
    journey.connection.execute("UPDATE routes SET fuel_visits = NULL WHERE id = %s", (journey.route_id,))

    report(journey, halt(journey, journey.fuel_stops[0]), at_once=True)
    report(journey, journey.fixes(Leg(20, 40)), at_once=True)

    assert set(shown(journey)) == {(None, None)}
    assert journey.route.status == RouteStatus.ACTIVE
