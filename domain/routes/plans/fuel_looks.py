"""Looks at the fuel of trucks on their way, and has a new plan made in time where it does not last, or where the level
of the next purchase does not last behind it. `replans` makes it.
Trucks that send no level are looked at by their miles, and no plan is made for them.

The limits are apart from those of `deviating_trucks`: a truck that runs dry has no use for a switch."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from domain.burn.by_miles import next_look_by_time
from domain.burn.shortfalls import ANY_PERCENT, SOONEST, NextLook, Outlook, next_look
from domain.clock import later
from domain.database.connections import Connection
from domain.lifecycle import Environment
from domain.routes.plans.fuel_outlooks import (
    FuelAhead,
    FuelOfTrip,
    TruckOnTrip,
    fuel_ahead,
    fuel_by_miles,
    fuel_of_trips,
)
from domain.routes.plans.replans import (
    LEAST_BETWEEN,
    MOST_BURN_ATTEMPTS,
    MOST_BURN_REPLANS,
    MOST_LEVEL_ATTEMPTS,
    MOST_LEVEL_REPLANS,
)
from domain.telematics import looks
from domain.telematics.arrivals import Visit
from domain.telematics.tracks import Track

_MOST_LOOKS = 200
"""Most looks at a truck of the sandbox in one job: its simulated days may come in at once."""


class TruckToLookAt(NamedTuple):
    """A truck on an active route. `until`: only its fixes before that time are known so far. `due_at`: the time of the
    newest fix that makes a look due, of a live truck."""

    track: Track
    route_id: UUID
    visits: Mapping[int, Visit]
    until: datetime | None
    due_at: datetime | None

    @property
    def arrivals(self) -> dict[int, datetime]:
        return {stop: visit.arrived_at for stop, visit in self.visits.items()}


class Shortfall(NamedTuple):
    """The fuel of a truck, or the level of its next purchase, does not last, and a new plan may be made. `at` is the
    time of the fix that shows it."""

    kind: Literal["burn", "level"]
    route_id: UUID
    at: datetime
    text: str
    fuel_stops_passed: int


class Looked(NamedTuple):
    """The outcome of a look: the next one, and since when the fuel does not last."""

    look: NextLook | None
    """The look is None where the truck is looked at no more."""
    low_since: datetime | None
    shortfall: Shortfall | None = None


def look_at_trucks(connection: Connection, environment: str, trucks: Sequence[TruckToLookAt]) -> dict[UUID, Looked]:
    """Looks at the fuel of these trucks, whose routes and tracks are locked, where a fix makes a look due. Returns the
    outcomes, by vehicle. In the sandbox, where time is simulated, each look takes place as of the fix that makes it
    due, so nothing depends on how the fixes come in."""
    by_vehicle = {one.track.vehicle_id: one for one in trucks}
    due = {vehicle_id: one.due_at for vehicle_id, one in by_vehicle.items() if one.due_at is not None}
    if environment != Environment.LIVE:
        looks_at = {vehicle_id: look for vehicle_id, one in by_vehicle.items() if (look := one.track.look) is not None}
        due = _first_due(connection, environment, looks_at, by_vehicle)
    trips = fuel_of_trips(connection, [by_vehicle[vehicle_id].route_id for vehicle_id in due]) if due else {}
    watched = {trip.vehicle_id: trip for trip in trips.values() if trip.watch_burn and trip.coarse_way is not None}
    on_trips = {
        vehicle_id: TruckOnTrip(trip, by_vehicle[vehicle_id].arrivals, due[vehicle_id])
        for vehicle_id, trip in watched.items()
    }
    found = fuel_ahead(connection, environment, (truck for truck in on_trips.values() if not truck.trip.waits))
    no_more = dict.fromkeys(due, Looked(None, None))
    return no_more | {
        vehicle_id: _look_on(connection, by_vehicle[vehicle_id], truck, found.get(vehicle_id))
        for vehicle_id, truck in on_trips.items()
    }


def _first_due(
    connection: Connection,
    environment: str,
    waiting: Mapping[UUID, NextLook],
    trucks: Mapping[UUID, TruckToLookAt],
) -> dict[UUID, datetime]:
    until = {vehicle_id: trucks[vehicle_id].until for vehicle_id in waiting}
    return looks.due_fixes(connection, environment, waiting, until)


def _look_on(connection: Connection, to_look_at: TruckToLookAt, truck: TruckOnTrip, found: FuelAhead | None) -> Looked:
    """Looks at a truck as often as its fixes make it due: once, if they are live. `found` is its fuel at the first
    time."""
    track, environment = to_look_at.track, truck.trip.environment
    looked = _look(connection, truck, found, track.low_since)
    for _ in range(_MOST_LOOKS if environment != Environment.LIVE else 0):
        if looked.shortfall is not None or looked.look is None:
            break
        due = _first_due(connection, environment, {track.vehicle_id: looked.look}, {track.vehicle_id: to_look_at})
        if not due:
            break
        truck = truck._replace(at=due[track.vehicle_id])
        found = fuel_ahead(connection, environment, [truck]).get(track.vehicle_id)
        looked = _look(connection, truck, found, looked.low_since)
    return looked


def _look(connection: Connection, truck: TruckOnTrip, found: FuelAhead | None, low_since: datetime | None) -> Looked:
    trip, arrivals, at = truck
    again = NextLook(later(at, SOONEST), ANY_PERCENT, later(at, 2 * SOONEST))
    if trip.waits:
        return Looked(again, low_since)
    if found is not None and not found.sends_levels:
        return _look_by_miles(fuel_by_miles(connection, trip, arrivals, at=at), low_since, at)
    if found is None or not found.is_current:
        return Looked(again, low_since)
    look = next_look(found.outlook, at=at, mile=found.mile, ahead=found.ahead)
    if found.outlook is None:
        return Looked(look, low_since)
    if not found.outlook.falls_short:
        return Looked(look, None, _other_purchase(trip, found, at) if found.needs_other_purchase else None)
    return Looked(look, low_since or at, _shortfall(trip, found, at))


def _look_by_miles(outlook: Outlook | None, low_since: datetime | None, at: datetime) -> Looked:
    """Looks at a truck that sends no level. Only dispatchers are told: its driver sees the gauge, and no plan from here
    would know more than his."""
    if outlook is None:
        return Looked(next_look_by_time(at, miles_left=0.0), low_since)
    look = next_look_by_time(at, miles_left=outlook.ahead.mile - outlook.mile)
    return Looked(look, (low_since or at) if outlook.falls_short else None)


def _shortfall(trip: FuelOfTrip, found: FuelAhead, at: datetime) -> Shortfall | None:
    """The shortfall, where the limits of a trip let a new plan be made."""
    is_over = trip.burn_replans >= MOST_BURN_REPLANS or trip.burn_attempts >= MOST_BURN_ATTEMPTS
    if is_over or at - trip.as_of < LEAST_BETWEEN:
        return None
    return Shortfall("burn", trip.id, at, found.sentence, found.fuel_stops_passed)


def _other_purchase(trip: FuelOfTrip, found: FuelAhead, at: datetime) -> Shortfall | None:
    """The purchase that is reached below the reserve, or whose level does not last, where the limits of a trip let a
    driver be told another one."""
    is_over = trip.told >= MOST_LEVEL_REPLANS or trip.level_attempts >= MOST_LEVEL_ATTEMPTS
    if is_over or at - trip.as_of < LEAST_BETWEEN:
        return None
    return Shortfall("level", trip.id, at, found.sentence, found.fuel_stops_passed)
