"""Stored positions compared with the stops of the routes they belong to: the stored side of `arrivals`."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypedDict

from domain.database import Connection, Tenant, as_json
from domain.jobs import JOB_TRUCKS, SWEEP_GRACE, Job, build_plan, in_batches, process_positions
from domain.lifecycle import Environment, RouteStatus
from domain.messages.discarding import discard_messages
from domain.roads import Point
from domain.routes import review_requests
from domain.settings import Settings
from domain.statements import Command, IdRow, NotNull, Statement
from domain.telematics import arrivals
from domain.telematics.arrivals import Candidate, Evidence, Fix, Visit
from domain.telematics.feed import count_dropped
from domain.telematics.marking import CANDIDATES
from domain.telematics.rechecks import STANDING_MINUTES, process_trucks, recheck_trucks

_CONTEXT = timedelta(minutes=10)
_CONTEXT_FIXES = 6
"""How far back of the first new fix the processing looks, at least: a run of fixes may have begun before it."""
_MAX_CONTEXT_FIXES = 600
"""And at most, of a truck that sends more than one a second."""

_MAX_FIXES = 5_000
_MIN_PORTION = 50
"""New fixes of all trucks together that are processed in one transaction, and of each truck at least: what is left is
processed by the next job."""


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


_LOCK_OPEN_ROUTES = Statement(
    OpenRoute,
    """
    SELECT id, company_id, environment, vehicle_id, status, scheduled_start, stops, arrived_at, imported_at
    FROM routes
    WHERE id = ANY(%s) AND vehicle_id = ANY(%s) AND environment = %s AND status IN ('draft', 'planned', 'active')
    ORDER BY id FOR UPDATE
    """,
)


class Track(NamedTuple):
    """A truck whose fixes wait to be processed."""

    version: str
    vehicle_id: str
    unjudged_from: NotNull[datetime]
    oldest_at: datetime
    newest_at: datetime
    free_since: datetime | None
    freed_at: datetime | None


_LOCK_TRACKS = Statement(
    Track,
    "SELECT ctid AS version, vehicle_id, unjudged_from, oldest_at, newest_at, free_since, freed_at FROM tracks"
    " WHERE vehicle_id = ANY(%s) AND environment = %s AND unjudged_from IS NOT NULL"
    " ORDER BY vehicle_id FOR UPDATE SKIP LOCKED",
)

_PUT_OFF = Command(
    """
    UPDATE tracks t
    SET unjudged_from = new.since, unjudged_since = CASE WHEN new.since IS NOT NULL THEN %s::timestamptz END
    FROM unnest(%s::text[], %s::timestamptz[]) AS new (vehicle_id, since)
    WHERE t.vehicle_id = new.vehicle_id AND t.environment = %s
    """
)


def process_vehicles(
    connection: Connection, environment: str, vehicle_ids: Sequence[str], *, settings: Settings, now: datetime
) -> list[Job]:
    """Compares the unprocessed fixes of these vehicles with the stops of the routes they are on.

    Returns the jobs to enqueue after the commit. Vehicles without unprocessed fixes, or processed by another worker at
    this moment, are left alone.
    """
    early = timedelta(hours=settings.early_arrival_hours)
    waiting = _waiting_trucks(connection, environment, vehicle_ids, early)
    # routes before tracks, as everywhere: no two transactions wait for each other
    routes = _LOCK_OPEN_ROUTES.all(
        connection,
        ([route_id for truck in waiting.values() for route_id in truck.route_ids], list(waiting), environment),
    )
    tracks = _LOCK_TRACKS.all(connection, (list(waiting), environment))
    # whatever came in, was imported or closed since the routes were looked for may have put the truck on another one
    moved_on = [track.vehicle_id for track in tracks if track.version != waiting[track.vehicle_id].version]
    tracks = [track for track in tracks if track.vehicle_id not in moved_on]
    current = _current_routes(routes, {track.vehicle_id: track.newest_at for track in tracks}, early)
    processed = [track for track in tracks if track.vehicle_id in current]
    fixes, left = _load_fixes(connection, environment, processed, current, early)
    visits = _load_visits(connection, [current[track.vehicle_id].id for track in processed])
    wild: list[tuple[str, datetime, bool]] = []
    changed: dict[str, tuple[OpenRoute, dict[int, Visit]]] = {}
    standing: list[str] = []
    for track in processed:
        route = current[track.vehicle_id]
        window = fixes.get(track.vehicle_id, [])
        believed, flags = _believed(window)
        wild += [(track.vehicle_id, moment, flag) for moment, flag in flags.items()]
        before = visits.get(route.id, {})
        after = _process_route(route, track, before, believed, settings)
        if route.status != RouteStatus.DRAFT and all(visit.departed_at is None for visit in before.values()):
            standing.append(route.id)
        if after != before:
            changed[route.id] = (route, after)
    _flag_implausible(connection, environment, current, wild, now=now)
    arrived = _store_visits(connection, changed, now=now)
    _PUT_OFF.execute(
        connection,
        (now, [track.vehicle_id for track in tracks], [left.get(track.vehicle_id) for track in tracks], environment),
    )
    return [
        *(process_positions(environment, batch) for batch in in_batches([*left, *moved_on], JOB_TRUCKS)),
        # where the truck is by now is not known before all is processed: then the sweep asks for the plan
        *(build_plan(route_id) for route_id in arrived if changed[route_id][0].vehicle_id not in left),
        *review_requests.after_new_fixes(connection, standing, now=now),
        *complete_routes(connection, list(changed), now=now),
    ]


class _WaitingTruck(NamedTuple):
    vehicle_id: str
    version: str
    """Of its track: another one means that the track was changed."""
    route_ids: list[str]
    """Those among which its current route is."""


_WAITING_TRUCKS = Statement(
    _WaitingTruck,
    f"""
    SELECT truck.vehicle_id, truck.ctid AS version,
           ARRAY(SELECT candidate.id FROM ({CANDIDATES}) AS candidate) AS route_ids
    FROM tracks truck
    WHERE truck.vehicle_id = ANY(%(vehicles)s) AND truck.environment = %(environment)s
      AND truck.unjudged_from IS NOT NULL
    """,  # noqa: S608 (a constant of `marking`)
)


def _waiting_trucks(
    connection: Connection, environment: str, vehicle_ids: Sequence[str], early: timedelta
) -> dict[str, _WaitingTruck]:
    """Those with unprocessed fixes, each with the version of its track and the routes that may be its current one."""
    rows = _WAITING_TRUCKS.all(
        connection,
        {
            "vehicles": list(vehicle_ids),
            "environment": environment,
            "early": early,
            "stale": arrivals.STALE_DRAFT_AFTER,
        },
    )
    return {row.vehicle_id: row for row in rows}


def _current_routes(
    routes: Sequence[OpenRoute], newest_fix_at: dict[str, datetime], early: timedelta
) -> dict[str, OpenRoute]:
    by_vehicle: dict[str, list[OpenRoute]] = {}
    for route in routes:
        by_vehicle.setdefault(route.vehicle_id, []).append(route)
    current = {}
    for vehicle_id, newest in newest_fix_at.items():
        own = {route.id: route for route in by_vehicle.get(vehicle_id, [])}
        chosen = arrivals.current_route(
            (
                Candidate(route.id, RouteStatus(route.status), route.scheduled_start, route.arrived_at)
                for route in own.values()
            ),
            newest,
            early=early,
        )
        if chosen is not None:
            current[vehicle_id] = own[chosen.route_id]
    return current


class _LoadedFix(NamedTuple):
    vehicle_id: str
    recorded_at: datetime
    latitude: float
    longitude: float
    speed_mph: float | None
    accuracy_meters: float | None
    implausible: bool
    received_at: datetime
    is_new: bool


_LOAD_FIXES = Statement(
    _LoadedFix,
    """
    SELECT track.vehicle_id, fix.recorded_at, fix.latitude, fix.longitude, fix.speed_mph, fix.accuracy_meters,
           fix.implausible, fix.received_at, fix.recorded_at >= track.since AS is_new
    FROM unnest(%(vehicles)s::text[], %(since)s::timestamptz[]) AS track (vehicle_id, since)
    CROSS JOIN LATERAL (
        SELECT coalesce(min(recorded_at), track.since) AS first_at FROM (
            SELECT recorded_at FROM positions p
            WHERE p.vehicle_id = track.vehicle_id AND p.environment = %(environment)s
              AND p.recorded_at < track.since
            ORDER BY recorded_at DESC LIMIT %(context)s) AS shortly_before
    ) AS context
    CROSS JOIN LATERAL (
        (SELECT recorded_at, latitude, longitude, speed_mph, accuracy_meters, implausible, received_at
         FROM positions p
         WHERE p.vehicle_id = track.vehicle_id AND p.environment = %(environment)s
           AND p.recorded_at >= least(context.first_at, track.since - %(minutes)s::interval)
           AND p.recorded_at < track.since
         ORDER BY p.recorded_at DESC LIMIT %(most_context)s)
        UNION ALL
        (SELECT recorded_at, latitude, longitude, speed_mph, accuracy_meters, implausible, received_at
         FROM positions p
         WHERE p.vehicle_id = track.vehicle_id AND p.environment = %(environment)s
           AND p.recorded_at >= track.since
         ORDER BY p.recorded_at LIMIT %(portion)s + 1)
    ) AS fix
    ORDER BY track.vehicle_id, fix.recorded_at
    """,
)


def _load_fixes(
    connection: Connection,
    environment: str,
    tracks: Sequence[Track],
    current: dict[str, OpenRoute],
    early: timedelta,
) -> tuple[dict[str, list[tuple[Fix, datetime]]], dict[str, datetime]]:
    """The unprocessed fixes of each vehicle and those shortly before, in order of time, each with when it came in.

    Of a vehicle that has many only the first ones; also returns from when on there are more.
    """
    portion = max(_MIN_PORTION, _MAX_FIXES // max(1, len(tracks)))
    rows = _LOAD_FIXES.all(
        connection,
        {
            "environment": environment,
            "vehicles": [track.vehicle_id for track in tracks],
            "since": [_first_that_may_count(track, current[track.vehicle_id], early) for track in tracks],
            "context": _CONTEXT_FIXES,
            "most_context": _MAX_CONTEXT_FIXES,
            "minutes": _CONTEXT,
            "portion": portion,
        },
    )
    fixes: dict[str, list[tuple[Fix, datetime]]] = {}
    left: dict[str, datetime] = {}
    new: Counter[str] = Counter()
    for row in rows:
        new[row.vehicle_id] += row.is_new
        if new[row.vehicle_id] > portion:
            left[row.vehicle_id] = row.recorded_at
            continue
        fix = Fix(row.recorded_at, row.latitude, row.longitude, row.speed_mph, row.accuracy_meters, row.implausible)
        fixes.setdefault(row.vehicle_id, []).append((fix, row.received_at))
    return fixes, left


def _first_that_may_count(track: Track, route: OpenRoute, early: timedelta) -> datetime:
    """From when on unprocessed fixes are worth loading, by the rules of `_counts`: one old fix opens no month."""
    since = track.unjudged_from
    if route.scheduled_start - since > early:  # a difference, for the start may lie at the edge of what can be told
        since = route.scheduled_start - early
    if route.environment == Environment.LIVE and track.free_since is not None:
        since = max(since, track.free_since)
    return since


def _believed(
    window: Sequence[tuple[Fix, datetime]],
) -> tuple[list[tuple[Fix, datetime]], dict[datetime, bool]]:
    """The plausible fixes of a window, and which fixes' standing changed (True: now implausible)."""
    start = next((index for index, (fix, _) in enumerate(window) if not fix.implausible), len(window))
    tail = window[start:]
    wild = arrivals.implausible_fixes([fix for fix, _ in tail])
    flags = {
        fix.recorded_at: fix.recorded_at in wild for fix, _ in tail if fix.implausible is not (fix.recorded_at in wild)
    }
    return [(fix, received_at) for fix, received_at in tail if fix.recorded_at not in wild], flags


def _counts(fix: Fix, received_at: datetime, route: OpenRoute, track: Track, settings: Settings) -> bool:
    """Whether a fix can move this route: not too early, not older than the import, not of the route before."""
    if route.scheduled_start - fix.recorded_at > timedelta(hours=settings.early_arrival_hours):
        return False
    since_import = route.imported_at - timedelta(minutes=STANDING_MINUTES)
    if received_at < route.imported_at and fix.recorded_at < since_import:
        return False
    if track.free_since is None or fix.recorded_at >= track.free_since:
        return True
    # simulated time may start over: what the sandbox is told after a route belongs to the next one
    return route.environment == Environment.SANDBOX and track.freed_at is not None and received_at > track.freed_at


def _process_route(
    route: OpenRoute,
    track: Track,
    before: dict[int, Visit],
    believed: Sequence[tuple[Fix, datetime]],
    settings: Settings,
) -> dict[int, Visit]:
    """Visits decided before the window stand; those inside it are processed again, for a late fix may move them."""
    fixes = [fix for fix, received_at in believed if _counts(fix, received_at, route, track, settings)]
    if not fixes:
        return before
    settled = {
        stop: visit if visit.departed_at is None or visit.departed_at < fixes[0].recorded_at else _undeparted(visit)
        for stop, visit in before.items()
        if visit.arrived_at < fixes[0].recorded_at
    }
    places = [Point(stop["latitude"], stop["longitude"]) for stop in route.stops]
    radius = settings.arrival_radius_meters
    last_seen = _last_seen(track, [fix for fix, _ in believed], fixes)
    decided = arrivals.process_fixes(places, settled, fixes, radius_meters=radius, last_seen=last_seen)
    after = arrivals.merge(before, decided)
    # and once more from what is known now: a late fix that was refused must not have hidden a fresh one
    decided = arrivals.process_fixes(places, after, fixes, radius_meters=radius, last_seen=last_seen)
    return arrivals.merge(after, decided)


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


def _undeparted(visit: Visit) -> Visit:
    return Visit(visit.arrived_at, visit.arrival)


class _StoredVisit(NamedTuple):
    route_id: str
    stop: int
    arrived_at: datetime
    departed_at: datetime | None


_VISITS = Statement(_StoredVisit, "SELECT route_id, stop, arrived_at, departed_at FROM visits WHERE route_id = ANY(%s)")


def _load_visits(connection: Connection, route_ids: Sequence[str]) -> dict[str, dict[int, Visit]]:
    visits: dict[str, dict[int, Visit]] = {}
    for row in _VISITS.all(connection, (list(route_ids),)):
        visits.setdefault(row.route_id, {})[row.stop] = Visit(row.arrived_at, departed_at=row.departed_at)
    return visits


_STORE_VISITS = Command(
    """
    INSERT INTO visits (route_id, stop, arrived_at, departed_at, arrival_evidence, departure_evidence, stored_at)
    SELECT route_id, stop, new.arrived_at, new.departed_at,
           coalesce(new.arrival_evidence, known.arrival_evidence),
           coalesce(new.departure_evidence, known.departure_evidence), %s
    FROM jsonb_to_recordset(%s) AS new (route_id text, stop int, arrived_at timestamptz, departed_at timestamptz,
         arrival_evidence jsonb, departure_evidence jsonb)
    LEFT JOIN visits known USING (route_id, stop)
    ON CONFLICT (route_id, stop) DO UPDATE SET
        arrived_at = excluded.arrived_at, departed_at = excluded.departed_at,
        arrival_evidence = excluded.arrival_evidence, departure_evidence = excluded.departure_evidence,
        stored_at = excluded.stored_at
    """
)


class _ArrivedRoute(NamedTuple):
    id: str
    status: str


_STORE_FIRST_ARRIVALS = Statement(
    _ArrivedRoute,
    """
    UPDATE routes r SET arrived_at = first.arrived_at, updated_at = clock_timestamp(),
        retry_at = CASE WHEN r.arrived_at IS NULL AND r.status = 'draft' THEN %s ELSE r.retry_at END
    FROM (SELECT route_id, min(arrived_at) AS arrived_at FROM visits WHERE route_id = ANY(%s) GROUP BY 1) AS first
    WHERE r.id = first.route_id
    RETURNING r.id, r.status
    """,
)


def _store_visits(
    connection: Connection, changed: dict[str, tuple[OpenRoute, dict[int, Visit]]], *, now: datetime
) -> list[str]:
    """Returns the routes whose truck has just arrived for the first time: a plan is due."""
    rows = [
        {
            "route_id": route_id,
            "stop": stop,
            "arrived_at": visit.arrived_at,
            "departed_at": visit.departed_at,
            "arrival_evidence": _evidence(visit.arrival),
            "departure_evidence": _evidence(visit.departure),
        }
        for route_id, (_, visits) in changed.items()
        for stop, visit in visits.items()
    ]
    if not rows:
        return []
    _STORE_VISITS.execute(connection, (now, as_json(rows)))
    arrived = _STORE_FIRST_ARRIVALS.all(connection, (now + SWEEP_GRACE, list(changed)))
    return [row.id for row in arrived if row.status == "draft" and changed[row.id][0].arrived_at is None]


def _evidence(evidence: Evidence | None) -> dict[str, object] | None:
    if evidence is None:
        return None
    fixes = [
        {
            "recordedAt": fix.recorded_at,
            "latitude": fix.latitude,
            "longitude": fix.longitude,
            "speedMph": fix.speed_mph,
            "accuracyMeters": fix.accuracy_meters,
        }
        for fix in evidence.fixes
    ]
    return {"rule": evidence.rule, "fixes": fixes}


_FLAG_IMPLAUSIBLE = Command(
    """
    UPDATE positions p SET implausible = new.implausible
    FROM unnest(%s::text[], %s::timestamptz[], %s::bool[]) AS new (vehicle_id, recorded_at, implausible)
    WHERE p.vehicle_id = new.vehicle_id AND p.recorded_at = new.recorded_at AND p.environment = %s
    """
)


def _flag_implausible(
    connection: Connection,
    environment: str,
    current: dict[str, OpenRoute],
    flags: Sequence[tuple[str, datetime, bool]],
    *,
    now: datetime,
) -> None:
    if not flags:
        return
    _FLAG_IMPLAUSIBLE.execute(connection, (*map(list, zip(*flags, strict=True)), environment))
    counts: Counter[str] = Counter()
    for vehicle_id, _, implausible in flags:
        counts[current[vehicle_id].company_id] += 1 if implausible else -1
    for company_id, count in sorted(counts.items()):  # in one order, so that no two transactions wait for each other
        count_dropped(connection, Tenant(company_id, Environment(environment)), {"implausible": count}, now=now)


_COMPLETE = Statement(
    IdRow,
    """
    UPDATE routes r SET status = 'completed', completed_at = v.arrived_at, retry_at = NULL,
                        updated_at = clock_timestamp()
    FROM visits v
    WHERE r.id = ANY(%s) AND v.route_id = r.id AND v.stop = jsonb_array_length(r.stops) - 1
      AND (r.status = 'active' OR r.status = 'planned' AND EXISTS (
          SELECT FROM messages m WHERE m.plan_id = r.plan_id
          AND (m.status = 'failed' OR m.status = 'pending' AND m.attempts > 0)))
    RETURNING r.id
    """,
)


class _Truck(NamedTuple):
    environment: str
    vehicle_id: str


_FREE_TRUCKS = Statement(
    _Truck,
    """
    UPDATE tracks t SET free_since = r.completed_at, freed_at = %(now)s,
                        unjudged_from = least(t.unjudged_from, r.completed_at),
                        unjudged_since = coalesce(t.unjudged_since, %(now)s)
    FROM routes r
    WHERE r.id = ANY(%(ids)s) AND t.vehicle_id = r.vehicle_id AND t.environment = r.environment
    RETURNING t.environment, t.vehicle_id
    """,
)


def complete_routes(connection: Connection, route_ids: Iterable[str], *, now: datetime) -> list[Job]:
    """Routes whose truck has reached the last stop, and whose plan the driver has (or cannot be given), are completed.

    Returns the jobs to enqueue after the commit: the truck may already stand at the first stop of its next route.
    """
    ids = list(route_ids)
    if not ids:
        return []
    completed_ids = [route.id for route in _COMPLETE.all(connection, (ids,))]
    discard_messages(connection, completed_ids, "The route was completed before delivery")
    # whatever the truck has done since belongs to its next route
    return process_trucks(_FREE_TRUCKS.all(connection, {"now": now, "ids": completed_ids}))


_LOST = Statement(
    _Truck,
    "SELECT environment, vehicle_id FROM tracks WHERE unjudged_from IS NOT NULL AND unjudged_since <= %s"
    " ORDER BY unjudged_since LIMIT %s",
)


def lost_processing(connection: Connection, *, now: datetime, limit: int = 10_000) -> dict[str, list[str]]:
    """Vehicles whose fixes wait although their job should have run, longest first: vehicle ids by environment."""
    lost: dict[str, list[str]] = {}
    for row in _LOST.all(connection, (now - SWEEP_GRACE, limit)):
        lost.setdefault(row.environment, []).append(row.vehicle_id)
    return lost


_RETRY_LATER = Command(
    "UPDATE tracks SET unjudged_since = %s WHERE vehicle_id = %s AND environment = %s AND unjudged_from IS NOT NULL"
)


def record_failed_processing(connection: Connection, environment: str, vehicle_id: str, *, now: datetime) -> None:
    """The processing of one truck failed unexpectedly: the sweep asks again in a minute, not at every look."""
    _RETRY_LATER.execute(connection, (now + timedelta(minutes=1), vehicle_id, environment))


_EXPIRE_STARTED = Statement(
    IdRow,
    """
    UPDATE routes r SET status = 'error', retry_at = NULL, review_at = NULL, updated_at = clock_timestamp(),
        closed_reason = CASE status WHEN 'draft' THEN 'Without a plan' ELSE initcap(status) END
                        || ', and no stop was reached for ' || %(days)s || ' days'
    WHERE id IN (
        SELECT id FROM routes o
        WHERE (status IN ('planned','active') OR status = 'draft' AND arrived_at IS NOT NULL)
          AND imported_at < %(since)s
          AND NOT EXISTS (SELECT FROM visits v WHERE v.route_id = o.id AND v.stored_at >= %(since)s)
        FOR UPDATE SKIP LOCKED)
    RETURNING id
    """,
)


def expire_started_routes(connection: Connection, *, expiry_days: float, now: datetime) -> tuple[int, list[Job]]:
    """Routes whose truck has arrived somewhere, and then reached and left no stop for so long, become `error`, so that
    the truck's next route can start. Only the truck's visits are signs of life: plans and messages are made for it.

    Returns how many, and the jobs to enqueue after the commit.
    """
    expired = _EXPIRE_STARTED.all(connection, {"days": expiry_days, "since": now - timedelta(days=expiry_days)})
    ids = [route.id for route in expired]
    discard_messages(connection, ids, "The route was closed before delivery: its truck reached no stop")
    return len(ids), recheck_trucks(connection, ids, now=now)
