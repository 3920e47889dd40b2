"""Trucks whose last positions are processed again: a stop where the truck stands may count from now on."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from psycopg import Cursor

from domain.database import Connection, as_array
from domain.jobs import JOB_TRUCKS, Job, in_batches, process_positions
from domain.statements import Statement

STANDING_MINUTES = 15
"""A fix not older than this says where a truck stands now."""


class _Truck(NamedTuple):
    environment: str
    vehicle_id: UUID


_RECHECK = """
    WITH locked AS MATERIALIZED (
        SELECT vehicle_id, environment FROM tracks t
        JOIN (SELECT DISTINCT vehicle_id, environment FROM routes WHERE {moved}) AS moved
             USING (vehicle_id, environment)
        WHERE t.vehicle_id = ANY(ARRAY(SELECT vehicle_id FROM routes WHERE {moved}))
          AND (t.newest_at >= %(since)s OR t.unprocessed_from IS NOT NULL)
        ORDER BY vehicle_id, environment FOR UPDATE OF t)  -- in the order of the feed, so that they never deadlock
    UPDATE tracks t SET unprocessed_from = least(t.unprocessed_from, %(since)s),
                        unprocessed_since = coalesce(t.unprocessed_since, %(now)s)
    FROM locked WHERE t.vehicle_id = locked.vehicle_id AND t.environment = locked.environment
    RETURNING t.environment, t.vehicle_id
"""
_RECHECK_ALL = Statement(_Truck, _RECHECK.format(moved="id = ANY(%(ids)s::uuid[])"))
_RECHECK_IMPORTED = Statement(_Truck, _RECHECK.format(moved="id = ANY(%(ids)s::uuid[]) AND imported_at = %(now)s"))


def recheck_trucks(
    connection: Connection, route_ids: Iterable[UUID], *, now: datetime, since: datetime | None = None
) -> list[Job]:
    """Has the last minutes of these routes' trucks processed again, or what they have done `since`. When a route is
    imported, canceled or ended, its truck may stand at a stop that counts only from now on.

    Returns the jobs for it, to enqueue after the commit.
    """
    ids = list(route_ids)
    return process_trucks(_RECHECK_ALL.all(connection, _parameters(ids, now, since))) if ids else []


def recheck_imported(connection: Connection, route_ids: Sequence[UUID], *, now: datetime) -> Cursor[_Truck]:
    """Likewise for those of the routes that are imported at `now`. The trucks are for `process_trucks`. They are not
    read here, so that the statement can go out together with the one that imports."""
    return _RECHECK_IMPORTED.execute(connection, _parameters(route_ids, now))


def _parameters(route_ids: Sequence[UUID], now: datetime, since: datetime | None = None) -> dict[str, object]:
    return {"since": since or now - timedelta(minutes=STANDING_MINUTES), "now": now, "ids": as_array(route_ids)}


def process_trucks(trucks: Iterable[tuple[str, UUID]]) -> list[Job]:
    """The jobs that process these trucks, each given as its environment and the vehicle's id."""
    by_environment: dict[str, list[UUID]] = {}
    for environment, vehicle_id in trucks:
        by_environment.setdefault(environment, []).append(vehicle_id)
    return [
        process_positions(environment, batch)
        for environment, vehicles in by_environment.items()
        for batch in in_batches(vehicles, JOB_TRUCKS)
    ]
