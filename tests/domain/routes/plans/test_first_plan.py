"""Plans of stored routes: what goes into one, and what becomes of it."""

import functools
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from domain.accounts.companies import set_policy
from domain.accounts.policy import Policy
from domain.database.connections import Connection, Tenant
from domain.lifecycle import RouteStatus
from domain.planning import stored_plans
from domain.planning.fuel_plan import ComputedPlan, NoPlan
from domain.planning.plan_tasks import PlanTask, load_plan_task, road_ahead
from domain.planning.trips import drive_trip
from domain.queue.jobs import (
    build_plan_job,
    make_menu_job,
    process_positions_job,
    review_plan_job,
    send_message_job,
)
from domain.roads import Point, Road
from domain.roads.highways import HighwayRoads
from domain.roads.truck_dimensions import ANY_TRUCK, TruckDimensions
from domain.routes import transitions
from domain.routes.plans import first_plan, review_requests, reviews
from domain.routes.plans.closed_stations import close_station
from domain.routes.progress.tracking import process_vehicles
from domain.routes.reading.explanations import read_route_explanation
from domain.settings import Settings
from domain.stations.corridor_offers import Corridor, StationPlaces, offers_along
from domain.telematics.feed import store_positions
from tests.domain.helpers import imported, planned_by_hand, positions_at, post, pushed, route_row, status_of
from tests.factories import DOT, JOLIET, NEWARK, PERRYSBURG, Fleet, put_demo_stations
from tests.jobs import jobs_of
from tests.rows import named

STOPS = [JOLIET, PERRYSBURG, NEWARK]


@pytest.fixture(autouse=True)
def _no_stations(connection: Connection) -> None:
    """Stations belong to no company: what other tests have stored must not be seen in this one's transaction."""
    connection.execute("DELETE FROM stations")


@pytest.fixture
def prices(connection: Connection, _no_stations: None, now: datetime) -> None:
    put_demo_stations(connection, now=now)


def arrived(
    connection: Connection,
    fleet: Fleet,
    settings: Settings,
    now: datetime,
    *,
    tenant: Tenant | None = None,
    stops: Sequence[dict[str, Any]] = STOPS,
    **fix: Any,
) -> UUID:
    """A route whose truck has just arrived at the first stop."""
    tenant = tenant or fleet.live
    route_id = imported(connection, tenant, now=now, stops=list(stops))
    fixes = list(enumerate(positions_at(stops[0], now, **fix)))
    store_positions(connection, tenant, fixes, now=now + timedelta(minutes=1))
    process_vehicles(connection, tenant.environment, fleet.trucks, settings=settings, now=now + timedelta(minutes=1))
    return route_id


def build(connection: Connection, task: PlanTask, *, now: datetime) -> tuple[Corridor, ComputedPlan | NoPlan]:
    road = road_ahead(task, HighwayRoads())
    limit = task.policy.max_detour_miles
    corridor = offers_along(connection, task.route.company_id, road, limit, StationPlaces(), now=now)
    return corridor, stored_plans.plan_for_task(task, road, corridor, now=now)


def task_of(connection: Connection, route_id: UUID, now: datetime) -> PlanTask:
    task = load_plan_task(connection, route_id, now=now)
    assert task is not None
    return task


@pytest.mark.usefixtures("prices")
def test_a_plan_moves_the_route_on_and_queues_its_message(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = arrived(connection, fleet, settings, now, fuel_percent=40)
    task = task_of(connection, route_id, now + timedelta(minutes=1))

    jobs_of(connection)
    outcome = first_plan.finish_plan(connection, task, *build(connection, task, now=now), now=now)
    jobs = jobs_of(connection)

    assert outcome == "planned"
    row = route_row(connection, route_id)
    assert (row.status, row.retry_at) == ("planned", None)
    message = named(connection).execute("SELECT * FROM messages WHERE route_id = %s", (route_id,)).fetchone()
    assert message is not None
    assert jobs == [send_message_job(message.id), make_menu_job(row.plan_id)]
    explanation = read_route_explanation(connection, route_id)
    assert explanation is not None
    assert explanation["inputs"]["start_gallons"] == 80.0
    assert explanation["inputs"]["roads"] == "highway-graph"


class AskedRoads(HighwayRoads):
    """Embedded roads that keep the trucks for which they were asked."""

    def __init__(self) -> None:
        super().__init__()
        self.trucks: list[TruckDimensions] = []

    def through(self, points: Sequence[Point], truck: TruckDimensions = ANY_TRUCK) -> Road:
        self.trucks.append(truck)
        return super().through(points, truck)


def test_the_road_is_asked_for_the_vehicle_and_the_plan_keeps_its_dimensions(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = arrived(connection, fleet, settings, now, stops=[JOLIET, PERRYSBURG])
    unknown = task_of(connection, route_id, now)
    connection.execute("UPDATE vehicles SET height_feet = 13.5, weight_pounds = 80000, hazmat = 'yes'")
    task, roads = task_of(connection, route_id, now), AskedRoads()

    for each in (unknown, task):
        road_ahead(each, roads)

    assert roads.trucks == [ANY_TRUCK, TruckDimensions(height_feet=13.5, weight_pounds=80_000.0, hazmat=True)]
    _, plan = build(connection, task, now=now)
    assert plan.inputs.sources["roads"]["truck"] == {"height_feet": 13.5, "weight_pounds": 80_000.0, "hazmat": True}


@pytest.mark.parametrize(
    ("fuel", "gallons"), [({"fuel_percent": 62.5}, 125.0), ({}, 100.0), ({"fuel_percent": 140}, 190.0)]
)
def test_start_fuel_is_the_newest_reading_or_else_the_policy_s_assumed_level(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, fuel: dict[str, Any], gallons: float
) -> None:
    route_id = arrived(connection, fleet, settings, now, stops=[JOLIET, PERRYSBURG], **fuel)

    _, plan = build(connection, task_of(connection, route_id, now + timedelta(minutes=1)), now=now)

    assert isinstance(plan, ComputedPlan)
    assert plan.trip.start_gallons == gallons


def test_a_reading_from_the_day_before_yesterday_is_ignored(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = arrived(connection, fleet, settings, now, fuel_percent=60)

    assert task_of(connection, route_id, now + timedelta(hours=23)).fuel is not None
    assert task_of(connection, route_id, now + timedelta(hours=25)).fuel is None


@pytest.mark.usefixtures("prices")
def test_a_level_that_jumped_up_on_the_road_is_not_planned_with(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    """20 % until 10 miles before the first stop, 80 % from there on; the plan starts with what the miles left of 20 %.

    Later readings of 80 % are no change: the plan is compared with what the truck read.
    """
    for minutes in range(30, 0, -1):
        place = {**JOLIET, "latitude": JOLIET["latitude"] - minutes / 69.09}
        percent = 20 if minutes > 10 else 80
        fix = positions_at(place, now - timedelta(minutes=minutes), count=1, speed_mph=60, fuel_percent=percent)
        post(connection, fleet.live, fix, now=now)
    route_id = arrived(connection, fleet, settings, now, fuel_percent=80)
    task = task_of(connection, route_id, now + timedelta(minutes=1))
    first_plan.finish_plan(connection, task, *build(connection, task, now=now), now=now)

    explanation = read_route_explanation(connection, route_id)
    assert explanation is not None
    told = explanation["sources"]["fuel"]
    burned = 100 * 30 / task.burn.mpg / (task.route.fuel_tank_capacity_gallons or 200)
    assert (told["percent"], told["believed"]) == (80, False)
    assert told["miles_since"] == pytest.approx(30, abs=0.2)
    assert told["expected_percent"] == pytest.approx(20 - burned, abs=0.2)
    assert told["off_percent"] == pytest.approx(60 + burned, abs=0.2)
    capacity = explanation["inputs"]["capacity_gallons"]
    assert explanation["inputs"]["start_gallons"] == pytest.approx(capacity * (20 - burned) / 100, abs=0.5)
    stored = named(connection).execute("SELECT fuel_percent FROM plans WHERE route_id = %s", (route_id,)).fetchone()
    assert stored is not None
    assert stored.fuel_percent == 80


@pytest.mark.usefixtures("prices")
def test_a_company_that_lets_few_trips_fall_below_the_reserve_keeps_more_fuel(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    set_policy(connection, fleet.company_id, Policy(trips_below_reserve_percent=5), DOT)
    route_id = arrived(connection, fleet, settings, now, fuel_percent=40)

    _, plan = build(connection, task_of(connection, route_id, now + timedelta(minutes=1)), now=now)

    assert isinstance(plan, ComputedPlan)
    (index, _), *_ = plan.purchases
    arriving, *_ = drive_trip(plan.trip, plan.purchases)
    burned = plan.inputs.start_gallons - arriving
    assert arriving >= plan.trip.reserve_gallons + 0.19 * burned
    explanation = plan.explanation()
    assert explanation["mileage_error"]["share_percent"] == 5
    assert explanation["candidates"][index]["floor_gallons"] > plan.trip.reserve_gallons


def test_a_live_plan_starts_where_the_truck_is_now_and_a_sandbox_plan_at_its_first_stop(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    routes = {
        tenant: arrived(connection, fleet, settings, now, tenant=tenant) for tenant in (fleet.live, fleet.sandbox)
    }
    later = now + timedelta(hours=6)
    for tenant in routes:
        store_positions(connection, tenant, list(enumerate(positions_at(PERRYSBURG, later))), now=later)
        process_vehicles(connection, tenant.environment, fleet.trucks, settings=settings, now=later)

    live, sandbox = (task_of(connection, route_id, later + timedelta(minutes=5)) for route_id in routes.values())

    assert (live.position, live.stops_left) == (Point(PERRYSBURG["latitude"], PERRYSBURG["longitude"]), (2,))
    assert (sandbox.position, sandbox.stops_left) == (Point(JOLIET["latitude"], JOLIET["longitude"]), (1, 2))


def test_no_plan_starts_at_a_place_where_the_truck_cannot_be(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    """The second tracker's fix has come in, and no job has processed it: it has no flag."""
    route_id = arrived(connection, fleet, settings, now, fuel_percent=40)
    wrong = positions_at(NEWARK, now + timedelta(seconds=70), count=2, fuel_percent=5)
    post(connection, fleet.live, wrong, now=now + timedelta(minutes=2))

    task = task_of(connection, route_id, now + timedelta(minutes=2))

    assert task.position == Point(JOLIET["latitude"], JOLIET["longitude"])
    assert task.fuel is not None
    assert task.fuel.percent == 40


def test_a_sandbox_plan_uses_the_newest_level_read_at_the_first_stop(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    """Not that of an earlier rehearsal, though its day was a later one, nor one from further on."""

    def told(place: dict[str, Any], at: datetime, percent: float, received_at: datetime) -> None:
        fixes = list(enumerate(positions_at(place, at, count=1, fuel_percent=percent)))
        store_positions(connection, fleet.sandbox, fixes, now=received_at)

    told(JOLIET, now + timedelta(days=2), 55, now - timedelta(hours=1))
    route_id = arrived(connection, fleet, settings, now, tenant=fleet.sandbox, fuel_percent=10)
    arrival = task_of(connection, route_id, now)
    told(JOLIET, now + timedelta(minutes=20), 90, now + timedelta(minutes=2))
    told(PERRYSBURG, now + timedelta(hours=6), 30, now + timedelta(minutes=2))

    task = task_of(connection, route_id, now + timedelta(minutes=3))

    assert (arrival.read_percent, task.read_percent) == (10, 90)
    assert task.as_of == now + timedelta(minutes=20)
    assert task.stops_left == arrival.stops_left


def test_no_plan_is_due_before_the_arrival_or_twice(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    waiting = imported(connection, fleet.live, now=now, vehicle={"unitNumber": "102"})
    assert load_plan_task(connection, waiting, now=now) is None

    route_id = arrived(connection, fleet, settings, now, stops=[JOLIET, PERRYSBURG], fuel_percent=90)
    task = task_of(connection, route_id, now)
    first_plan.finish_plan(connection, task, *build(connection, task, now=now), now=now)
    assert load_plan_task(connection, route_id, now=now) is None


def test_a_plan_for_input_that_has_changed_is_not_stored(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = arrived(connection, fleet, settings, now, stops=[JOLIET, PERRYSBURG], fuel_percent=90)
    task = task_of(connection, route_id, now)
    plan = build(connection, task, now=now)
    pushed(connection, fleet.live, now=now, start=now, stops=[JOLIET, NEWARK], externalId=task.route.external_id)

    assert first_plan.finish_plan(connection, task, *plan, now=now) == "outdated"
    assert named(connection).execute("SELECT FROM plans WHERE route_id = %s", (route_id,)).fetchone() is None


def test_an_infeasible_trip_is_an_error_that_says_which_leg(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = arrived(connection, fleet, settings, now, fuel_percent=40)  # and no station has a price
    task = task_of(connection, route_id, now)

    jobs_of(connection)
    outcome = first_plan.finish_plan(connection, task, *build(connection, task, now=now), now=now)
    jobs = jobs_of(connection)

    assert (outcome, jobs) == ("infeasible", [process_positions_job("live", [fleet.trucks[0]])])
    row = route_row(connection, route_id)
    assert row.status == "error"
    assert "from mile 0.0" in row.closed_reason
    explanation = read_route_explanation(connection, route_id)
    assert explanation is not None
    assert explanation["infeasible"] is not None
    assert explanation["infeasible"]["from_mile"] == 0.0


def test_planning_that_fails_is_retried_with_growing_pauses_and_ends_in_error(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = arrived(connection, fleet, settings, now)
    delays = []
    for _ in range(3):
        assert status_of(connection, route_id) is RouteStatus.DRAFT
        transitions.planning_failed(connection, route_id, max_attempts=4, now=now)
        delays.append(route_row(connection, route_id).retry_at - now)

    transitions.planning_failed(connection, route_id, max_attempts=4, now=now)

    assert delays == [timedelta(seconds=10), timedelta(seconds=20), timedelta(seconds=40)]
    assert status_of(connection, route_id) is RouteStatus.ERROR


def test_a_plan_is_due_until_it_is_made(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = arrived(connection, fleet, settings, now)
    due = functools.partial(first_plan.due_plans, connection)

    assert route_id not in due(now=now + timedelta(seconds=30))
    assert route_id in due(now=now + timedelta(minutes=2))
    assert route_id in due(now=now + timedelta(minutes=2, seconds=1))
    planned_by_hand(connection, route_id, now=now)
    assert route_id not in due(now=now + timedelta(minutes=2))


@pytest.mark.usefixtures("prices")
def test_no_driver_is_sent_to_a_station_that_was_closed_while_his_first_plan_was_computed(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id, then = arrived(connection, fleet, settings, now, fuel_percent=40), now + timedelta(minutes=1)
    task = task_of(connection, route_id, then)
    corridor, plan = build(connection, task, now=then)
    assert isinstance(plan, ComputedPlan)
    station_id = plan.stops[0].station.station_id
    close_station(connection, station_id, fleet.company_id, now + timedelta(days=7), DOT, now=then)
    jobs_of(connection)

    assert first_plan.finish_plan(connection, task, corridor, plan, now=then) == "outdated"
    assert jobs_of(connection) == [build_plan_job(route_id, fleet.company_id)]
    assert status_of(connection, route_id) == RouteStatus.DRAFT

    again = task_of(connection, route_id, then)
    assert first_plan.finish_plan(connection, again, *build(connection, again, now=then), now=then) == "planned"
    (shown,) = connection.execute("SELECT station_ids FROM plans WHERE route_id = %s", (route_id,)).fetchall()
    assert station_id not in shown[0]


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize("are_imported", [False, True])
def test_prices_that_are_imported_while_a_first_plan_is_computed_have_it_reviewed(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, are_imported: bool
) -> None:
    route_id, then = arrived(connection, fleet, settings, now, fuel_percent=40), now + timedelta(minutes=1)
    task = task_of(connection, route_id, then)
    corridor, plan = build(connection, task, now=then)
    if are_imported:
        put_demo_stations(connection, now=then)
        review_requests.after_price_changes(connection, None, now=then)
    jobs_of(connection)

    assert first_plan.finish_plan(connection, task, corridor, plan, now=then) == "planned"

    asked = [job for job in jobs_of(connection) if job.name == "plans.review"]
    assert asked == [review_plan_job(route_id, fleet.company_id)] * are_imported
    review = reviews.begin_review(connection, route_id, now=then)
    assert (review is not None) == are_imported
