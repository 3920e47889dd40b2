"""Plans of a learned lane take its road, say from which trips, and are as before without one."""

from datetime import datetime, timedelta
from typing import Any

from domain.accounts.companies import set_policy
from domain.accounts.policy import Policy
from domain.database.connections import Connection
from domain.documents import DRIVEN_LANE
from domain.ids import shown_id
from domain.planning.fuel_plan import ComputedPlan, NoPlan
from domain.planning.plan_tasks import load_plan_task, road_ahead
from domain.planning.road_notes import DRIVEN_NOTE, road_in_words
from domain.planning.stored_plans import plan_for_task
from domain.routes.progress.tracking import process_vehicles
from domain.settings import Settings
from domain.stations.corridor_offers import StationPlaces, offers_along
from tests.domain.driven_lanes.driving import BY_NASHVILLE, ROADS, STOPS, completed, fixes_along, learn
from tests.domain.helpers import imported, positions_at, post
from tests.factories import DOT, Fleet


def plan(connection: Connection, fleet: Fleet, settings: Settings, now: datetime) -> Any:
    """The plan of a truck that has just arrived at the first stop of the lane."""
    route_id = imported(connection, fleet.live, now=now, stops=STOPS)
    post(connection, fleet.live, positions_at(STOPS[0], now), now=now + timedelta(minutes=2))
    process_vehicles(connection, fleet.live.environment, fleet.trucks, settings=settings, now=now)
    task = load_plan_task(connection, route_id, now=now + timedelta(minutes=2))
    assert task is not None
    road = road_ahead(task, ROADS)
    corridor = offers_along(connection, fleet.company_id, road, 5.0, StationPlaces(), now=now)
    found = plan_for_task(task, road, corridor, now=now)
    assert isinstance(found, ComputedPlan | NoPlan)
    connection.execute("UPDATE routes SET status = 'canceled' WHERE id = %s", (route_id,))
    return found


def test_a_new_route_takes_the_road_and_its_plan_names_the_trips(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    ids = []
    for number in range(3):
        before = plan(connection, fleet, settings, now + timedelta(minutes=10 * number))
        assert before.explanation()["inputs"]["roads"] == "highway-graph"
        assert "trips" not in before.explanation()["sources"]["roads"]
        fixes = fixes_along(BY_NASHVILLE, now - timedelta(days=2 * (3 - number)), seed=number)
        ids.append(completed(connection, fleet, fleet.live, fixes))
        assert learn(connection, ids[-1])

    after = plan(connection, fleet, settings, now + timedelta(hours=1))
    explanation = after.explanation()
    assert explanation["inputs"]["roads"] == DRIVEN_LANE
    origin = explanation["sources"]["roads"]
    assert [trip["route_id"] for trip in origin["trips"]] == [shown_id("rte", one) for one in ids[::-1]]
    words = road_in_words(origin)
    assert words.truck_note == DRIVEN_NOTE
    assert "driven-lane (© OpenStreetMap contributors); 3 trips of the company took it: rte_" in words.credit
    assert after.inputs.road_miles > before.inputs.road_miles + 20

    set_policy(connection, fleet.company_id, Policy(driven_lanes=False), DOT)
    off = plan(connection, fleet, settings, now + timedelta(hours=2))
    assert off.explanation()["inputs"]["roads"] == "highway-graph"
    assert off.inputs.road_miles == before.inputs.road_miles
