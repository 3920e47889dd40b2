"""Watched trucks: trucks on their way, of companies that want replans. Their tracks keep three values:

- `watch_from`: fixes recorded from then on are to be compared with the road of the plan.
- `watch_at`: only a fix recorded then or later can show something new, so only such a fix has the truck processed
  (`due_trucks`). It is 15 minutes ahead while the truck is on its road, and less before a fuel stop. NULL: nothing is
  compared, because the truck is not watched, or a new plan or its message is under way.
- `fuel_stops_passed`: how many of the driver's fuel stops are behind the truck.

`routes/plans/replans.py` decides which trucks are watched, and makes the replans; the rules are in
`planning/deviations.py`.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.burn.shortfalls import NextLook
from domain.database.connections import Connection
from domain.database.statements import Command, NotNull, Statement
from domain.planning.deviations import NextComparison, TrackedFix
from domain.telematics.rechecks import WaitingAgain, process_trucks


class _WatchedFix(NamedTuple):
    vehicle_id: UUID
    recorded_at: datetime
    latitude: float
    longitude: float
    fuel_percent: float | None


_FIXES = Statement(
    _WatchedFix,
    """
    SELECT p.vehicle_id, p.recorded_at, p.latitude, p.longitude, p.fuel_percent
    FROM unnest(%s::uuid[], %s::timestamptz[], %s::timestamptz[]) AS truck (vehicle_id, since, until)
    CROSS JOIN LATERAL (
        SELECT * FROM positions f WHERE f.vehicle_id = truck.vehicle_id AND f.environment = %s
          AND f.recorded_at >= truck.since AND f.recorded_at < coalesce(truck.until, 'infinity')
        OFFSET 0) AS p
    WHERE NOT p.implausible
    ORDER BY p.vehicle_id, p.recorded_at
    """,
)


def fixes_between(
    connection: Connection, environment: str, spans: Mapping[UUID, tuple[datetime, datetime | None]]
) -> dict[UUID, list[TrackedFix]]:
    """The plausible fixes of each vehicle within its span; an end of None means up to the newest."""
    fixes: dict[UUID, list[TrackedFix]] = {vehicle_id: [] for vehicle_id in spans}
    starts, ends = [since for since, _ in spans.values()], [until for _, until in spans.values()]
    for row in _FIXES.all(connection, (list(spans), starts, ends, environment)):
        fixes[row.vehicle_id].append(TrackedFix(row.recorded_at, row.latitude, row.longitude, row.fuel_percent))
    return fixes


_STORE = Command(
    """
    UPDATE tracks t SET watch_from = new.since, watch_at = new.at, fuel_stops_passed = new.passed
    FROM unnest(%(vehicles)s::uuid[], %(since)s::timestamptz[], %(at)s::timestamptz[], %(passed)s::int[])
        AS new (vehicle_id, since, at, passed)
    WHERE t.vehicle_id = ANY(%(vehicles)s) AND t.environment = %(environment)s AND t.vehicle_id = new.vehicle_id
    """
)


def store_watches(
    connection: Connection, environment: str, watches: Mapping[UUID, NextComparison], *, paused: Collection[UUID]
) -> None:
    """Stores which fixes of these vehicles, whose tracks are locked, are compared next. Vehicles in `paused` are not
    compared until `watch_truck`."""
    if not watches:
        return
    _STORE.execute(
        connection,
        {
            "vehicles": list(watches),
            "since": [watch.since for watch in watches.values()],
            "at": [None if vehicle_id in paused else watch.at for vehicle_id, watch in watches.items()],
            "passed": [watch.fuel_stops_passed for watch in watches.values()],
            "environment": environment,
        },
    )


_UNWATCH = Command("UPDATE tracks SET watch_at = NULL WHERE vehicle_id = ANY(%s) AND environment = %s")


def unwatch(connection: Connection, environment: str, vehicle_ids: Sequence[UUID]) -> None:
    """Stops comparing these vehicles, whose tracks are locked, with a road."""
    if vehicle_ids:
        _UNWATCH.execute(connection, (list(vehicle_ids), environment))


class _Watched(NamedTuple):
    environment: str
    company_id: UUID
    vehicle_id: UUID
    waits: NotNull[bool]
    """True if fixes that may show something are there already."""


_WAITS = "(%(road)s OR coalesce(newest_at >= %(look_from)s, false))"
_WATCH = Statement(
    _Watched,
    f"""
    UPDATE tracks SET watch_from = CASE WHEN %(road)s THEN %(since)s::timestamptz END,
        watch_at = CASE WHEN %(road)s THEN %(since)s::timestamptz END,
        look_from = %(look_from)s, look_below_percent = %(look_below)s, look_by = %(look_by)s,
        low_since = CASE WHEN %(look_by)s::timestamptz IS NOT NULL THEN low_since END,
        fuel_stops_passed = CASE WHEN %(new_plan)s THEN 0 ELSE fuel_stops_passed END,
        unprocessed_from = CASE WHEN {_WAITS} THEN least(unprocessed_from, %(since)s) ELSE unprocessed_from END,
        unprocessed_since = CASE WHEN {_WAITS} THEN coalesce(unprocessed_since, %(now)s) ELSE unprocessed_since END
    WHERE vehicle_id = %(vehicle_id)s AND environment = %(environment)s
    RETURNING environment, company_id, vehicle_id, {_WAITS} AS waits
    """,
)


def watch_truck(
    connection: Connection,
    environment: str,
    vehicle_id: UUID,
    *,
    since: datetime,
    road: bool,
    look: NextLook | None,
    new_plan: bool,
    now: datetime,
) -> None:
    """Has the fixes of a truck compared with the `road` of its plan from `since` on, and its fuel looked at;
    `new_plan`: it begins there. Fixes may wait already: they are processed after the commit. Where only the fuel counts
    and the first look is later than the newest fix, none of them would show anything."""
    parameters = {
        "vehicle_id": vehicle_id,
        "environment": environment,
        "since": since,
        "road": road,
        "look_from": look.since if look is not None else None,
        "look_below": look.below_percent if look is not None else None,
        "look_by": look.by if look is not None else None,
        "new_plan": new_plan,
        "now": now,
    }
    watched = _WATCH.all(connection, parameters)
    process_trucks(connection, (WaitingAgain(*truck[:3]) for truck in watched if truck.waits))
