"""Looks at the fuel of trucks on their way, of companies that watch the burn. Their tracks keep four values:

- `look_from`, `look_below_percent`: a fix recorded from then on with less fuel than that has the truck looked at;
  0: it has sent no level, and is looked at by time alone.
- `look_by`: a fix recorded from then on has it looked at, whatever its level; NULL: it is not looked at.
- `low_since`: the last look found that its fuel does not last; NULL: it does.

So the feed compares each fix with numbers that it has at hand, and a truck that burns what its plan says is looked at a
few times between two purchases. `burn/shortfalls.py` and `burn/by_miles.py` have the rules, and
`routes/plans/fuel_looks.py` looks."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.burn.shortfalls import NextLook
from domain.database.connections import Connection, as_array
from domain.database.statements import NotNull, Statement
from domain.planning.deviations import TrackedFix

IS_DUE = """(fix.recorded_at >= truck.look_from AND (fix.recorded_at >= truck.look_by
    OR fix.fuel_percent > 1 AND fix.fuel_percent < truck.look_below_percent))"""
"""`NextLook.is_due` as SQL, on a `fix` and the look of its `truck`."""


class _DueFix(NamedTuple):
    vehicle_id: UUID
    recorded_at: datetime


_FIRST_DUE = Statement(
    _DueFix,
    f"""
    SELECT truck.vehicle_id, due.recorded_at
    FROM unnest(%(vehicles)s::uuid[], %(since)s::timestamptz[], %(below)s::float8[], %(by)s::timestamptz[],
                %(until)s::timestamptz[]) AS truck (vehicle_id, look_from, look_below_percent, look_by, until)
    CROSS JOIN LATERAL (
        SELECT fix.recorded_at FROM positions fix
        WHERE fix.vehicle_id = truck.vehicle_id AND fix.environment = %(environment)s AND NOT fix.implausible
          AND fix.recorded_at >= truck.look_from AND fix.recorded_at < coalesce(truck.until, 'infinity') AND {IS_DUE}
        ORDER BY fix.recorded_at LIMIT 1) AS due
    """,
)


def due_fixes(
    connection: Connection,
    environment: str,
    looks: Mapping[UUID, NextLook],
    until: Mapping[UUID, datetime | None],
) -> dict[UUID, datetime]:
    """The vehicles whose look is due, each with the time of the first fix that makes it due. Only fixes before `until`
    count."""
    if not looks:
        return {}
    asked = {
        "vehicles": as_array(looks),
        "since": as_array(look.since for look in looks.values()),
        "below": as_array(look.below_percent for look in looks.values()),
        "by": as_array(look.by for look in looks.values()),
        "until": as_array(until[vehicle_id] for vehicle_id in looks),
        "environment": environment,
    }
    return {row.vehicle_id: row.recorded_at for row in _FIRST_DUE.all(connection, asked)}


class _Level(NamedTuple):
    vehicle_id: UUID
    recorded_at: datetime
    latitude: float
    longitude: float
    fuel_percent: NotNull[float]


class _Place(NamedTuple):
    vehicle_id: UUID
    recorded_at: datetime
    latitude: float
    longitude: float


_SOME = """
    SELECT {columns}
    FROM unnest(%(vehicles)s::uuid[], %(begins)s::timestamptz[], %(seconds)s::float8[], %(parts)s::int[])
        AS stretch (vehicle_id, since, seconds, parts)
    CROSS JOIN LATERAL generate_series(0, parts - 1) AS part
    CROSS JOIN LATERAL (
        SELECT * FROM positions f WHERE f.vehicle_id = stretch.vehicle_id AND f.environment = %(environment)s
          AND f.recorded_at >= stretch.since + make_interval(secs => seconds * part / parts)
          AND f.recorded_at < stretch.since + make_interval(secs => seconds * (part + 1) / parts)
          AND f.recorded_at BETWEEN %(first)s AND %(last)s AND NOT f.implausible{which}
        ORDER BY f.recorded_at LIMIT 1) AS fix
    UNION
    SELECT {columns}
    FROM unnest(%(trucks)s::uuid[], %(since)s::timestamptz[], %(until)s::timestamptz[])
        AS truck (vehicle_id, since, until)
    CROSS JOIN LATERAL (
        SELECT * FROM positions f WHERE f.vehicle_id = truck.vehicle_id AND f.environment = %(environment)s
          AND f.recorded_at BETWEEN truck.since AND truck.until
          AND f.recorded_at BETWEEN %(first)s AND %(last)s AND NOT f.implausible{which}
        ORDER BY f.recorded_at DESC LIMIT 1) AS fix
    ORDER BY vehicle_id, recorded_at
"""
"""The first fix of each part of each stretch of time, and the newest one of each truck. Bounded as a whole by two
parameters, so that PostgreSQL opens the partitions of those days alone."""
_PLACE = "fix.vehicle_id, fix.recorded_at, fix.latitude, fix.longitude"
_LEVELS = Statement(
    _Level,
    _SOME.format(columns=f"{_PLACE}, fix.fuel_percent", which=" AND fuel_percent IS NOT NULL"),
    binary=True,
)
_PLACES = Statement(_Place, _SOME.format(columns=_PLACE, which=""))

Spans = Mapping[UUID, tuple[datetime, datetime]]
"""The time from which on fixes of each vehicle are read, and the time of its newest one."""

_SPANS = 32
_LAST_SPANS = 8
_LAST_HOUR = timedelta(hours=1)
_LEAST_SPAN = timedelta(minutes=2)
_MOST_PLACES = 200
_PLACE_SPAN = timedelta(minutes=15)


class _Stretch(NamedTuple):
    """A stretch of time of a truck, in parts of equal length."""

    vehicle_id: UUID
    since: datetime
    seconds: float
    parts: int

    @classmethod
    def divided(
        cls, vehicle_id: UUID, since: datetime, until: datetime, most: int, least: timedelta = _LEAST_SPAN
    ) -> "_Stretch":
        """In parts that are not shorter than `least`, and not more than `most`."""
        length = until - since
        return cls(vehicle_id, since, length.total_seconds(), max(1, min(most, length // least)))


def read_some_levels(connection: Connection, environment: str, spans: Spans) -> dict[UUID, list[TrackedFix]]:
    """Some forty of each truck's fixes with a level, spread over the time, more in the last hour, and the newest one. A
    day's drive has a thousand."""
    stretches = []
    for vehicle_id, (since, until) in spans.items():
        late = since + max(until - since - _LAST_HOUR, timedelta())
        if late > since:
            stretches.append(_Stretch.divided(vehicle_id, since, late, _SPANS))
        stretches.append(_Stretch.divided(vehicle_id, late, until, _LAST_SPANS))
    fixes: dict[UUID, list[TrackedFix]] = {vehicle_id: [] for vehicle_id in spans}
    for row in _LEVELS.all(connection, _asked(environment, spans, stretches)) if spans else ():
        fix = TrackedFix(row.recorded_at, row.latitude, row.longitude, row.fuel_percent)
        fixes[row.vehicle_id].append(fix)
    return fixes


def read_some_places(
    connection: Connection, environment: str, vehicle_id: UUID, *, since: datetime, until: datetime
) -> list[TrackedFix]:
    """The truck's fixes about every quarter of an hour, 200 at most, with or without a level, and the newest one. They
    show the way that it took."""
    stretch = _Stretch.divided(vehicle_id, since, until, _MOST_PLACES, _PLACE_SPAN)
    asked = _asked(environment, {vehicle_id: (since, until)}, [stretch])
    return [TrackedFix(row.recorded_at, row.latitude, row.longitude) for row in _PLACES.all(connection, asked)]


def _asked(environment: str, spans: Spans, stretches: Sequence[_Stretch]) -> dict[str, object]:
    return {
        "environment": environment,
        "vehicles": as_array(stretch.vehicle_id for stretch in stretches),
        "begins": as_array(stretch.since for stretch in stretches),
        "seconds": as_array(stretch.seconds for stretch in stretches),
        "parts": as_array(stretch.parts for stretch in stretches),
        "trucks": as_array(spans),
        "since": as_array(since for since, _ in spans.values()),
        "until": as_array(until for _, until in spans.values()),
        "first": min(since for since, _ in spans.values()),
        "last": max(until for _, until in spans.values()),
    }
