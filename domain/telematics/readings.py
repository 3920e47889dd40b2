"""The fuel levels and the places that a truck sent, for people to look at."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant, as_array
from domain.database.statements import Statement
from domain.planning.deviations import TrackedFix
from domain.planning.gauges import Reading
from domain.planning.second_readings import newest_counted, zero_counts
from domain.roads import Point

MOST_READINGS = 300
"""Most readings in a drawing; more could not be told apart."""

MOST_PLACES = 2_000
"""Most places on a map of a whole trip, enough for the bends of the road."""


def _thinned(columns: str, only: str = "true") -> str:
    """SQL for these columns of a truck's plausible fixes from one time to another, evenly thinned to about `most`."""
    return f"""
        SELECT {columns}
        FROM (SELECT recorded_at, latitude, longitude, fuel_percent,
                     row_number() OVER (ORDER BY recorded_at) AS number, count(*) OVER () AS fixes
              FROM positions
              WHERE company_id = %(company_id)s AND vehicle_id = %(vehicle_id)s AND environment = %(environment)s
                AND NOT implausible
                AND recorded_at >= %(since)s AND recorded_at <= coalesce(%(until)s::timestamptz, 'infinity')
                AND {only}) AS fix
        WHERE number = fixes OR (number - 1) %% (1 + fixes / %(most)s) = 0
        ORDER BY recorded_at
    """


_READINGS = Statement(
    TrackedFix, _thinned("recorded_at, latitude, longitude, fuel_percent", only="fuel_percent IS NOT NULL")
)


def read_levels(
    connection: Connection, tenant: Tenant, vehicle_id: UUID, since: datetime, until: datetime | None
) -> list[TrackedFix]:
    """The plausible fixes with a level in the span, evenly thinned to about MOST_READINGS. `until` is None for up to
    the newest."""
    span = {"vehicle_id": vehicle_id, "since": since, "until": until, "most": MOST_READINGS}
    return _READINGS.all(connection, {**tenant._asdict(), **span})


_TRAIL = Statement(Point, _thinned("latitude, longitude"))


def read_trail(
    connection: Connection, tenant: Tenant, vehicle_id: UUID, since: datetime, until: datetime | None
) -> list[Point]:
    """The places of the plausible fixes in the span, evenly thinned to about MOST_PLACES. `until` is None for up to the
    newest."""
    span = {"vehicle_id": vehicle_id, "since": since, "until": until, "most": MOST_PLACES}
    return _TRAIL.all(connection, {**tenant._asdict(), **span})


LAST_FIXES_WITHIN = timedelta(hours=1)
"""A truck's newest level, and the fix before its newest, are looked for within this time before its newest fix."""

_TRUCKS_AT_ONCE = 1_000

_LEVELS_COMPARED = 3
"""Levels compared: one of three may be wrong, and the other two agree."""


class LastFixes(NamedTuple):
    """Details that a truck's newest position alone does not tell."""

    vehicle_id: UUID
    latitude: float | None
    longitude: float | None
    """The position before the newest one."""
    fuel_percent: float | None
    """The newest level that counts; a level that neither miles nor time explain needs a second reading."""


class _LastRow(NamedTuple):
    vehicle_id: UUID
    latitude: float | None
    longitude: float | None
    levels: list[float] | None
    """The last readings as four lists in one order, the oldest reading first."""
    times: list[datetime] | None
    latitudes: list[float] | None
    longitudes: list[float] | None

    def fixes(self, environment: str) -> LastFixes:
        columns = (self.levels or (), self.times or (), self.latitudes or (), self.longitudes or ())
        readings = [Reading(level, at, Point(*place)) for level, at, *place in zip(*columns, strict=True)]
        level = newest_counted(readings, zero_counts=zero_counts(environment))
        return LastFixes(self.vehicle_id, self.latitude, self.longitude, level)


_OF_TRUCK = """
    f.company_id = %(company_id)s AND f.environment = %(environment)s AND f.vehicle_id = truck.vehicle_id
    AND NOT f.implausible AND f.recorded_at > truck.newest_at - %(within)s::interval
    AND f.recorded_at > %(since)s::timestamptz AND f.recorded_at <= %(until)s::timestamptz
"""
_LAST_FIXES = Statement(
    _LastRow,
    f"""
    SELECT truck.vehicle_id, before.latitude, before.longitude, level.levels, level.times, level.latitudes,
           level.longitudes
    FROM unnest(%(vehicle_ids)s::uuid[], %(newest_at)s::timestamptz[]) AS truck (vehicle_id, newest_at)
    LEFT JOIN LATERAL (
        SELECT f.latitude, f.longitude FROM positions f
        WHERE {_OF_TRUCK} AND f.recorded_at < truck.newest_at ORDER BY f.recorded_at DESC LIMIT 1
    ) AS before ON true
    LEFT JOIN LATERAL (
        SELECT array_agg(fuel_percent ORDER BY recorded_at) AS levels,
               array_agg(recorded_at ORDER BY recorded_at) AS times,
               array_agg(latitude ORDER BY recorded_at) AS latitudes,
               array_agg(longitude ORDER BY recorded_at) AS longitudes
        FROM (SELECT f.fuel_percent, f.recorded_at, f.latitude, f.longitude FROM positions f
              WHERE {_OF_TRUCK} AND f.recorded_at <= truck.newest_at AND f.fuel_percent IS NOT NULL
              ORDER BY f.recorded_at DESC LIMIT {_LEVELS_COMPARED}) AS newest
    ) AS level ON true
    """,
)
"""`since` and `until` are the same for all trucks of a statement. So PostgreSQL opens the partitions of a day or two.
Otherwise it would prepare those of all days for each truck, which takes most of the time."""


def read_last_fixes(connection: Connection, tenant: Tenant, newest: Mapping[UUID, datetime]) -> dict[UUID, LastFixes]:
    """The last fixes of trucks, by vehicle; `newest` has the time of the newest fix of each."""
    by_day: dict[object, list[tuple[UUID, datetime]]] = {}
    for vehicle_id, newest_at in newest.items():
        by_day.setdefault(newest_at.date(), []).append((vehicle_id, newest_at))
    found: dict[UUID, LastFixes] = {}
    for of_day in by_day.values():
        for first in range(0, len(of_day), _TRUCKS_AT_ONCE):
            vehicle_ids, times = zip(*of_day[first : first + _TRUCKS_AT_ONCE], strict=True)
            asked = {
                **tenant._asdict(),
                "vehicle_ids": list(vehicle_ids),
                "newest_at": list(times),
                "within": LAST_FIXES_WITHIN,
                "since": min(times) - LAST_FIXES_WITHIN,
                "until": max(times),
            }
            found |= {row.vehicle_id: row.fixes(tenant.environment) for row in _LAST_FIXES.all(connection, asked)}
    return found


class _FixAround(NamedTuple):
    number: int
    latitude: float
    longitude: float


_OF_ASKED = """
    f.company_id = %(company_id)s AND f.environment = %(environment)s AND f.vehicle_id = asked.vehicle_id
    AND NOT f.implausible AND f.recorded_at >= %(since)s::timestamptz AND f.recorded_at <= %(until)s::timestamptz
"""
_AROUND = Statement(
    _FixAround,
    f"""
    SELECT asked.number, fix.latitude, fix.longitude
    FROM unnest(%(numbers)s::int[], %(vehicle_ids)s::uuid[], %(times)s::timestamptz[])
         AS asked (number, vehicle_id, at)
    CROSS JOIN LATERAL (
        (SELECT f.latitude, f.longitude FROM positions f
         WHERE {_OF_ASKED} AND f.recorded_at <= asked.at AND f.recorded_at >= asked.at - %(within)s::interval
         ORDER BY f.recorded_at DESC LIMIT 1)
        UNION ALL
        (SELECT f.latitude, f.longitude FROM positions f
         WHERE {_OF_ASKED} AND f.recorded_at > asked.at AND f.recorded_at <= asked.at + %(within)s::interval
         ORDER BY f.recorded_at LIMIT 1)
    ) AS fix
    """,
)
"""`since` and `until` name the partitions, as for `_LAST_FIXES`."""


def read_places_around(
    connection: Connection, tenant: Tenant, asked: Sequence[tuple[UUID, datetime]], within: timedelta
) -> list[list[Point]]:
    """The places of each truck's last plausible fix before its time and of its first one after, both within `within` of
    that time. Empty where none is known or kept."""
    found: list[list[Point]] = [[] for _ in asked]
    by_day: dict[object, list[int]] = {}
    for number, (_, at) in enumerate(asked):
        by_day.setdefault(at.date(), []).append(number)
    for numbers in by_day.values():
        times = [asked[number][1] for number in numbers]
        rows = _AROUND.all(
            connection,
            {
                **tenant._asdict(),
                "numbers": as_array(numbers),
                "vehicle_ids": as_array(asked[number][0] for number in numbers),
                "times": as_array(times),
                "within": within,
                "since": min(times) - within,
                "until": max(times) + within,
            },
        )
        for row in rows:
            found[row.number].append(Point(row.latitude, row.longitude))
    return found
