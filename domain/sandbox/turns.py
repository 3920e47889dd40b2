"""A turn of a drive: the fixes that a simulated truck makes from where it is until now. Rules only: no storage.

A drive goes through these states:

- At the first stop. The truck stands there until the service has seen it, has planned and told the driver, and the
  route is `active`. Simulated time waits meanwhile, so that a fast drive does not outrun the service.
- On its road. It drives the road of the plan that it began with, stands at fuel stops and stops, and, where it was
  asked to, leaves the road and comes back. A plan that is made anew changes where it fuels.
- Ended: it has stood at the last stop, or the route has ended or has changed.

The same state and the same time give the same turn.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

import msgspec
import numpy as np
from msgspec import Struct

from domain.contract.shapes import Position
from domain.documents import FuelStopDocument, StopDocument, TimelineEntry
from domain.ids import shown_id
from domain.lifecycle import RouteStatus
from domain.magic_values import DriveWish
from domain.planning.explanation import unpack_explanation
from domain.roads import Road
from domain.roads.sphere import stop_point
from domain.sandbox.detours import DETOUR_MILES, detour_mile, with_detour
from domain.sandbox.simulated_truck import FIX_SECONDS, Refuel, SimulatedTrip, Truck, as_posted, refuel_at, refuels_on

START_FUEL_PERCENT = 25.0
_ABOVE_RESERVE_PERCENT = 10.0
_BELOW_RESERVE_PERCENT = 5.0
_LEAST_PERCENT = 2.0

_BEFORE_ACTIVE = (RouteStatus.PENDING, RouteStatus.DRAFT, RouteStatus.PLANNED)

MOST_FIXES = 250
"""Most fixes in one turn, without those of a stop at its end. A late drive goes on from there and never catches up."""

_LOOK_AGAIN = timedelta(seconds=1)
_LOOK_LATER = timedelta(seconds=30)
"""Waits until the truck checks again whether its route is active: in the first minute, and later."""
_PATIENCE = timedelta(minutes=1)
_STAND_AGAIN = timedelta(seconds=30)
"""A truck whose arrival is not noticed within this time makes its fixes once more."""
_REPLAN_WAIT = timedelta(seconds=5)
"""Time by our clock for the service to make a new plan for a truck off its road."""


class StoredTruck(Struct):
    """The state of a truck: `sandbox_drives.truck`."""

    fuel_percent: float
    mile: float = 0.0
    """The mile on its road, detour included."""
    next_stop: int = 0
    stood_at: datetime | None = None
    """The time by our clock when it came to the first stop; None before."""
    was_off_road: bool = False
    held: list[Position] = []
    """Fixes that its tracker will post late."""


class RouteToDrive(NamedTuple):
    """A route and its plan, with the fields that a drive needs."""

    id: UUID
    vehicle_id: UUID
    stops: Sequence[StopDocument]
    status: str | None
    """The route's status; None once it has another truck."""
    has_arrived: bool
    plan_id: UUID | None
    fuel_stops: Sequence[FuelStopDocument]
    """The fuel stops of the plan that the driver has."""
    road_plan_id: UUID | None
    """The plan whose road the truck drives; None while it stands at the first stop."""
    timeline: Sequence[TimelineEntry]
    explanation: bytes | None
    """Timeline and explanation of the plan whose road the truck drives; at the first stop, of the plan that the driver
    has."""
    leaves_road: bool
    mpg: float
    capacity_gallons: float


class Turn(NamedTuple):
    """The fixes of a turn, and the drive after it."""

    positions: list[Position]
    truck: StoredTruck
    simulated_at: datetime
    moves_at: datetime
    plan_id: UUID | None
    has_ended: bool = False


def first_fuel_percent(wish: DriveWish | None, reserve_percent: float) -> float:
    """The fuel level at the first stop: enough to start, too little for a long trip."""
    if wish is not None and wish.is_empty:
        return 0.0
    if wish is not None and wish.is_low_on_fuel:
        return max(reserve_percent - _BELOW_RESERVE_PERCENT, _LEAST_PERCENT)
    return min(max(START_FUEL_PERCENT, reserve_percent + _ABOVE_RESERVE_PERCENT), 95.0)


def take_turn(
    route: RouteToDrive, truck: StoredTruck, simulated_at: datetime, moves_at: datetime, *, speedup: int, now: datetime
) -> Turn:
    """The next turn of a drive. The next fix is made at `simulated_at`, which is `moves_at` by our clock."""
    truck = msgspec.structs.replace(truck)
    if route.status == RouteStatus.ACTIVE and route.explanation is not None:
        return _drive(route, truck, simulated_at, moves_at, speedup, now)
    if route.status in _BEFORE_ACTIVE and route.road_plan_id is None:
        return _stand_at_first_stop(route, truck, simulated_at, now)
    return Turn([*truck.held], truck, simulated_at, now, route.road_plan_id, has_ended=True)


def _stand_at_first_stop(route: RouteToDrive, truck: StoredTruck, simulated_at: datetime, now: datetime) -> Turn:
    """Stands at the first stop once, and again while nobody has noticed it."""
    tracked = _tracked(route, truck, simulated_at)
    positions: list[Position] = []
    is_unseen = route.status == RouteStatus.DRAFT and not route.has_arrived
    if truck.stood_at is None or (is_unseen and now - truck.stood_at >= _STAND_AGAIN):
        positions = tracked.stand(stop_point(route.stops[0]))
        truck.stood_at = now
    waited = now - truck.stood_at
    wait = _LOOK_AGAIN if waited < _PATIENCE else _LOOK_LATER
    return Turn(positions, truck, tracked.now, now + wait, None)


def _drive(
    route: RouteToDrive, truck: StoredTruck, simulated_at: datetime, moves_at: datetime, speedup: int, now: datetime
) -> Turn:
    if route.road_plan_id is None:  # it leaves the first stop now
        moves_at, truck.next_stop = now, 1
    most = timedelta(seconds=MOST_FIXES * FIX_SECONDS)
    until = simulated_at + min((now - moves_at) * speedup, most)
    tracked, way = _tracked(route, truck, simulated_at), _way_of(route)
    refuels = _refuels(route, way, truck)
    trip = SimulatedTrip(tracked, way.road, route.mpg, route.capacity_gallons, mile=truck.mile, refuels=refuels)
    fixes: list[Position] = []
    waits = timedelta()
    while tracked.now <= until and truck.next_stop < len(route.stops) and not waits:
        more, waits = _go_on(route, way, trip, truck)
        fixes += more
    truck.mile, truck.fuel_percent = trip.mile, max(tracked.fuel_percent, 0.0)
    has_ended = truck.next_stop >= len(route.stops)
    posted, truck.held = as_posted(fixes, truck.held, str(route.id))
    if has_ended:
        posted, truck.held = [*posted, *truck.held], []
    ahead = max(tracked.now - until, timedelta()) / speedup
    return Turn(posted, truck, tracked.now, now + ahead + waits, route.road_plan_id or route.plan_id, has_ended)


def _go_on(
    route: RouteToDrive, way: "_Way", trip: SimulatedTrip, truck: StoredTruck
) -> tuple[list[Position], timedelta]:
    """Drives half a minute further, or stands at the stop or the far end of the detour that is reached. Returns the
    fixes, and how long the truck then waits by our clock."""
    if way.far_mile is not None and not truck.was_off_road:
        if moved := trip.drive_on(way.far_mile):
            return moved, timedelta()
        truck.was_off_road = True
        return trip.truck.stand(trip.road.place_at(trip.mile)), _REPLAN_WAIT
    if moved := trip.drive_on(way.stop_miles.get(truck.next_stop, trip.mile)):
        return moved, timedelta()
    truck.next_stop += 1
    return trip.truck.stand(stop_point(route.stops[truck.next_stop - 1])), timedelta()


class _Way(NamedTuple):
    """The road that a truck drives, detour included."""

    road: Road
    stop_miles: dict[int, float]
    far_mile: float | None
    """The mile at the far end of the detour; None without a detour."""
    leaves_at: float
    """The mile at which the detour begins."""


def _way_of(route: RouteToDrive) -> _Way:
    assert route.explanation is not None  # noqa: S101 (`take_turn` has looked)
    stop_miles = {entry["stop"]: entry["mile"] for entry in route.timeline if entry["mile"] is not None}
    road = road_of_plan(route.explanation)
    first_leg = min(stop_miles.values(), default=0.0)
    if not route.leaves_road or first_leg <= 0:
        return _Way(road, stop_miles, None, 0.0)
    longer, far_mile = _detoured(route.explanation, first_leg)
    moved = {stop: mile + 2 * DETOUR_MILES for stop, mile in stop_miles.items()}
    return _Way(longer, moved, far_mile, detour_mile(first_leg))


def _refuels(route: RouteToDrive, way: _Way, truck: StoredTruck) -> list[Refuel]:
    """The fuel stops ahead, with one at the very start. Fuel stops of a newer plan are looked for on the old plan's
    road."""
    if route.road_plan_id not in (None, route.plan_id):
        return refuels_on(way.road, route.fuel_stops, after_mile=truck.mile)
    later = 2 * DETOUR_MILES if way.far_mile is not None else 0.0
    refuels = [
        refuel_at(stop, stop["milesFromOrigin"] + (later if stop["milesFromOrigin"] > way.leaves_at else 0.0))
        for stop in route.fuel_stops
    ]
    return [refuel for refuel in refuels if refuel.mile > truck.mile or not truck.mile]


@lru_cache(maxsize=64)
def road_of_plan(explanation: bytes) -> Road:
    """The road of a plan, kept in memory: each turn needs it, and unpacking takes some milliseconds."""
    unpacked = unpack_explanation(explanation)
    line = np.array(unpacked["line"], dtype=np.float64).reshape(-1, 2)
    return Road.of_line(line, np.array(unpacked["line_miles"], dtype=np.float64))


@lru_cache(maxsize=16)
def _detoured(explanation: bytes, first_leg_miles: float) -> tuple[Road, float]:
    return with_detour(road_of_plan(explanation), first_leg_miles)


def _tracked(route: RouteToDrive, truck: StoredTruck, simulated_at: datetime) -> Truck:
    return Truck(shown_id("veh", route.vehicle_id), simulated_at, truck.fuel_percent, seed=str(route.id))
