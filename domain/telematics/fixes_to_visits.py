"""From a batch of fixes to the visits of one route: which route the truck is on, which fixes count, and which visits
they make. Rules only, on top of `arrivals`.

Each fix has the times of two clocks:

- `recorded_at`, by the tracker, decides the visits. It is compared with the route's `scheduled_start`, and with
`free_since`, the fix by which the truck completed its route before.
- `received_at`, by our clock, is when a fix was known. It is compared with the route's `imported_at`, and with
`freed_at`, when the route before was completed."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple
from uuid import UUID

from domain.database.statements import NotNull
from domain.documents import PlaceDocument
from domain.encoding import utc_text
from domain.lifecycle import Environment, RouteStatus
from domain.roads import Point, great_circle_miles
from domain.roads.implausible_fixes import implausible_fixes
from domain.roads.sphere import METERS_PER_MILE, MILES_PER_DEGREE, stop_point
from domain.telematics import arrivals, manual_stop_events
from domain.telematics.arrivals import Fix, TruckRoute, Visit
from domain.telematics.fix_batches import DrivenStretch, ReceivedFix
from domain.telematics.rechecks import STANDING_MINUTES
from domain.telematics.tracks import Track


class FuelVisit(PlaceDocument):
    """A fuel stop of the plan that the driver has, as it is in `routes.fuel_visits`. The times are ISO 8601; None until
    they are known."""

    arrivedAt: str | None
    departedAt: str | None


class OpenRoute(NamedTuple):
    """A route that its truck can move on."""

    id: UUID
    company_id: UUID
    environment: str
    vehicle_id: NotNull[UUID]
    status: str
    scheduled_start: datetime
    stops: list[PlaceDocument]
    arrived_at: datetime | None
    imported_at: NotNull[datetime]
    fuel_visits: list[FuelVisit] | None = None


def current_routes(routes: Sequence[OpenRoute], tracks: Sequence[Track], *, early: timedelta) -> dict[UUID, OpenRoute]:
    """The route that each truck is on, by vehicle; trucks on none are left out."""
    by_vehicle: dict[UUID, dict[UUID, OpenRoute]] = {}
    for route in routes:
        by_vehicle.setdefault(route.vehicle_id, {})[route.id] = route
    current = {}
    for track in tracks:
        own = by_vehicle.get(track.vehicle_id, {})
        choices = [
            TruckRoute(route.id, RouteStatus(route.status), route.scheduled_start, route.arrived_at)
            for route in own.values()
        ]
        chosen = arrivals.current_route(choices, track.newest_at, early=early)
        if chosen is not None:
            current[track.vehicle_id] = own[chosen.route_id]
    return current


def first_that_may_count(track: Track, route: OpenRoute, *, early: timedelta) -> datetime:
    """The time from which on fixes of the track are loaded. Earlier ones do not count (see `_counts`), and one late fix
    from last month would load the whole month."""
    since = track.unprocessed_from
    # Compares differences of times: a start in the year 1 less some hours is no datetime.
    if route.scheduled_start - since > early:
        since = route.scheduled_start - early
    if route.environment == Environment.LIVE and track.free_since is not None:
        since = max(since, track.free_since)
    return since


def fixes_of_route(route: OpenRoute, track: Track, batch: Sequence[ReceivedFix]) -> Sequence[ReceivedFix]:
    """The fixes of a batch without those of the truck's route before, where simulated time has started over: both are
    of the same hours, and the truck would seem to be here and there."""
    if route.environment == Environment.LIVE or track.free_since is None or track.freed_at is None:
        return batch
    since = [received for received in batch if received.received_at > track.freed_at]
    return since if any(received.fix.recorded_at < track.free_since for received in since) else batch


def believed_fixes(batch: Sequence[ReceivedFix]) -> tuple[list[ReceivedFix], dict[datetime, bool]]:
    """The plausible fixes of a batch; and `recorded_at` of those whose flag has to change, with the new flag (True:
    implausible). Fixes are judged from the first believed one on; implausible ones before it keep their flag."""
    start = next((index for index, one in enumerate(batch) if not one.fix.implausible), len(batch))
    tail = batch[start:]
    fixes = [one.fix for one in tail]
    wild = implausible_fixes(fixes)
    flags = {
        fix.recorded_at: fix.recorded_at in wild for fix in fixes if fix.implausible is not (fix.recorded_at in wild)
    }
    return [received for received in tail if received.fix.recorded_at not in wild], flags


def moves_nothing(
    route: OpenRoute, before: Mapping[int, Visit], stretch: DrivenStretch, *, radius_meters: float
) -> bool:
    """True if `visits_after` and `fuel_visits_after` the fixes of a stretch are those before."""
    fuel_stops = route.fuel_visits or ()
    return _stay(route.stops, before, stretch, radius_meters) and _stay(
        fuel_stops, _known_fuel_visits(route), stretch, radius_meters
    )


def _stay(stops: Sequence[PlaceDocument], before: Mapping[int, Visit], stretch: DrivenStretch, meters: float) -> bool:
    """True if no fix of a stretch changes the visits of these stops: the truck had left those where it was, and comes
    to none. Or it stands at the last of them all the time."""
    last = max(before, default=-1)
    for index, stop in enumerate(stops):
        visit = before.get(index)
        if visit is None or (visit.departed_at is not None and visit.departed_at < stretch.first_at):
            stays = _is_far(stop, stretch, meters)
        else:
            stands = index == last and visit.departed_at is None and visit.arrived_at < stretch.first_at
            stays = stands and _is_around(stop, stretch, meters)
        if not stays:
            return False
    return True


def _is_far(stop: PlaceDocument, stretch: DrivenStretch, meters: float) -> bool:
    """True where a stop is further from all places within these bounds, by its latitude or by its longitude alone."""
    degrees = 1.1 * meters / METERS_PER_MILE / MILES_PER_DEGREE
    latitude = stop["latitude"]
    if max(stretch.south - latitude, latitude - stretch.north) > degrees:
        return True
    poleward = max(abs(stretch.south), abs(stretch.north), abs(latitude))
    around = (stop["longitude"] - 360, stop["longitude"], stop["longitude"] + 360)
    across = min(max(stretch.west - longitude, longitude - stretch.east) for longitude in around)
    return poleward < 89 and across * math.cos(math.radians(poleward)) > degrees


def _is_around(stop: PlaceDocument, stretch: DrivenStretch, meters: float) -> bool:
    """True where no place within these bounds is further from a stop: the furthest one is a corner."""
    corners = (
        Point(latitude, longitude)
        for latitude in (stretch.south, stretch.north)
        for longitude in (stretch.west, stretch.east)
    )
    return stretch.east - stretch.west < 1 and all(
        great_circle_miles(stop_point(stop), corner) * METERS_PER_MILE <= meters for corner in corners
    )


def visits_after(
    route: OpenRoute,
    track: Track,
    before: Mapping[int, Visit],
    believed: Sequence[ReceivedFix],
    *,
    early: timedelta,
    radius_meters: float,
) -> dict[int, Visit]:
    """The visits of a route after these fixes, by the position of their stops. `before` are the stored visits.

    The fixes are processed in two passes. The first one starts from the visits known before the first of the fixes, for
    a late fix may make a stored visit earlier. `merge_visits` rejects visits that would undo, delay or reorder stored
    ones. The second pass starts from the outcome: a rejected late fix must not mask a newer one.

    For example, the truck arrived at stop 0 at 12:00. Now its tracker sends what it has kept:

        02:00  at stop 1    first pass: arrived at stop 1       second pass: before stop 0, moves nothing
        15:00  at stop 1    first pass: stop 1 is known         second pass: arrived at stop 1
                            merge: rejects 02:00 at stop 1,     merge: accepts 15:00 at stop 1
                            for stop 0 was reached at 12:00
    """
    if not believed or _stay(route.stops, before, DrivenStretch.of(track.vehicle_id, believed), radius_meters):
        return dict(before)
    standing_since = _standing_since(route, believed)
    counting = [received for received in believed if _counts(received, route, track, standing_since, early=early)]
    fixes = [received.fix for received in counting]
    if not fixes:
        return dict(before)
    stops = [stop_point(stop) for stop in route.stops]
    last_seen = _last_seen(track, [received.fix for received in believed], fixes)
    before_import = {received.fix.recorded_at for received in counting if received.received_at < route.imported_at}

    def processed(known: Mapping[int, Visit]) -> dict[int, Visit]:
        return arrivals.process_fixes(
            stops, known, fixes, radius_meters=radius_meters, last_seen=last_seen, before_import=before_import
        )

    known = _known_by(fixes[0].recorded_at, before)
    merged = arrivals.merge_visits(before, processed(known))
    if not known == before == merged:  # else the second pass would be the first one again
        merged = arrivals.merge_visits(merged, processed(merged))
    return manual_stop_events.with_implied_departures(stops, merged)


def fuel_visits_after(
    route: OpenRoute,
    track: Track,
    visits: Mapping[int, Visit],
    believed: Sequence[ReceivedFix],
    *,
    early: timedelta,
    radius_meters: float,
) -> list[FuelVisit] | None:
    """The visits of the fuel stops after these fixes, by the rules for the stops of a route; None if nothing changes.
    They do not depend on the visits of those stops (`visits`, after these fixes): a truck may fuel beside one, or on
    the way to it. But a station that comes twice in a row is not reached again before one of those stops."""
    if not route.fuel_visits:
        return None
    after = before = _known_fuel_visits(route)
    for _ in range(1 + _repeats(route.fuel_visits)):  # a later pass knows that the first visit of a station has ended
        places = _fuel_places(route.fuel_visits, after, route.stops, visits)
        stops = route._replace(stops=[place.stop for place in places])
        known = {index: place.visit for index, place in enumerate(places) if place.visit is not None}
        found = visits_after(stops, track, known, believed, early=early, radius_meters=radius_meters)
        after = {number: visit for index, visit in found.items() if (number := places[index].number) is not None}
    if after == before:
        return None
    return [_with_visit(stop, after.get(index)) for index, stop in enumerate(route.fuel_visits)]


class _FuelPlace(NamedTuple):
    """A place on the way from fuel stop to fuel stop."""

    stop: PlaceDocument
    number: int | None
    """The number of the fuel stop, from 0; None for a stop of the route."""
    visit: Visit | None


def _repeats(fuel_stops: Sequence[PlaceDocument]) -> int:
    return sum(arrivals.are_one_place(stop_point(one), stop_point(other)) for one, other in pairwise(fuel_stops))


def _fuel_places(
    fuel_stops: Sequence[PlaceDocument],
    known: Mapping[int, Visit],
    stops: Sequence[PlaceDocument],
    visits: Mapping[int, Visit],
) -> list[_FuelPlace]:
    """The places that the truck can reach, in order: the fuel stops with their `known` visits. Where a station comes
    twice in a row, a stop of the route stands between the two: the first of `stops` that the truck has reached since it
    fueled, by its `visits`. Before it has reached one, the station is there once."""
    places: list[_FuelPlace] = []
    for number, stop in enumerate(fuel_stops):
        if number and arrivals.are_one_place(stop_point(fuel_stops[number - 1]), stop_point(stop)):
            fueled = known.get(number - 1)
            reached = [
                (visit.arrived_at, _FuelPlace(stops[index], None, visit))
                for index, visit in visits.items()
                if fueled is not None
                and visit.arrived_at > fueled.arrived_at
                and not arrivals.are_next_door(stop_point(stops[index]), stop_point(stop))
            ]
            if not reached:
                continue
            places.append(min(reached, key=itemgetter(0))[1])
        places.append(_FuelPlace(stop, number, known.get(number)))
    return places


def _known_fuel_visits(route: OpenRoute) -> dict[int, Visit]:
    return {
        index: Visit(
            datetime.fromisoformat(stop["arrivedAt"]),
            departed_at=datetime.fromisoformat(stop["departedAt"]) if stop["departedAt"] else None,
        )
        for index, stop in enumerate(route.fuel_visits or ())
        if stop["arrivedAt"]
    }


def _with_visit(stop: FuelVisit, visit: Visit | None) -> FuelVisit:
    departed_at = visit.departed_at if visit is not None else None
    return FuelVisit(
        latitude=stop["latitude"],
        longitude=stop["longitude"],
        arrivedAt=utc_text(visit.arrived_at) if visit is not None else None,
        departedAt=utc_text(departed_at) if departed_at is not None else None,
    )


_STANDING = timedelta(minutes=STANDING_MINUTES)


def _standing_since(route: OpenRoute, believed: Sequence[ReceivedFix]) -> datetime:
    """The beginning of the last 15 minutes before the route's import, by the fixes. In the sandbox, where time is
    simulated, these are the 15 minutes before the last fix that had come in by then."""
    if route.environment == Environment.LIVE:
        return route.imported_at - _STANDING
    by_then = [received for received in believed if received.received_at < route.imported_at]
    if not by_then:
        return route.imported_at - _STANDING
    last = max(by_then, key=lambda received: (received.received_at, received.fix.recorded_at))
    return last.fix.recorded_at - _STANDING


def _counts(
    received: ReceivedFix, route: OpenRoute, track: Track, standing_since: datetime, *, early: timedelta
) -> bool:
    """True if a fix can move this route. It cannot when it

    - was recorded more than `early` before the route's start,
    - came in before the route was imported, and does not tell where the truck stood at the import: it was recorded
      before `standing_since`, or in the sandbox came in more than 15 minutes before the import,
    - belongs to the route that the truck completed before.
    """
    fix, received_at = received.fix, received.received_at
    if route.scheduled_start - fix.recorded_at > early:
        return False
    if received_at < route.imported_at and fix.recorded_at < standing_since:
        return False
    if route.environment == Environment.SANDBOX and received_at < route.imported_at - _STANDING:
        return False
    if track.free_since is None or fix.recorded_at >= track.free_since:
        return True
    # Simulated time may start over: fixes that came in after the completion belong to the next route.
    return route.environment == Environment.SANDBOX and track.freed_at is not None and received_at > track.freed_at


def _known_by(moment: datetime, visits: Mapping[int, Visit]) -> dict[int, Visit]:
    """The visits without arrivals and departures at or after that moment."""
    known = {}
    for stop, visit in visits.items():
        if visit.arrived_at < moment:
            departed = visit.departed_at is not None and visit.departed_at < moment
            known[stop] = visit if departed else Visit(visit.arrived_at, visit.arrival)
    return known


def _last_seen(track: Track, believed: Sequence[Fix], fixes: Sequence[Fix]) -> Fix | None:
    """The truck's last fix before those that count: the last believed one before the first of them, or one from the
    time of the route before. None where no earlier fix is known."""
    earlier = [
        fix
        for fix in believed
        if fix.recorded_at < fixes[0].recorded_at
        or (track.free_since is not None and fix.recorded_at <= track.free_since)
    ]
    if earlier:
        return earlier[-1]
    # The batch holds no earlier fix. If the truck has one, it is older than the batch, and the truck was where the
    # batch begins: a batch reaches back further than any run of fixes that decides.
    return None if fixes[0].recorded_at == track.oldest_at else fixes[0]
