"""What a window of fixes says about a route: which of its fixes count, and which visits they make. Decision 10.

Rules only, on top of `arrivals`. Each fix has two times: `recorded_at`, by the truck's tracker, and `received_at`, by
our clock. Visits are decided by the first. The second matters only for fixes from before the route was imported, and in
the sandbox, where simulated time may start over.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypedDict

from domain.lifecycle import Environment, RouteStatus
from domain.roads import Point
from domain.statements import NotNull
from domain.telematics import arrivals
from domain.telematics.arrivals import Candidate, Fix, Visit
from domain.telematics.rechecks import STANDING_MINUTES
from domain.telematics.tracks import ReceivedFix, Track


class _StoredStop(TypedDict):
    """What the arrivals need to know of a stop in `routes.stops`."""

    latitude: float
    longitude: float


class OpenRoute(NamedTuple):
    """A route that its truck can move on."""

    id: str
    company_id: str
    environment: str
    vehicle_id: NotNull[str]
    status: str
    scheduled_start: datetime
    stops: list[_StoredStop]
    arrived_at: datetime | None
    imported_at: NotNull[datetime]


def current_routes(routes: Sequence[OpenRoute], tracks: Sequence[Track], *, early: timedelta) -> dict[str, OpenRoute]:
    """The route that each truck is on, by vehicle; trucks on none are left out."""
    by_vehicle: dict[str, dict[str, OpenRoute]] = {}
    for route in routes:
        by_vehicle.setdefault(route.vehicle_id, {})[route.id] = route
    current = {}
    for track in tracks:
        own = by_vehicle.get(track.vehicle_id, {})
        candidates = [
            Candidate(route.id, RouteStatus(route.status), route.scheduled_start, route.arrived_at)
            for route in own.values()
        ]
        chosen = arrivals.current_route(candidates, track.newest_at, early=early)
        if chosen is not None:
            current[track.vehicle_id] = own[chosen.route_id]
    return current


def first_that_may_count(track: Track, route: OpenRoute, *, early: timedelta) -> datetime:
    """From when on the track's fixes are worth loading, by the rules of `_counts`. Without it one late fix from last
    month would load the whole month."""
    since = track.unjudged_from
    # a difference of times, for the start less some hours may lie before the year one
    if route.scheduled_start - since > early:
        since = route.scheduled_start - early
    if route.environment == Environment.LIVE and track.free_since is not None:
        since = max(since, track.free_since)
    return since


def believed_fixes(window: Sequence[ReceivedFix]) -> tuple[list[ReceivedFix], dict[datetime, bool]]:
    """The plausible fixes of a window; and `recorded_at` of those whose flag has to change, with the new flag (True:
    implausible)."""
    start = next((index for index, (fix, _) in enumerate(window) if not fix.implausible), len(window))
    tail = window[start:]
    wild = arrivals.implausible_fixes([fix for fix, _ in tail])
    flags = {
        fix.recorded_at: fix.recorded_at in wild for fix, _ in tail if fix.implausible is not (fix.recorded_at in wild)
    }
    return [received for received in tail if received.fix.recorded_at not in wild], flags


def visits_after(
    route: OpenRoute,
    track: Track,
    before: Mapping[int, Visit],
    believed: Sequence[ReceivedFix],
    *,
    early: timedelta,
    radius_meters: float,
) -> dict[int, Visit]:
    """The visits of a route after these fixes, by position of the stop; `before` are those that are stored.

    The fixes are processed twice.

    First as if nothing were known of what happened in their time, for a late fix may make a stored visit earlier.
    `merge` then refuses what would undo, delay or reorder the stored visits.

    Then once more, from the merged visits: a rejected late fix must not mask a newer one. For example, the truck has
    been at stop 0 since noon. Its tracker sends what it kept: it stood at stop 1 at 2:00 in the morning, and again at
    15:00. The first pass finds stop 1 visited at 2:00, so it does not look for it later. `merge` refuses that, for
    stop 0 came first. The second pass knows only of noon at stop 0, and finds stop 1 visited at 15:00.
    """
    fixes = [received.fix for received in believed if _counts(received, route, track, early=early)]
    if not fixes:
        return dict(before)
    stops = [Point(stop["latitude"], stop["longitude"]) for stop in route.stops]
    last_seen = _last_seen(track, [received.fix for received in believed], fixes)

    def merged_with(stored: Mapping[int, Visit], known: Mapping[int, Visit]) -> dict[int, Visit]:
        decided = arrivals.process_fixes(stops, known, fixes, radius_meters=radius_meters, last_seen=last_seen)
        return arrivals.merge(stored, decided)

    first_pass = merged_with(before, _visits_until(fixes[0].recorded_at, before))
    return merged_with(first_pass, first_pass)


def _counts(received: ReceivedFix, route: OpenRoute, track: Track, *, early: timedelta) -> bool:
    """Whether a fix can move this route. It cannot when

    - it was recorded too early before the route's start;
    - it came in before the route was imported, and does not tell where the truck stood then;
    - it belongs to the truck's route before.
    """
    fix, received_at = received
    if route.scheduled_start - fix.recorded_at > early:
        return False
    standing_since = route.imported_at - timedelta(minutes=STANDING_MINUTES)
    if received_at < route.imported_at and fix.recorded_at < standing_since:
        return False
    if track.free_since is None or fix.recorded_at >= track.free_since:
        return True
    # simulated time may start over: positions that came in after the completion belong to the next route
    return route.environment == Environment.SANDBOX and track.freed_at is not None and received_at > track.freed_at


def _visits_until(moment: datetime, visits: Mapping[int, Visit]) -> dict[int, Visit]:
    """What was known at that moment: a later arrival is unknown, and so is a later departure."""
    known = {}
    for stop, visit in visits.items():
        if visit.arrived_at < moment:
            departed = visit.departed_at is not None and visit.departed_at < moment
            known[stop] = visit if departed else Visit(visit.arrived_at, visit.arrival)
    return known


def _last_seen(track: Track, believed: Sequence[Fix], fixes: Sequence[Fix]) -> Fix | None:
    """Where the truck was before the fixes that count; None when these are the first that are known of it."""
    earlier = [
        fix
        for fix in believed
        if fix.recorded_at < fixes[0].recorded_at
        or (track.free_since is not None and fix.recorded_at <= track.free_since)
    ]
    if earlier:
        return earlier[-1]
    # the window reaches back further than any run of fixes that decides: where it begins, the truck stands or drives
    return None if fixes[0].recorded_at == track.oldest_at else fixes[0]
