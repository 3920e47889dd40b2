"""Positions as they come in: checked, resolved to vehicles, stored, and handed on to be judged."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from domain import arrivals
from domain.arrivals import Fix
from domain.contract import Position, RejectedPosition
from domain.database import Connection, Tenant, as_json
from domain.jobs import Job, judge_positions
from domain.lifecycle import Environment


class Feed(NamedTuple):
    """What became of one request to the feed."""

    accepted: int
    rejected: list[RejectedPosition]
    dropped: dict[str, int]
    jobs: list[Job]


def store_positions(
    connection: Connection, tenant: Tenant, positions: Sequence[tuple[int, Position]], *, now: datetime
) -> Feed:
    """Stores the fixes of known vehicles; `positions` come with their index in the request.

    An unknown vehicle is rejected. A fix that is of no use is accepted, counted and not stored.
    """
    vehicles = _resolve(connection, tenant.company_id, [position for _, position in positions])
    rejected: list[RejectedPosition] = []
    dropped: dict[str, int] = {}
    rows: list[dict[str, Any]] = []
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
    jobs = _store(connection, tenant.environment, rows, dropped, now=now)
    count_dropped(connection, tenant, dropped, now=now)
    return Feed(len(positions) - len(rejected), rejected, dropped, jobs)


def _resolve(connection: Connection, company_id: str, positions: Sequence[Position]) -> list[tuple[str | None, str]]:
    """The vehicle that each position names, by mapping or stored value, or None and what is wrong."""
    named = {
        (kind, value)
        for position in positions
        for kind in ("vehicle_id", "unit_number", "vin")
        if (value := getattr(position, kind)) is not None
    }
    rows = connection.execute(
        """
        SELECT named.kind, named.value,
               CASE named.kind WHEN 'vehicle_id'
                   THEN ARRAY(SELECT id FROM vehicles WHERE company_id = %(company_id)s AND id = named.value)
               ELSE coalesce(
                   (SELECT ARRAY[target_id] FROM mappings m
                    WHERE m.company_id = %(company_id)s AND m.kind = named.kind AND m.value = named.value),
                   CASE named.kind WHEN 'unit_number'
                       THEN ARRAY(SELECT id FROM vehicles
                                  WHERE company_id = %(company_id)s AND unit_number = named.value LIMIT 2)
                       ELSE ARRAY(SELECT id FROM vehicles
                                  WHERE company_id = %(company_id)s AND vin = named.value LIMIT 2) END
               ) END AS candidates
        FROM unnest(%(kinds)s::text[], %(values)s::text[]) AS named (kind, value)
        """,
        {
            "company_id": company_id,
            "kinds": [kind for kind, _ in named],
            "values": [value for _, value in named],
        },
    ).fetchall()
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


def _store(
    connection: Connection,
    environment: Environment,
    rows: Sequence[dict[str, Any]],
    dropped: dict[str, int],
    *,
    now: datetime,
) -> list[Job]:
    if not rows:
        return []
    stored = connection.execute(
        """
        INSERT INTO positions (vehicle_id, environment, recorded_at, latitude, longitude, speed_mph, fuel_percent,
                               accuracy_meters, received_at)
        SELECT vehicle_id, %s, recorded_at, latitude, longitude, speed_mph, fuel_percent, accuracy_meters, %s
        FROM jsonb_to_recordset(%s) AS fix (vehicle_id text, recorded_at timestamptz, latitude float8,
             longitude float8, speed_mph float8, fuel_percent float8, accuracy_meters float8)
        ON CONFLICT DO NOTHING
        RETURNING vehicle_id, recorded_at
        """,
        (environment, now, as_json(rows)),
    ).fetchall()
    if len(stored) < len(rows):
        dropped["repeated"] = len(rows) - len(stored)
    spans: dict[str, tuple[datetime, datetime]] = {}
    for row in stored:
        first, last = spans.get(row.vehicle_id, (row.recorded_at, row.recorded_at))
        spans[row.vehicle_id] = (min(first, row.recorded_at), max(last, row.recorded_at))
    if not spans:
        return []
    vehicles = sorted(spans)
    connection.execute(
        """
        INSERT INTO tracks (vehicle_id, environment, newest_at, touched_at)
        SELECT vehicle_id, %s, newest_at, %s FROM unnest(%s::text[], %s::timestamptz[]) AS new (vehicle_id, newest_at)
        ON CONFLICT (vehicle_id, environment)
        DO UPDATE SET newest_at = greatest(tracks.newest_at, excluded.newest_at), touched_at = excluded.touched_at
        """,
        (environment, now, vehicles, [spans[vehicle][1] for vehicle in vehicles]),
    )
    # a statement of its own, after the rows are locked: a route imported at this moment is seen, or sees these fixes
    moved = connection.execute(
        """
        UPDATE tracks t SET unjudged_from = least(t.unjudged_from, new.first_at)
        FROM unnest(%s::text[], %s::timestamptz[]) AS new (vehicle_id, first_at)
        WHERE t.vehicle_id = new.vehicle_id AND t.environment = %s
          AND EXISTS (SELECT FROM routes r WHERE r.vehicle_id = t.vehicle_id AND r.environment = t.environment
                      AND r.status IN ('draft', 'planned', 'active'))
        RETURNING t.vehicle_id
        """,
        (vehicles, [spans[vehicle][0] for vehicle in vehicles], environment),
    ).fetchall()
    return [judge_positions(environment, [row.vehicle_id for row in moved])] if moved else []


def count_dropped(connection: Connection, tenant: Tenant, dropped: dict[str, int], *, now: datetime) -> None:
    """Adds to the day's counts of dropped fixes, by reason."""
    if not dropped:
        return
    connection.execute(
        """
        INSERT INTO dropped_fixes (company_id, environment, day, reason, count)
        SELECT %s, %s, %s, reason, count FROM unnest(%s::text[], %s::int[]) AS new (reason, count) ORDER BY reason
        ON CONFLICT (company_id, environment, day, reason)
        DO UPDATE SET count = dropped_fixes.count + excluded.count
        """,
        (*tenant, now.date(), list(dropped), list(dropped.values())),
    )


def forget_positions(connection: Connection, *, retention_days: float, now: datetime) -> int:
    """Housekeeping: deletes positions older than the retention. Returns how many."""
    return connection.execute(
        "DELETE FROM positions WHERE recorded_at < %s", (now - timedelta(days=retention_days),)
    ).rowcount
