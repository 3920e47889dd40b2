"""Positions as they come in: checked, resolved to vehicles, stored, and handed on to be processed."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple, TypedDict

from psycopg import sql

from domain.contract.shapes import Position, RejectedPosition
from domain.database import Connection, Tenant, as_json
from domain.jobs import JOB_TRUCKS, Job, in_batches, process_positions
from domain.lifecycle import Environment
from domain.roads.sphere import MILES_PER_DEGREE
from domain.statements import Command, NotNull, Statement
from domain.telematics import arrivals
from domain.telematics.arrivals import METERS_PER_MILE, Fix


class _NewFix(TypedDict):
    """A fix as `_STORE_FIXES` and `_STORE_NEWEST` read it."""

    vehicle_id: str
    recorded_at: str
    latitude: float
    longitude: float
    speed_mph: float | None
    fuel_percent: float | None
    accuracy_meters: float | None


class Feed(NamedTuple):
    """What became of one request to the feed."""

    accepted: int
    rejected: list[RejectedPosition]
    dropped: dict[str, int]
    jobs: list[Job]


def store_positions(
    connection: Connection,
    tenant: Tenant,
    positions: Sequence[tuple[int, Position]],
    *,
    now: datetime,
    near_meters: float = 250.0,
    early: timedelta = timedelta(hours=12),
) -> Feed:
    """Stores the fixes of known vehicles; `positions` come with their index in the request.

    An unknown vehicle is rejected. A fix that is of no use is accepted, counted and not stored. `near_meters` is the
    arrival radius, `early` how long before its start a route can start.
    """
    vehicles = _resolve(connection, tenant.company_id, [position for _, position in positions])
    rejected: list[RejectedPosition] = []
    dropped: dict[str, int] = {}
    rows: list[_NewFix] = []
    for (index, position), (vehicle_id, fault) in zip(positions, vehicles, strict=True):
        if vehicle_id is None:
            rejected.append(RejectedPosition(index=index, message=fault))
            continue
        fix = Fix(
            position.recorded_at,
            position.latitude,
            position.longitude,
            accuracy_meters=position.accuracy_meters,
        )
        reason = arrivals.drop_reason(fix, now=now, live=tenant.environment is Environment.LIVE)
        if reason is not None:
            dropped[reason] = dropped.get(reason, 0) + 1
            continue
        rows.append(
            {
                "vehicle_id": vehicle_id,
                "recorded_at": position.recorded_at.isoformat(),
                "latitude": position.latitude,
                "longitude": position.longitude,
                "speed_mph": position.speed_mph,
                "fuel_percent": position.fuel_percent,
                "accuracy_meters": position.accuracy_meters,
            }
        )
    rows.sort(key=lambda row: (row["vehicle_id"], row["recorded_at"]))  # two requests wait, and never deadlock
    stored = _store(connection, tenant.environment, rows, dropped, now=now)
    jobs = _mark(connection, tenant.environment, stored, now=now, near_meters=near_meters, early=early)
    count_dropped(connection, tenant, dropped, now=now)
    return Feed(len(positions) - len(rejected), rejected, dropped, jobs)


class _Resolved(NamedTuple):
    kind: str
    value: str
    candidates: list[str]


_RESOLVE = Statement(
    _Resolved,
    """
    SELECT named.kind, named.value,
           CASE named.kind WHEN 'vehicle_id'
               THEN ARRAY(SELECT id FROM vehicles
                          WHERE company_id = %(company_id)s AND id = named.value AND retired_at IS NULL)
           ELSE coalesce(
               (SELECT ARRAY[target_id] FROM mappings m
                WHERE m.company_id = %(company_id)s AND m.kind = named.kind AND m.value = named.value),
               CASE named.kind WHEN 'unit_number'
                   THEN ARRAY(SELECT id FROM vehicles
                              WHERE company_id = %(company_id)s AND unit_number = named.value
                                AND retired_at IS NULL LIMIT 2)
                   ELSE ARRAY(SELECT id FROM vehicles
                              WHERE company_id = %(company_id)s AND vin = named.value
                                AND retired_at IS NULL LIMIT 2) END
           ) END AS candidates
    FROM unnest(%(kinds)s::text[], %(values)s::text[]) AS named (kind, value)
    """,
)


def _resolve(connection: Connection, company_id: str, positions: Sequence[Position]) -> list[tuple[str | None, str]]:
    """The vehicle that each position names, by mapping or stored value, or None and what is wrong."""
    named = {
        (kind, value)
        for position in positions
        for kind in ("vehicle_id", "unit_number", "vin")
        if (value := getattr(position, kind)) is not None
    }
    rows = _RESOLVE.all(
        connection,
        {
            "company_id": company_id,
            "kinds": [kind for kind, _ in named],
            "values": [value for _, value in named],
        },
    )
    candidates = {(row.kind, row.value): row.candidates for row in rows}
    return [_vehicle_of(position, candidates) for position in positions]


def _vehicle_of(position: Position, candidates: dict[tuple[str, str], list[str]]) -> tuple[str | None, str]:
    found = set()
    for kind, label in (("vehicle_id", "vehicleId"), ("unit_number", "unitNumber"), ("vin", "vin")):
        value = getattr(position, kind)
        if value is None:
            continue
        ids = candidates[kind, value]
        if len(ids) != 1:
            return (
                None,
                f"{label}: {'unknown vehicle' if not ids else 'fits more than one vehicle'} {value!r}",
            )
        found.add(ids[0])
    return (found.pop(), "") if len(found) == 1 else (None, "the references name different vehicles")


class _StoredFix(NamedTuple):
    vehicle_id: str
    recorded_at: datetime
    latitude: float
    longitude: float


_STORE_FIXES = Statement(
    _StoredFix,
    """
    INSERT INTO positions (vehicle_id, environment, recorded_at, latitude, longitude, speed_mph, fuel_percent,
                           accuracy_meters, received_at)
    SELECT vehicle_id, %s, recorded_at, latitude, longitude, speed_mph, fuel_percent, accuracy_meters, %s
    FROM jsonb_to_recordset(%s) AS fix (vehicle_id text, recorded_at timestamptz, latitude float8,
         longitude float8, speed_mph float8, fuel_percent float8, accuracy_meters float8)
    ON CONFLICT DO NOTHING
    RETURNING vehicle_id, recorded_at, latitude, longitude
    """,
)

_STORE_NEWEST = Command(
    """
    INSERT INTO tracks AS t (vehicle_id, environment, oldest_at, newest_at, latitude, longitude)
    SELECT DISTINCT ON (vehicle_id) vehicle_id, %(environment)s,
           min(recorded_at) OVER (PARTITION BY vehicle_id), recorded_at, latitude, longitude
    FROM jsonb_to_recordset(%(rows)s) AS fix (vehicle_id text, recorded_at timestamptz, latitude float8,
         longitude float8)
    ORDER BY vehicle_id, recorded_at DESC
    ON CONFLICT (vehicle_id, environment) DO UPDATE SET
        oldest_at = least(t.oldest_at, excluded.oldest_at),
        newest_at = greatest(t.newest_at, excluded.newest_at),
        latitude = CASE WHEN excluded.newest_at >= t.newest_at THEN excluded.latitude ELSE t.latitude END,
        longitude = CASE WHEN excluded.newest_at >= t.newest_at THEN excluded.longitude ELSE t.longitude END
    """
)


def _store(
    connection: Connection,
    environment: Environment,
    rows: Sequence[_NewFix],
    dropped: dict[str, int],
    *,
    now: datetime,
) -> list[_StoredFix]:
    """Returns the fixes that are new."""
    if not rows:
        return []
    stored = _STORE_FIXES.all(connection, (environment, now, as_json(rows)))
    if len(stored) < len(rows):
        dropped["repeated"] = len(rows) - len(stored)
    if not stored:
        return []
    _STORE_NEWEST.execute(connection, {"environment": environment, "rows": as_json(rows)})
    return stored


_FURTHER_METERS = 500.0
"""Beyond the arrival radius: more than what hysteresis, accuracy and the roundness of the earth can make of it."""

_HINTED_FOR = timedelta(minutes=1)
"""A truck that has been waiting for longer gets no job with every post: its workers are behind, and the sweep asks."""

CANDIDATES = """
    (SELECT r.id, r.scheduled_start, r.stops FROM routes r
     WHERE r.vehicle_id = truck.vehicle_id AND r.environment = %(environment)s
       AND (r.status IN ('planned','active') OR r.status = 'draft' AND r.arrived_at IS NOT NULL))
    UNION ALL
    (SELECT r.id, r.scheduled_start, r.stops FROM routes r
     WHERE r.vehicle_id = truck.vehicle_id AND r.environment = %(environment)s
       AND r.status = 'draft' AND r.arrived_at IS NULL
       AND r.scheduled_start BETWEEN truck.newest_at - %(stale)s::interval AND truck.newest_at + %(early)s::interval
     ORDER BY r.scheduled_start, r.id LIMIT 3)
    UNION ALL
    (SELECT r.id, r.scheduled_start, r.stops FROM routes r
     WHERE r.vehicle_id = truck.vehicle_id AND r.environment = %(environment)s
       AND r.status = 'draft' AND r.arrived_at IS NULL AND r.scheduled_start < truck.newest_at - %(stale)s::interval
     ORDER BY r.scheduled_start, r.id LIMIT 2)
"""
"""The routes among which `arrivals.current_route` finds that of a `truck` (vehicle_id, newest_at), however many drafts
it has: those that are started (hardly ever more than one), and of the drafts that can start in time, and of those that
are late, the first. And the next ones, for the first may be closed before a worker comes to choose. `stale` is
`arrivals.STALE_DRAFT_AFTER`."""


class _MarkedTruck(NamedTuple):
    vehicle_id: str
    unjudged_since: NotNull[datetime]


_MARK = Statement(
    _MarkedTruck,
    f"""
    WITH fix AS MATERIALIZED (
        SELECT * FROM unnest(%(vehicles)s::text[], %(recorded_at)s::timestamptz[], %(latitudes)s::float8[],
                             %(longitudes)s::float8[]) AS fix (vehicle_id, recorded_at, latitude, longitude)
    ), truck AS MATERIALIZED (
        SELECT t.vehicle_id, t.newest_at, fixes.south, fixes.north
        FROM (SELECT vehicle_id, min(latitude) AS south, max(latitude) AS north FROM fix GROUP BY 1) AS fixes
        JOIN tracks t ON t.vehicle_id = fixes.vehicle_id AND t.environment = %(environment)s
    ), route AS MATERIALIZED (
        SELECT truck.*, candidate.id, candidate.scheduled_start, candidate.stops
        FROM truck CROSS JOIN LATERAL ({CANDIDATES}) AS candidate
    ), visited AS MATERIALIZED (
        SELECT route.vehicle_id, route.scheduled_start,
               max(coalesce(v.departed_at + interval '10 minutes', 'infinity')) AS until
        FROM route JOIN visits v ON v.route_id = route.id GROUP BY 1, 2
    ), stop AS MATERIALIZED (
        SELECT route.vehicle_id, route.scheduled_start, stop.latitude, stop.longitude
        FROM route, jsonb_to_recordset(route.stops) AS stop (latitude float8, longitude float8)
        WHERE stop.latitude BETWEEN south - %(degrees)s AND north + %(degrees)s
    ), new AS (
        SELECT vehicle_id, min(recorded_at) AS first_at FROM (
            SELECT fix.vehicle_id, fix.recorded_at FROM fix JOIN visited ON visited.vehicle_id = fix.vehicle_id
            WHERE fix.recorded_at < visited.until AND visited.scheduled_start - fix.recorded_at <= %(early)s
            UNION ALL
            SELECT fix.vehicle_id, fix.recorded_at FROM fix JOIN stop ON stop.vehicle_id = fix.vehicle_id,
            LATERAL (SELECT abs(stop.longitude - fix.longitude) AS across) AS apart
            WHERE abs(stop.latitude - fix.latitude) <= %(degrees)s
              AND (abs(fix.latitude) > 89
                   OR least(across, 360 - across) * cosd(fix.latitude) <= %(degrees)s * 1.1)
              AND stop.scheduled_start - fix.recorded_at <= %(early)s
        ) AS near GROUP BY vehicle_id
    )
    UPDATE tracks t
    SET unjudged_from = least(t.unjudged_from, new.first_at), unjudged_since = coalesce(t.unjudged_since, %(now)s)
    FROM new
    WHERE t.vehicle_id = new.vehicle_id AND t.environment = %(environment)s
    RETURNING t.vehicle_id, t.unjudged_since
    """,  # noqa: S608 (constants of this module)
)
"""Which tracks to process, and from when: those of trucks that are at a stop, come near one, or sent a fix that is
older than a departure. What happens in between moves no route, and is there to be looked back at. So does a fix that is
too early for the route.

The cost is that of the fixes and of the stops of a few routes: the drafts of later days are not looked at."""


def _mark(
    connection: Connection,
    environment: Environment,
    fixes: Sequence[_StoredFix],
    *,
    now: datetime,
    near_meters: float,
    early: timedelta,
) -> list[Job]:
    """The jobs that process the trucks of these fixes.

    A statement of its own, after the tracks are locked: a route imported at this moment is seen, or sees these fixes.
    """
    if not fixes:
        return []
    waiting = _MARK.all(
        connection,
        {
            "environment": environment,
            "vehicles": [fix.vehicle_id for fix in fixes],
            "recorded_at": [fix.recorded_at for fix in fixes],
            "latitudes": [fix.latitude for fix in fixes],
            "longitudes": [fix.longitude for fix in fixes],
            "degrees": (near_meters + _FURTHER_METERS) / METERS_PER_MILE / MILES_PER_DEGREE,
            "stale": arrivals.STALE_DRAFT_AFTER,
            "early": early,
            "now": now,
        },
    )
    hinted = [truck.vehicle_id for truck in waiting if now - truck.unjudged_since <= _HINTED_FOR]
    return [process_positions(environment, trucks) for trucks in in_batches(hinted, JOB_TRUCKS)]


_COUNT_DROPPED = Command(
    """
    INSERT INTO dropped_fixes (company_id, environment, day, reason, count)
    SELECT %s, %s, %s, reason, count FROM unnest(%s::text[], %s::int[]) AS new (reason, count) ORDER BY reason
    ON CONFLICT (company_id, environment, day, reason)
    DO UPDATE SET count = dropped_fixes.count + excluded.count
    """
)


def count_dropped(connection: Connection, tenant: Tenant, dropped: dict[str, int], *, now: datetime) -> None:
    """Adds to the day's counts of dropped fixes, by reason."""
    if not dropped:
        return
    _COUNT_DROPPED.execute(connection, (*tenant, now.date(), list(dropped), list(dropped.values())))


DAYS_AHEAD = 7
"""So many daily partitions are there in advance, should no housekeeping run for a while."""


class _Partition(NamedTuple):
    name: str


_PARTITIONS = Statement(
    _Partition,
    "SELECT relname AS name FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid"
    " WHERE inhparent = 'positions_live'::regclass AND relname <> 'positions_live_other'",
)


def keep_positions(connection: Connection, *, retention_days: float, now: datetime) -> int:
    """Housekeeping: makes the partitions of the next days and removes those that are older than the retention.

    A position of any other day is kept in the partition `positions_live_other`; see `forget_positions`. Returns how
    many partitions went.
    """
    days = {date.fromisoformat(row.name.removeprefix(_PREFIX)): row.name for row in _PARTITIONS.all(connection)}
    for ahead in range(DAYS_AHEAD + 1):
        day = now.date() + timedelta(days=ahead)
        if day not in days:
            _make_partition(connection, day)
    oldest = now - timedelta(days=retention_days)
    old = [name for day, name in days.items() if day + timedelta(days=1) <= oldest.date()]
    for name in old:
        connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))
    return len(old)


def forget_positions(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Housekeeping: removes what is not in a partition of its day, up to `limit` of each kind: the live positions of
    other days, those of the sandbox, and the last position of vehicles that have no other any more.

    What counts is when it came in, for the sandbox's time is simulated and may lie in any year; of the live ones also
    when it was. Returns how many went.
    """
    when = {"oldest": now - timedelta(days=days), "limit": limit}
    return sum(statement.execute(connection, when).rowcount for statement in _FORGET)


_FORGET = (
    Command(
        """
        DELETE FROM positions_live_other WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM positions_live_other WHERE least(recorded_at, received_at) < %(oldest)s LIMIT %(limit)s))
        """
    ),
    Command(
        """
        DELETE FROM positions_sandbox WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM positions_sandbox WHERE received_at < %(oldest)s LIMIT %(limit)s))
        """
    ),
    Command(
        """
        DELETE FROM tracks WHERE (vehicle_id, environment) IN (
            SELECT vehicle_id, environment FROM tracks t
            WHERE (environment = 'sandbox' OR newest_at < %(oldest)s) AND unjudged_from IS NULL AND NOT EXISTS (
                SELECT FROM positions p WHERE p.vehicle_id = t.vehicle_id AND p.environment = t.environment)
            LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
        """
    ),
)


_PREFIX = "positions_live_"


def _make_partition(connection: Connection, day: date) -> None:
    """With what came in for that day while it had none."""
    name, bounds = sql.Identifier(f"{_PREFIX}{day:%Y%m%d}"), (day, day + timedelta(days=1))
    connection.execute(sql.SQL("CREATE TABLE {} (LIKE positions INCLUDING DEFAULTS)").format(name))
    connection.execute(
        sql.SQL(
            "WITH early AS (DELETE FROM positions_live_other WHERE recorded_at >= %s AND recorded_at < %s RETURNING *)"
            " INSERT INTO {} SELECT * FROM early"
        ).format(name),
        bounds,
    )
    connection.execute(
        sql.SQL("ALTER TABLE positions_live ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
            name, *(sql.Literal(f"{bound}T00:00:00Z") for bound in bounds)
        )
    )
