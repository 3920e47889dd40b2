"""From GPS fixes to visits: when a truck has arrived at a stop, and when it has left.

Rules only: no clock, no storage. Fixes are processed in the order of `recorded_at`, whatever the order in which they
came in. One fix alone never decides anything, so a truck that drives by does not arrive.

The dwell rule. A truck has arrived when fixes in a row inside the radius span 2 minutes, or when fixes in a row below
5 mph span 30 seconds and lie within 60 m of each other: a truck that crawls past the gate, or waits at a light beside
it, has not arrived, however often its tracker sends. It has departed when fixes in a row outside the radius and 50 m
more span 3 minutes, or two in a row are above 5 mph. The time of a departure is that of the first fix of the run; so is
that of an arrival, but of slow fixes it is the first slow one. A truck that has arrived at the last stop, where its
route ends, has departed from the others with the first fix outside them. For example:

    time   from the stop   speed
    12:00      180 m       12 mph   inside: a run begins
    12:01       60 m        6 mph   inside for 1 minute: undecided
    12:02       20 m        8 mph   inside for 2 minutes: arrived at 12:00
    12:30      290 m       10 mph   within 250 m and 50 m more: still there
    12:31      400 m        3 mph   outside: a run begins
    12:32      900 m       30 mph   one fix above 5 mph: undecided
    12:33     1500 m       45 mph   a second one in a row: departed at 12:31

Stops are reached in their order. A stop that was passed over stays unvisited. A place where the truck has just
been is not reached again before another one, so a round trip is not complete at its start.

The receiver of a parked truck drifts: fixes outside that are no further than a kilometer away and below 5 mph are no
departure by themselves, however long they last. They count once the truck moves, or has arrived at another stop. The
departure is then at the first fix outside, but at most 3 minutes before the truck was seen to move.

A trip begins at its first stop also when the truck stands there already. It begins at a later stop only when the
truck was seen away from that stop first and came there after the route was imported. So a truck at home does not
complete its trip home before the trip has begun, however lately it came home.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.lifecycle import RouteStatus
from domain.roads import Point, great_circle_miles
from domain.roads.implausible_fixes import GpsFix
from domain.roads.sphere import METERS_PER_MILE, MILES_PER_DEGREE

ARRIVED_AFTER = timedelta(minutes=2)
STANDING_AFTER = timedelta(seconds=30)
"""Shortest span of slow fixes that is an arrival: a truck that waits at a gate or a light is soon on its way."""
STANDING_SPREAD_METERS = 60.0
"""Slow fixes of a truck that has arrived lie within this distance of each other: at 4.5 mph a truck crawls this far in
30 seconds."""
DEPARTED_AFTER = timedelta(minutes=3)
WALKING_PACE_MPH = 5.0
DEPARTURE_MARGIN_METERS = 50.0
DRIFT_METERS = 1_000.0
"""Furthest drift of a parked truck's position, near high walls and under roofs."""
WORST_ACCURACY_METERS = 200.0
FURTHEST_AHEAD = timedelta(minutes=5)
SAME_PLACE_METERS = 50.0
"""Consecutive stops within this distance are one place, reached and left together."""
STALE_DRAFT_AFTER = timedelta(hours=24)
LONGEST_UNSEEN = timedelta(minutes=15)
"""After a longer silence the first fix outside does not show when the truck left."""


@dataclass(frozen=True, slots=True)
class Fix:
    """One GPS position of one truck."""

    recorded_at: datetime
    latitude: float
    longitude: float
    speed_mph: float | None = None
    accuracy_meters: float | None = None
    implausible: bool = False

    @property
    def point(self) -> Point:
        return Point(self.latitude, self.longitude)

    @property
    def slow(self) -> bool:
        """True below 5 mph. A missing speed is neither slow nor fast."""
        return self.speed_mph is not None and self.speed_mph < WALKING_PACE_MPH

    @property
    def fast(self) -> bool:
        return self.speed_mph is not None and self.speed_mph > WALKING_PACE_MPH


class Evidence(NamedTuple):
    """Why an arrival or a departure was decided: the rule, and the fixes that satisfied it."""

    rule: str
    fixes: tuple[Fix, ...]
    seen_until: datetime | None = None
    """The last fix before a departure that a silence hides; None for others."""


class ManualStopEvent(NamedTuple):
    """An arrival or a departure that a dispatcher entered: see `manual_stop_events`."""

    by: str
    """An e-mail address."""
    reason: str
    at: datetime
    """When it was entered."""


class Implied(NamedTuple):
    """A departure that was not seen: by this time at the latest the truck had left, since it had reached another
    stop."""

    stop: int


@dataclass(frozen=True, slots=True)
class Visit:
    """The truck at one stop."""

    arrived_at: datetime
    arrival: Evidence | ManualStopEvent | None = None
    departed_at: datetime | None = None
    departure: Evidence | ManualStopEvent | Implied | None = None


class TruckRoute(NamedTuple):
    """An open route of a truck, with the values that the choice of the current route needs."""

    route_id: UUID
    status: RouteStatus
    scheduled_start: datetime
    arrived_at: datetime | None


def current_route(
    routes: Iterable[TruckRoute], newest_fix_at: datetime, *, early: timedelta = timedelta(hours=12)
) -> TruckRoute | None:
    """The one route that a truck is on: the started one, or the earliest draft that can start by now. A draft more than
    24 hours past its start gives way to the next one. It can still start when no other can."""
    drafts: list[TruckRoute] = []
    started: list[TruckRoute] = []
    for route in routes:
        (drafts if route.status is RouteStatus.DRAFT and route.arrived_at is None else started).append(route)
    if started:
        return min(started, key=lambda route: (route.arrived_at or route.scheduled_start, route.route_id))
    # Compares differences of times: a start in the year 1 or 9999 plus some hours is no datetime.
    due = [route for route in drafts if route.scheduled_start - newest_fix_at <= early]
    timely = [route for route in due if newest_fix_at - route.scheduled_start <= STALE_DRAFT_AFTER]
    return min(timely or due, key=lambda route: (route.scheduled_start, route.route_id), default=None)


def drop_reason(fix: GpsFix, *, now: datetime, live: bool) -> str | None:
    """The reason to drop a fix at once; None to keep it. A tracker without satellites sends 0, 0, where no truck is. In
    the sandbox simulated time may run ahead of the clock."""
    if fix.accuracy_meters is not None and fix.accuracy_meters > WORST_ACCURACY_METERS:
        return "inaccurate"
    if live and fix.recorded_at > now + FURTHEST_AHEAD:
        return "in_the_future"
    if fix.latitude == 0 and fix.longitude == 0:
        return "null_island"
    return None


@dataclass(slots=True)
class StopPlace:
    """One place of the route: a stop, or consecutive stops at the same spot."""

    point: Point
    stops: list[int]
    outside: list[Fix] = field(default_factory=list)
    """The fixes outside since the arrival, in a row, until they make a departure."""
    moved: bool = False
    """True if one of them is beyond the drift of a parked truck."""
    seen: bool = False
    """True once a fix was inside the place."""
    seen_until: datetime | None = None
    """The fix before those outside; None where it is not known."""

    def is_left_by(self, fix: Fix, radius_meters: float) -> bool:
        """True if the fix is outside the radius, by any margin."""
        return _meters(self.point, fix.point) > radius_meters


def process_fixes(
    stops: Sequence[Point],
    visits: Mapping[int, Visit],
    fixes: Sequence[Fix],
    *,
    radius_meters: float = 250.0,
    last_seen: Fix | None = None,
    before_import: Collection[datetime] = (),
) -> dict[int, Visit]:
    """The visits after these fixes (believed ones, in order of time), by position of the stop. `last_seen` is the
    truck's last fix before these; None where it is not known. `before_import` has the `recorded_at` of the fixes that
    came in before the route was imported."""
    known = dict(visits)
    places = places_of(stops)
    can_begin_at = {
        place.stops[0]
        for place in places
        if place is places[0] or last_seen is None or place.is_left_by(last_seen, radius_meters)
    }
    run: list[Fix] = []  # fixes in a row inside `run_place`
    standing: list[Fix] = []  # the last of them, if they are slow and lie near each other
    run_place: StopPlace | None = None
    for before, fix in zip([last_seen, *fixes], fixes, strict=False):
        for place in places:
            if place.stops[0] in known:
                _process_departure(place, known, before, fix, radius_meters)
        here = _place_reached(places, known, fix, radius_meters)
        if not known:  # the trip has not begun
            if fix.recorded_at in before_import:  # the truck may be where another trip has brought it
                can_begin_at = {places[0].stops[0]}
            can_begin_at.update(place.stops[0] for place in places if place.is_left_by(fix, radius_meters))
            if here is not None and here.stops[0] not in can_begin_at:
                here = None
        if here is not run_place:
            run, standing, run_place = [], [], here
        if here is None:
            continue
        run.append(fix)
        standing = _standing_with(standing, fix)
        evidence = _arrival(run, standing)
        if evidence is not None:
            for stop in here.stops:
                known[stop] = Visit(evidence.fixes[0].recorded_at, evidence)
            run, standing, run_place = [], [], None
            if here is places[-1]:  # the route ends, and no later fix shows when the truck left the places before
                for place in places[:-1]:
                    _process_end(place, known)
    return known


def places_of(stops: Sequence[Point]) -> list[StopPlace]:
    places: list[StopPlace] = []
    for index, point in enumerate(stops):
        if places and are_one_place(places[-1].point, point):
            places[-1].stops.append(index)
        else:
            places.append(StopPlace(point, [index]))
    return places


def are_one_place(one: Point, other: Point) -> bool:
    """Tell if two stops in a row are one place, which a truck reaches and leaves once."""
    return _meters(one, other) <= SAME_PLACE_METERS


def are_next_door(one: Point, other: Point) -> bool:
    """Tell if two places are so near that a fix at one is not certainly outside of the other."""
    return _meters(one, other) <= DRIFT_METERS


def _place_reached(
    places: Sequence[StopPlace], known: Mapping[int, Visit], fix: Fix, radius_meters: float
) -> StopPlace | None:
    """The place that the fix has reached: the nearest one around the fix, among the last visited place and those after
    it. None where that is the last visited place itself.

    A yard may have two coordinates in one route, such as its gate at the start of a round trip and a dock at its end.
    A place behind a stop that lies elsewhere is not reached before the truck has left the one before that stop, and a
    round trip begins at its start wherever in the yard the truck stands."""
    last = max((index for index, place in enumerate(places) if place.stops[0] in known), default=-1)
    if last >= 0 and fix.recorded_at <= known[places[last].stops[0]].arrived_at:
        return None  # a late fix
    here = fix.point
    near = [
        index
        for index, place in enumerate(places)
        if index >= last and _may_be_within(place.point, here, radius_meters)
    ]
    if near in ([], [last]):
        return None
    around = [index for index in near if _meters(places[index].point, here) <= radius_meters]
    if around in ([], [last]):
        return None
    left_at = known[places[last].stops[0]].departed_at if last >= 0 else None
    has_left = left_at is not None and left_at <= fix.recorded_at
    start = max(last, 0)  # where the truck has been, or where the trip begins
    if not has_left and start < around[0] and _is_beside(places[start], places[around[0]], here, radius_meters):
        around = [start, *around]
    in_a_row = around[:1]
    for index in around[1:]:
        if index > in_a_row[-1] + 1 and not (has_left and in_a_row == [last]):
            break  # a stop between them lies elsewhere
        in_a_row.append(index)
    nearest = places[min(in_a_row, key=lambda index: _meters(places[index].point, here))]
    reached = next(place for place in places[max(last, 0) :] if are_one_place(place.point, nearest.point))
    return reached if reached.stops[0] not in known else None


def _is_beside(one: StopPlace, other: StopPlace, here: Point, radius_meters: float) -> bool:
    """True if a truck that is at one place may be around the other without having left: they are one yard, or it is
    within the margin of departures."""
    return (
        _meters(one.point, other.point) <= radius_meters
        or _meters(one.point, here) <= radius_meters + DEPARTURE_MARGIN_METERS
    )


def _may_be_within(one: Point, other: Point, meters: float) -> bool:
    """False where the latitudes alone are further apart than that, as those of most fixes and stops are."""
    return abs(one.latitude - other.latitude) * MILES_PER_DEGREE * METERS_PER_MILE <= meters + 1.0


def _standing_with(standing: Sequence[Fix], fix: Fix) -> list[Fix]:
    """The last slow fixes in a row, up to this one, that lie within `STANDING_SPREAD_METERS` of each other. `standing`
    are those up to the fix before."""
    if not fix.slow:
        return []
    apart = (at for at, one in enumerate(reversed(standing)) if _meters(one.point, fix.point) > STANDING_SPREAD_METERS)
    near = next(apart, len(standing))
    return [*standing[len(standing) - near :], fix]


def _arrival(run: Sequence[Fix], standing: Sequence[Fix]) -> Evidence | None:
    """Why fixes in a row inside a place are an arrival; None while they are none."""
    if standing and standing[-1].recorded_at - standing[0].recorded_at >= STANDING_AFTER:
        return Evidence("two fixes in a row inside below 5 mph", (standing[0], standing[-1]))
    if run[-1].recorded_at - run[0].recorded_at >= ARRIVED_AFTER:
        return Evidence("inside for 2 minutes", (run[0], run[-1]))
    return None


def _process_departure(
    place: StopPlace, known: dict[int, Visit], before: Fix | None, fix: Fix, radius_meters: float
) -> None:
    """Adds a fix to the run outside a visited place, and the departure to `known` when the run decides it. Where a
    dispatcher entered the arrival, the truck may still be on its way, or the place may be stored wrongly: it can leave
    only after a fix showed it there."""
    visit = known[place.stops[0]]
    if visit.departed_at is not None:
        return
    distance = _meters(place.point, fix.point) - (fix.accuracy_meters or 0)
    if distance <= radius_meters + DEPARTURE_MARGIN_METERS:
        place.outside, place.moved, place.seen = [], False, True
        return
    if fix.recorded_at <= visit.arrived_at or (isinstance(visit.arrival, ManualStopEvent) and not place.seen):
        return
    if not place.moved and (moved_at := _seen_to_move(place, known, fix, distance)) is not None:
        place.moved = True
        while place.outside and moved_at - place.outside[0].recorded_at > DEPARTED_AFTER:
            place.seen_until = place.outside.pop(0).recorded_at
    run = place.outside
    if not run and before is not None:
        place.seen_until = before.recorded_at
    run.append(fix)
    if not place.moved:
        return
    if len(run) >= 2 and run[-2].fast and run[-1].fast:
        _leave(place, known, Evidence("two fixes in a row outside above 5 mph", (run[0], run[-2], run[-1])))
    elif run[-1].recorded_at - run[0].recorded_at >= DEPARTED_AFTER:
        _leave(place, known, Evidence("outside for 3 minutes", (run[0], run[-1])))


def _process_end(place: StopPlace, known: dict[int, Visit]) -> None:
    """Adds the departure from a visited place outside of which the truck has arrived at its last stop."""
    run = place.outside
    if run and place.moved and known[place.stops[0]].departed_at is None:
        _leave(place, known, Evidence("outside when it reached the last stop", (run[0], run[-1])))


def _leave(place: StopPlace, known: dict[int, Visit], evidence: Evidence) -> None:
    """Adds the departure at the first fix of the run outside."""
    left_at = place.outside[0].recorded_at
    if place.seen_until is not None and left_at - place.seen_until > LONGEST_UNSEEN:
        evidence = evidence._replace(seen_until=place.seen_until)
    for stop in place.stops:
        if stop in known:
            known[stop] = replace(known[stop], departed_at=left_at, departure=evidence)


def _seen_to_move(place: StopPlace, known: Mapping[int, Visit], fix: Fix, distance: float) -> datetime | None:
    """The moment by which a fix outside a place shows that the truck has moved from there, and no receiver drifts: its
    own, or that of an arrival elsewhere, however slow each fix was."""
    elsewhere = min((known[stop].arrived_at for stop in known if stop > place.stops[-1]), default=fix.recorded_at)
    if elsewhere < fix.recorded_at:
        return elsewhere
    return fix.recorded_at if not fix.slow or distance > DRIFT_METERS else None


def merge_visits(before: Mapping[int, Visit], after: Mapping[int, Visit]) -> dict[int, Visit]:
    """The visits known `before`, improved by those of `after`. An earlier time replaces a later one, because a late fix
    may show it. No visit is undone or delayed, and none is added, or made earlier, that would then be out of the order
    of the stops. Manual stop events stay as they are."""
    merged = dict(before)
    for stop, visit in sorted(after.items()):
        since = max((merged[other].arrived_at for other in merged if other < stop), default=visit.arrived_at)
        until = min((before[other].arrived_at for other in before if other > stop), default=visit.arrived_at)
        if not since <= visit.arrived_at <= until:
            continue
        known = merged.get(stop, visit)
        if visit.arrived_at < known.arrived_at and not isinstance(known.arrival, ManualStopEvent):
            known = replace(known, arrived_at=visit.arrived_at, arrival=visit.arrival)
        if visit.departed_at is not None and (_tells_more(visit.departed_at, known) or _fills_silence(visit, known)):
            known = replace(known, departed_at=visit.departed_at, departure=visit.departure)
        merged[stop] = known
    return merged


def _tells_more(departed_at: datetime, known: Visit) -> bool:
    if isinstance(known.departure, ManualStopEvent) or departed_at < known.arrived_at:
        return False
    return known.departed_at is None or departed_at < known.departed_at


def _fills_silence(visit: Visit, known: Visit) -> bool:
    """True if fixes that came later leave no silence before the known departure, or a shorter one."""
    new, old = visit.departure, known.departure
    if visit.departed_at != known.departed_at or not (isinstance(new, Evidence) and isinstance(old, Evidence)):
        return False
    return old.seen_until is not None and (new.seen_until is None or new.seen_until > old.seen_until)


def _meters(a: Point, b: Point) -> float:
    return great_circle_miles(a, b) * METERS_PER_MILE
