"""The fixes that wait to be processed, of trucks whose tracks are locked: where they may move something they are loaded
one by one, else the bounds of the way over them. Loaded fixes that are implausible are flagged."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant, as_array
from domain.database.statements import Command, Statement
from domain.lifecycle import Environment
from domain.roads.implausible_fixes import FASTEST_TRUCK_MPH
from domain.roads.sphere import MILES_PER_DEGREE
from domain.telematics.arrivals import Fix
from domain.telematics.feed import count_dropped
from domain.telematics.looks import IS_DUE
from domain.telematics.tracks import Track, looks_as_arrays

_CONTEXT = timedelta(minutes=10)
_CONTEXT_FIXES = 6
"""A batch begins this long before the first new fix, and with at least this many earlier fixes: a run of fixes may have
begun before the first new one."""
_MAX_CONTEXT_FIXES = 600
"""Most earlier fixes in a batch, for a truck that sends more than one a second."""
_DAY = timedelta(days=1)
"""Time before the first new fix in which most trucks have sent enough earlier fixes."""

_MAX_FIXES = 5_000
"""Most new fixes of all trucks together in one transaction. The next job processes the rest."""
_MIN_PORTION = 50
"""New fixes of each truck that one transaction processes in any case."""


class ReceivedFix(NamedTuple):
    fix: Fix
    received_at: datetime
    fuel_percent: float | None = None


class FixBatch(NamedTuple):
    """A truck's waiting fixes and those shortly before, in the order of `recorded_at`."""

    fixes: list[ReceivedFix]
    rest_from: datetime | None
    """`recorded_at` of the first fix that is left for the next job; None if none is left."""
    newest_at: datetime | None
    """`recorded_at` of the last fix, also where none were loaded because they move nothing; None if there is none."""
    due_at: datetime | None = None
    """`DrivenStretch.due_at`; None where fixes were loaded."""


class _LoadedFix(NamedTuple):
    vehicle_id: UUID
    recorded_at: datetime
    latitude: float
    longitude: float
    speed_mph: float | None
    accuracy_meters: float | None
    implausible: bool
    received_at: datetime
    fuel_percent: float | None
    is_new: bool


_OF_THESE_DAYS = "p.recorded_at BETWEEN %(first)s::timestamptz - %(day)s::interval AND %(last)s"
"""The days of the trucks of one statement. To open the partitions of a whole month took a third of PostgreSQL's time
for a job of one truck."""

_CONTEXTS = f"""
    CROSS JOIN LATERAL (
        SELECT least(min(recorded_at), truck.since - %(minutes)s::interval) AS first_at FROM (
            SELECT recorded_at FROM positions p
            WHERE p.vehicle_id = truck.vehicle_id AND p.environment = %(environment)s
              AND p.recorded_at < truck.since AND {_OF_THESE_DAYS}
            ORDER BY recorded_at DESC LIMIT %(context)s) AS shortly_before
    ) AS context
"""
"""The beginning of the batch of each `truck` (vehicle_id, since)."""

_LOAD_FIXES = Statement(
    _LoadedFix,
    f"""
    SELECT truck.vehicle_id, fix.recorded_at, fix.latitude, fix.longitude, fix.speed_mph, fix.accuracy_meters,
           fix.implausible, fix.received_at, fix.fuel_percent, fix.recorded_at >= truck.since AS is_new
    FROM unnest(%(vehicles)s::uuid[], %(since)s::timestamptz[]) AS truck (vehicle_id, since)
    {_CONTEXTS}
    CROSS JOIN LATERAL (
        (SELECT recorded_at, latitude, longitude, speed_mph, accuracy_meters, implausible, received_at, fuel_percent
         FROM positions p
         WHERE p.vehicle_id = truck.vehicle_id AND p.environment = %(environment)s
           AND p.recorded_at >= context.first_at AND p.recorded_at < truck.since AND {_OF_THESE_DAYS}
         ORDER BY p.recorded_at DESC LIMIT %(max_context)s)
        UNION ALL
        (SELECT recorded_at, latitude, longitude, speed_mph, accuracy_meters, implausible, received_at, fuel_percent
         FROM positions p
         WHERE p.vehicle_id = truck.vehicle_id AND p.environment = %(environment)s
           AND p.recorded_at >= truck.since AND {_OF_THESE_DAYS}
         ORDER BY p.recorded_at LIMIT %(portion)s + 1)
    ) AS fix
    ORDER BY truck.vehicle_id, fix.recorded_at
    """,
    binary=True,
)


def portion_of(trucks: int) -> int:
    """The largest number of new fixes that are loaded of each truck, in a transaction for so many trucks."""
    return max(_MIN_PORTION, _MAX_FIXES // max(1, trucks))


def load_fix_batches(
    connection: Connection, environment: str, tracks: Sequence[Track], since: Mapping[UUID, datetime], *, portion: int
) -> dict[UUID, FixBatch]:
    """The batch of each truck. `since` tells for each vehicle the time of its earliest fix that waits. Of a truck with
    more new fixes than the `portion`, only the first ones are loaded."""
    fixes: dict[UUID, list[ReceivedFix]] = {track.vehicle_id: [] for track in tracks}
    rest_from: dict[UUID, datetime] = {}
    new: Counter[UUID] = Counter()
    for row in _load_fixes(connection, environment, tracks, since, portion=portion):
        new[row.vehicle_id] += row.is_new
        if new[row.vehicle_id] > portion:
            rest_from[row.vehicle_id] = row.recorded_at
            continue
        fix = Fix(row.recorded_at, row.latitude, row.longitude, row.speed_mph, row.accuracy_meters, row.implausible)
        fixes[row.vehicle_id].append(ReceivedFix(fix, row.received_at, row.fuel_percent))
    return {
        vehicle_id: FixBatch(loaded, rest_from.get(vehicle_id), loaded[-1].fix.recorded_at if loaded else None)
        for vehicle_id, loaded in fixes.items()
    }


def _load_fixes(
    connection: Connection, environment: str, tracks: Sequence[Track], since: Mapping[UUID, datetime], *, portion: int
) -> list[_LoadedFix]:
    """The fixes of the batches and one more where some are left. A truck that has sent too few in the day before is
    asked for all of its days."""
    if not tracks:
        return []
    asked = {**_asked(environment, tracks, since), "max_context": _MAX_CONTEXT_FIXES, "portion": portion}
    rows = _LOAD_FIXES.all(connection, asked)
    earlier = Counter(row.vehicle_id for row in rows if not row.is_new)
    silent = [
        track
        for track in tracks
        if earlier[track.vehicle_id] < _CONTEXT_FIXES and asked["first"] - track.oldest_at > _DAY
    ]
    if silent:
        asked |= _asked(environment, silent, since) | {"first": min(track.oldest_at for track in silent)}
        found = {track.vehicle_id for track in silent}
        rows = [row for row in rows if row.vehicle_id not in found] + _LOAD_FIXES.all(connection, asked)
    return rows


def _asked(environment: str, tracks: Sequence[Track], since: Mapping[UUID, datetime]) -> dict[str, Any]:
    begins = [since[track.vehicle_id] for track in tracks]
    return {
        "environment": environment,
        "vehicles": as_array(track.vehicle_id for track in tracks),
        "since": as_array(begins),
        "newest": as_array(track.newest_at for track in tracks),
        "first": min(begins),
        "last": max(track.newest_at for track in tracks),
        "day": _DAY,
        "context": _CONTEXT_FIXES,
        "minutes": _CONTEXT,
    }


_FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)


class DrivenStretch(NamedTuple):
    """The way of a truck over a whole batch of fixes, none of which is implausible: its times, and its bounds in
    degrees."""

    vehicle_id: UUID
    first_at: datetime
    newest_at: datetime
    south: float
    north: float
    west: float
    east: float
    due_at: datetime | None = None
    """Time of the newest fix that makes a look at its fuel due; see `looks`."""

    @classmethod
    def of_newest(cls, track: Track, since: datetime) -> "DrivenStretch":
        """The newest place alone, which every stretch of the track leads to. Stretches begin then at the latest, unless
        the truck sends few fixes."""
        first_at = since - min(_CONTEXT, since - _FIRST_MOMENT)
        latitude, longitude = track.latitude, track.longitude
        return cls(track.vehicle_id, first_at, track.newest_at, latitude, latitude, longitude, longitude)

    @classmethod
    def of(cls, vehicle_id: UUID, fixes: Sequence[ReceivedFix]) -> "DrivenStretch":
        """The way over these fixes, in the order of time, at least one."""
        latitudes, longitudes = [one.fix.latitude for one in fixes], [one.fix.longitude for one in fixes]
        bounds = min(latitudes), max(latitudes), min(longitudes), max(longitudes)
        return cls(vehicle_id, fixes[0].fix.recorded_at, fixes[-1].fix.recorded_at, *bounds)


_STRETCHES = Statement(
    DrivenStretch,
    f"""
    SELECT truck.vehicle_id, way.first_at, way.newest_at, way.south, way.north, way.west, way.east,
           way.due_at
    FROM unnest(%(vehicles)s::uuid[], %(since)s::timestamptz[], %(newest)s::timestamptz[],
                %(look_from)s::timestamptz[], %(look_below)s::float8[], %(look_by)s::timestamptz[])
        AS truck (vehicle_id, since, newest_at, look_from, look_below_percent, look_by)
    {_CONTEXTS}
    CROSS JOIN LATERAL (
        SELECT min(recorded_at) AS first_at, max(recorded_at) AS newest_at, min(latitude) AS south,
               max(latitude) AS north, min(longitude) AS west, max(longitude) AS east,
               max(recorded_at) FILTER (WHERE {IS_DUE}) AS due_at,
               bool_and(is_steady) AND count(*) <= %(most)s
               AND count(*) FILTER (WHERE recorded_at < truck.since) >= %(context)s AS is_steady
        FROM (
            SELECT recorded_at, latitude, longitude, fuel_percent,
                   NOT implausible AND coalesce(
                       (abs(latitude - lag(latitude) OVER way)
                        + abs(longitude - lag(longitude) OVER way) * cosd(latitude)) * %(a_degree)s::interval
                       <= recorded_at - lag(recorded_at) OVER way, true) AS is_steady
            FROM (
                SELECT recorded_at, latitude, longitude, fuel_percent, implausible FROM positions p
                WHERE p.vehicle_id = truck.vehicle_id AND p.environment = %(environment)s
                  AND p.recorded_at >= context.first_at AND p.recorded_at <= truck.newest_at
                  AND {_OF_THESE_DAYS}
                ORDER BY p.recorded_at LIMIT %(most)s + 1) AS one
            WINDOW way AS (ORDER BY recorded_at)) AS fix
    ) AS way
    WHERE way.is_steady
    """,
    binary=True,
)
"""The way along a meridian and then along a parallel is never shorter than the straight one. So where even that way
leaves the fastest truck enough time, each fix could follow the one before it."""

_A_DEGREE = timedelta(hours=MILES_PER_DEGREE / (FASTEST_TRUCK_MPH - 1))
"""The time of the fastest truck for a degree of latitude, and a little more, so that rounding decides nothing."""


def load_stretches(
    connection: Connection, environment: str, tracks: Sequence[Track], since: Mapping[UUID, datetime], *, portion: int
) -> dict[UUID, DrivenStretch]:
    """The stretches of these tracks where the whole batch is sure to be plausible; arguments as of `load_fix_batches`.
    Most batches of trucks on their way are, and this takes a third of the time of loading and judging each fix."""
    if not tracks:
        return {}
    asked = {
        **_asked(environment, tracks, since),
        **looks_as_arrays(tracks),
        "a_degree": _A_DEGREE,
        "most": min(portion, _MAX_CONTEXT_FIXES),
    }
    return {row.vehicle_id: row for row in _STRETCHES.all(connection, asked)}


class Flag(NamedTuple):
    """A fix whose flag changes: it is implausible, or no longer so."""

    vehicle_id: UUID
    recorded_at: datetime
    implausible: bool


_FLAG_IMPLAUSIBLE = Command(
    """
    UPDATE positions p SET implausible = new.implausible
    FROM unnest(%(vehicles)s::uuid[], %(moments)s::timestamptz[], %(implausible)s::bool[])
        AS new (vehicle_id, recorded_at, implausible)
    WHERE p.vehicle_id = ANY(%(vehicles)s) AND p.recorded_at = ANY(%(moments)s) AND p.environment = %(environment)s
      AND p.vehicle_id = new.vehicle_id AND p.recorded_at = new.recorded_at
    """
)


def flag_implausible(
    connection: Connection,
    environment: Environment,
    flags: Sequence[Flag],
    companies: Mapping[UUID, UUID],
    *,
    now: datetime,
) -> None:
    """Stores the flags, and counts the implausible fixes for each company; `companies` has the company of each
    vehicle."""
    if not flags:
        return
    vehicles, moments, implausible = map(list, zip(*flags, strict=True))
    parameters = {"vehicles": vehicles, "moments": moments, "implausible": implausible, "environment": environment}
    _FLAG_IMPLAUSIBLE.execute(connection, parameters)
    counts: Counter[UUID] = Counter()
    for flag in flags:
        counts[companies[flag.vehicle_id]] += 1 if flag.implausible else -1
    for company_id, count in sorted(counts.items()):  # in one order, so that no two transactions wait for each other
        count_dropped(connection, Tenant(company_id, environment), {"implausible": count}, now=now)
