"""The trips that the demo's trucks drive when the demo is made: some of them are in trouble."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from deploy.demo.drives import Drive
from deploy.demo.past import PUSHED_BEFORE, FleetTruck, History, StoredTrip, set_back
from deploy.demo.trips import FIRST_UNIT, OFF_ROAD, PastTrip
from domain.burn.figures import DEFAULT_CAPACITY_GALLONS, DEFAULT_MPG
from domain.contract.shapes import ArrivalWindow, Position, RouteInput, VehicleRef
from domain.driven_lanes.learning import note_completed
from domain.ids import shown_id
from domain.planning.fuel_plan import ComputedPlan
from domain.planning.plan_tasks import arrivals_on, road_ahead
from domain.planning.relaxation import FURTHEST_DETOUR_MILES
from domain.planning.stored_plans import plan_for_task
from domain.roads import Point
from domain.routes.plans import delivery, first_plan
from domain.routes.progress.tracking import process_vehicles
from domain.sandbox.detours import DETOUR_MILES, away_from
from domain.stations.corridor_offers import offers_along
from domain.telematics.feed import store_positions

LATE, LOW, SILENT, UNMAPPED = (0, 9, 17), 6, 8, 11
"""Positions in the fleet of the trucks that are late, low on fuel, silent, and whose TMS writes the unit number
differently."""

LOW_PERCENT = 12.0
SILENT_FOR = timedelta(minutes=85)
_OFF_ROAD_FOR = timedelta(minutes=32)
_LATE_SINCE = timedelta(minutes=50)
_STEP = timedelta(minutes=1)
_A_MILE = timedelta(minutes=1)
"""Time for a mile off the road."""


def unit_in_tms(truck: int) -> str:
    """The unit number as the TMS writes it."""
    unit = str(FIRST_UNIT + truck)
    return f"PRAIRIE {unit}" if truck == UNMAPPED else unit


class _Begun(NamedTuple):
    trip: PastTrip
    route_id: UUID
    truck: FleetTruck


def begin_present_trips(history: History, trips: Sequence[PastTrip]) -> None:
    """Pushes the routes, takes them to where their trucks are now, and leaves the fixes of the way to the workers."""
    now, connection, tenant = history.now, history.connection, history.tenant
    stored = []
    for trip, truck in zip(trips, history.fleet, strict=True):
        (route_id,) = history.push([_input(history, trip)], at=trip.starts_at - PUSHED_BEFORE)
        begun = _Begun(trip, route_id, truck)
        if begun.trip.truck == UNMAPPED:
            _stand(history, begun)
            continue
        one = _begin(history, begun)
        stored.append(one)
        store_positions(connection, tenant, list(enumerate(_way(one, now=now))), now=now)
    set_back(connection, tenant, stored, now=now)


def note_recent_roads(history: History, trips: Sequence[StoredTrip]) -> None:
    """Lets the roads of trips with positions be learned at once: their last fixes came in long ago."""
    recent = [one for one in trips if history.has_positions(one.drive)]
    note_completed(history.connection, [one.route_id for one in recent])
    set_back(history.connection, history.tenant, recent, now=history.now)


def _input(history: History, trip: PastTrip) -> RouteInput:
    body = history.route_input(trip)
    body.vehicle = VehicleRef(unit_number=unit_in_tms(trip.truck))
    if trip.truck in LATE:
        body.stops[-1].arrival_window = ArrivalWindow(end=history.now - _LATE_SINCE)
    return body


def _drive_before_plan(history: History, begun: _Begun) -> Drive:
    """The truck at its first stop, before it has a plan."""
    road, _ = history.lane(begun.trip.lane)
    return Drive.standing(road, begun.trip.starts_at, start_percent=_percent(begun.trip))


def _percent(trip: PastTrip) -> float:
    return LOW_PERCENT if trip.truck == LOW else trip.fuel_percent


def _stand(history: History, begun: _Begun) -> None:
    """The truck stands at its first stop now, and its route waits."""
    drive = _drive_before_plan(history, begun)
    fixes = drive.standing_first(shown_id("veh", begun.truck.vehicle_id))
    late = history.now - max(fix.recorded_at for fix in fixes)
    for fix in fixes:
        fix.recorded_at += late
    store_positions(history.connection, history.tenant, list(enumerate(fixes)), now=history.now)


def _begin(history: History, begun: _Begun) -> StoredTrip:
    """Makes the plan of a truck that stood at its first stop, as of that moment, and gives it to the driver."""
    connection, settings, trip = history.connection, history.settings, begun.trip
    drive = _drive_before_plan(history, begun)
    at = trip.starts_at - timedelta(minutes=1)
    standing = drive.standing_first(shown_id("veh", begun.truck.vehicle_id))
    store_positions(connection, history.tenant, list(enumerate(standing)), now=at)
    process_vehicles(connection, history.tenant.environment, [begun.truck.vehicle_id], settings=settings, now=at)
    plan = _plan(history, begun, at)
    burns = (begun.truck.mpg or DEFAULT_MPG) * trip.mpg_factor
    capacity = begun.truck.capacity_gallons or DEFAULT_CAPACITY_GALLONS
    driven = Drive.of(
        plan, trip.starts_at, lateness=1.0, start_percent=_percent(trip), mpg=burns, capacity_gallons=capacity
    )
    _, corridor = history.lane(trip.lane)
    return StoredTrip(trip, begun.route_id, begun.truck, plan, driven, corridor)


def _plan(history: History, begun: _Begun, at: datetime) -> ComputedPlan:
    connection = history.connection
    task = first_plan.begin_plan(connection, begun.route_id, wait=timedelta(), now=at)
    if task is None:
        raise ValueError(f"{begun.trip.external_id} waits for no plan")
    road = road_ahead(task, history.roads)
    near, further = (
        offers_along(
            connection,
            history.tenant.company_id,
            road,
            miles,
            history.places,
            now=history.now,
            arrivals=arrivals_on(task, road),
        )
        for miles in (task.policy.max_detour_miles, FURTHEST_DETOUR_MILES)
    )
    plan = plan_for_task(task, road, near, further=further, now=at)
    if not isinstance(plan, ComputedPlan):
        raise ValueError(f"{begun.trip.external_id} has no feasible plan")
    first_plan.finish_plan(connection, task, near, plan, now=at)
    told = at + timedelta(seconds=2)
    delivery.start_delivery(connection, history.message_of(begun.route_id), settings=history.settings, now=told)
    return plan


def _way(one: StoredTrip, *, now: datetime) -> list[Position]:
    """The fixes since the truck has left its first stop."""
    truck = one.trip.truck
    until = now - SILENT_FOR if truck == SILENT else now
    fixes = [
        fix
        for fix in one.drive.positions(shown_id("veh", one.truck.vehicle_id), _STEP, until=until)
        if fix.recorded_at > one.drive.departure
    ]
    return _off_road(one, fixes, now - _OFF_ROAD_FOR) if truck == OFF_ROAD else fixes


def _off_road(one: StoredTrip, fixes: list[Position], since: datetime) -> list[Position]:
    """The fixes of a truck that has left its road at a moment, and drives straight away from it."""
    left = [fix for fix in fixes if fix.recorded_at >= since]
    miles = [min((fix.recorded_at - left[0].recorded_at) / _A_MILE, DETOUR_MILES) for fix in left]
    leaves = Point(left[0].latitude, left[0].longitude)
    for fix, place in zip(left, away_from(one.drive.road, leaves, miles), strict=True):
        fix.latitude, fix.longitude = place
    return fixes
