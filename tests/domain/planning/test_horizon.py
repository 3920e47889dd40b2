"""A plan ends after so many road miles, and everybody who reads it is told."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from domain.database.connections import Connection
from domain.planning import stored_plans
from domain.planning.fuel_plan import NoPlan, compute_plan
from domain.planning.plan_tasks import load_plan_task, road_ahead
from domain.planning.reasons import with_reasons
from domain.planning.trips import drive_trip
from domain.roads import Leg, Road
from domain.roads.highways import HighwayRoads
from domain.routes.plans import first_plan
from domain.routes.progress.tracking import process_vehicles
from domain.routes.reading.explanations import read_route_explanation
from domain.routes.transitions import driver_has_plan
from domain.settings import Settings
from domain.stations.corridor_offers import StationPlaces, offers_along
from domain.stations.stations import store_station_rows
from tests.domain.helpers import imported, positions_at, post, route_row
from tests.domain.planning.plans import NOW, feasible, inputs, meridian, priced
from tests.factories import JOLIET, NEWARK, PERRYSBURG, STATIONS, Fleet
from tests.rows import named


def leg(*places: tuple[float, float], miles: Sequence[float]) -> Leg:
    return Leg(np.array(places), np.array(miles), miles[-1] / 50, "test")


def test_a_road_is_cut_at_a_mile_and_keeps_the_rest() -> None:
    road = meridian(400.0, 1500.0)
    cut = road.up_to(600.0)

    assert (cut.distance_miles, cut.beyond_miles, cut.whole_miles) == (600.0, 900.0, 1500.0)
    assert cut.line_miles[-1] == 600.0
    assert cut.line[-1] == pytest.approx((30.0 + 600 / 69.0976, -100.0), abs=1e-3)
    assert (cut.stop_miles, cut.stop_hours) == (road.stop_miles, road.stop_hours)
    assert cut.up_to(500.0).whole_miles == 1500.0
    assert road.up_to(1500.0) is road


def test_a_road_is_cut_where_it_crosses_the_antimeridian() -> None:
    road = Road.of([leg((10.0, 179.97), (10.0, -179.97), miles=[0.0, 4.1])])
    latitude, longitude = road.up_to(3.0).line[-1]
    assert (latitude, longitude) == (pytest.approx(10.0), pytest.approx(-179.9861, abs=1e-3))


def test_a_road_is_cut_at_a_stop_and_where_vertices_share_a_mile() -> None:
    twice = Road.of(
        [leg((30.0, -100.0), (30.0, -99.9), miles=[0.0, 6.0]), leg((30.0, -99.9), (30.0, -99.8), miles=[0.0, 6.0])]
    )
    cut = twice.up_to(6.0)
    assert cut.line_miles.tolist() == sorted(cut.line_miles)
    assert cut.line[-1] == pytest.approx((30.0, -99.9))


def test_the_fuel_wanted_at_the_end_is_wanted_where_the_plan_ends() -> None:
    road = meridian(400.0, 1000.0, 1500.0).up_to(600.0)
    plan = feasible(inputs(road, priced(300, 3.5), priced(900, 1.0), end_fuel_percent=40.0))

    assert [stop.miles_from_origin for stop in plan.stops] == [300.0]
    assert drive_trip(plan.trip, plan.purchases)[-1] >= 80.0
    assert plan.document()["totalDistanceMiles"] == 600.0
    explanation = with_reasons(plan.explanation())
    assert (explanation["inputs"]["distance_miles"], explanation["inputs"]["road_miles"]) == (600.0, 1500.0)
    assert explanation["ends_early"] is not None
    assert "ends at mile 600.0" in explanation["ends_early"]
    assert explanation["line_miles"][-1] == 600.0


def test_stops_beyond_the_end_keep_their_mile_and_a_time() -> None:
    """The way there and the rests on it are known. Only fuel stops are not planned there."""
    whole = meridian(400.0, 1000.0, 1500.0)
    far, cut = (feasible(inputs(road, priced(300, 3.5))) for road in (meridian(400.0), whole.up_to(600.0)))

    assert [point.mile for point in cut.points] == [400.0, 1000.0, 1500.0]
    assert cut.points[0] == far.points[0]
    arrivals = [point.arrival for point in cut.points if point.arrival is not None]
    assert arrivals == sorted(arrivals)
    assert arrivals[-1] - NOW == timedelta(hours=30 + 2 * 10, minutes=30)


def test_a_plan_that_reaches_the_destination_does_not_end_early() -> None:
    assert with_reasons(feasible(inputs(meridian(100.0).up_to(100.0))).explanation())["ends_early"] is None


def test_an_infeasible_plan_explains_the_whole_road() -> None:
    plan = compute_plan(replace(inputs(meridian(3000.0).up_to(2000.0)), further_offers=()))
    assert isinstance(plan, NoPlan)
    assert plan.inputs.road_miles == 3000.0
    assert 0 <= plan.infeasible.from_mile <= plan.infeasible.to_mile <= 2000.0


class Far:
    """A route of three stops, whose truck stands at the first one."""

    def __init__(self, connection: Connection, fleet: Fleet, settings: Settings, now: datetime) -> None:
        self.connection, self.fleet, self.settings, self.now = connection, fleet, settings, now
        store_station_rows(connection, STATIONS, now=now)
        self.route_id = imported(connection, fleet.live, now=now, stops=[JOLIET, PERRYSBURG, NEWARK])
        fixes = [positions_at(JOLIET, now - timedelta(seconds=at), count=1, fuel_percent=40)[0] for at in (90, 60, 30)]
        post(connection, fleet.live, fixes, now=now)
        process_vehicles(connection, "live", fleet.trucks, settings=settings, now=now)

    def plan(self, horizon_miles: float) -> Any:
        task = load_plan_task(self.connection, self.route_id, now=self.now)
        assert task is not None
        road = road_ahead(task, HighwayRoads()).up_to(horizon_miles)
        corridor = offers_along(self.connection, self.fleet.company_id, road, 5.0, StationPlaces(), now=self.now)
        plan = stored_plans.plan_for_task(task, road, corridor, now=self.now)
        first_plan.finish_plan(self.connection, task, corridor, plan, now=self.now)
        return plan


def test_route_message_and_explanation_say_where_the_plan_ends(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    far = Far(connection, fleet, settings, now)
    plan = far.plan(300.0)

    row = route_row(connection, far.route_id)
    assert row.distance_miles == plan.inputs.road_miles > 700
    message = named(connection).execute("SELECT id, text FROM messages WHERE route_id = %s", (far.route_id,)).fetchone()
    assert message is not None
    assert f"mile {row.distance_miles:.0f}" in message.text.splitlines()[1]
    assert f"This plan ends at mile 300 of {row.distance_miles:.0f}." in message.text
    assert "destination, mile" not in message.text
    explanation = read_route_explanation(connection, far.route_id)
    assert explanation is not None
    assert explanation["ends_early"] is not None
    assert len(explanation["candidates"]) == explanation["candidates_total"]


def test_an_explanation_is_read_in_pages(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    far = Far(connection, fleet, settings, now)
    far.plan(10_000.0)
    whole = read_route_explanation(connection, far.route_id)
    assert whole is not None

    first, second = (read_route_explanation(connection, far.route_id, limit=5, offset=at) for at in (0, 5))

    assert first is not None
    assert second is not None
    assert first["candidates"] + second["candidates"] == whole["candidates"][:10]
    assert first["candidates_total"] == second["candidates_total"] == len(whole["candidates"])
    assert first["line"] == whole["line"]
    assert second["line"] == []


def test_a_correction_keeps_the_whole_distance(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    far = Far(connection, fleet, settings, now)
    far.plan(300.0)
    before = route_row(connection, far.route_id).distance_miles
    plan_id: UUID = route_row(connection, far.route_id).plan_id
    connection.execute(
        "UPDATE routes SET status = 'active', correction_id = plan_id, distance_miles = 1 WHERE id = %s",
        (far.route_id,),
    )

    driver_has_plan(connection, far.route_id, plan_id, now=now)

    assert route_row(connection, far.route_id).distance_miles == before
