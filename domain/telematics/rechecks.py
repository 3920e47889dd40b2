"""Trucks whose last positions are processed again: a stop where the truck stands may count from now on."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from psycopg import Cursor

from domain.database.connections import Connection, as_array
from domain.database.statements import Statement
from domain.queue.jobs import JOB_TRUCKS, after_commit, in_batches, process_positions_job

STANDING_MINUTES = 15
"""A fix within these minutes says where a truck stands now."""
FIRST_FIX_AFTER = timedelta(minutes=STANDING_MINUTES - 1)
"""A live truck that has sent nothing for so long is silent: an import may take it for one that stands nowhere. A minute
less, because the feed and the import read their clocks at different moments."""


class WaitingAgain(NamedTuple):
    """A truck whose fixes are to be processed again."""

    environment: str
    company_id: UUID
    vehicle_id: UUID


_RECHECK = """
    WITH moved AS MATERIALIZED (
        SELECT truck.vehicle_id, r.environment, bool_or(r.former_vehicle_id IS NOT NULL) AS let_go
        FROM routes r CROSS JOIN LATERAL (VALUES (r.vehicle_id), (r.former_vehicle_id)) AS truck (vehicle_id)
        WHERE r.id = ANY(%(ids)s::uuid[]) AND {moved} AND truck.vehicle_id IS NOT NULL
        GROUP BY truck.vehicle_id, r.environment
    ), locked AS MATERIALIZED (
        SELECT vehicle_id, environment FROM tracks t
        WHERE (environment = 'live'
               AND vehicle_id = ANY(ARRAY(SELECT vehicle_id FROM moved WHERE environment = 'live'))
               OR environment = 'sandbox'
               AND vehicle_id = ANY(ARRAY(SELECT vehicle_id FROM moved WHERE environment = 'sandbox')))
          AND ({looked_at})
        ORDER BY vehicle_id, environment FOR UPDATE OF t)  -- in the order of the feed, so that they never deadlock
    UPDATE tracks t SET unprocessed_from = least(t.unprocessed_from, {since}),
                        unprocessed_since = coalesce(t.unprocessed_since, %(now)s)
    FROM locked WHERE t.vehicle_id = locked.vehicle_id AND t.environment = locked.environment
    RETURNING t.environment, t.company_id, t.vehicle_id
"""
"""The trucks of routes: those that they are matched to, and those that they were matched to before their import started
over. Tracks are found by arrays of keys; by a join, each track of a batch would be compared with each truck."""
_MINUTES = f"interval '{STANDING_MINUTES} minutes'"
_LATELY = f"(CASE t.environment WHEN 'live' THEN least(t.newest_at, %(now)s) ELSE t.newest_at END - {_MINUTES})"
"""A truck's newest fix, and the minutes before it, say where the truck stands, even if it has sent nothing since. A
live clock that is ahead hides nothing; the sandbox's time is simulated."""
_LET_GO = "vehicle_id = ANY(ARRAY(SELECT vehicle_id FROM moved WHERE let_go))"
_RECHECK_ALL = Statement(WaitingAgain, _RECHECK.format(moved="true", looked_at="true", since=_LATELY))
_RECHECK_SINCE = Statement(WaitingAgain, _RECHECK.format(moved="true", looked_at="true", since="%(since)s"))
_RECHECK_IMPORTED = Statement(
    WaitingAgain,
    _RECHECK.format(
        moved="r.imported_at = %(now)s",
        looked_at=f"environment = 'sandbox' OR newest_at >= %(now)s - {_MINUTES}"
        f" OR unprocessed_from IS NOT NULL OR {_LET_GO}",
        since=_LATELY,
    ),
)
"""The sandbox's time is simulated, so any of its tracks may have a fix that has just come in."""
_RECHECK_LEFT = Statement(
    WaitingAgain,
    _RECHECK.format(
        moved="r.former_vehicle_id IS NOT NULL AND r.status IN ('pending_mapping', 'pending_window')",
        looked_at="true",
        since=_LATELY,
    ),
)


def recheck_trucks(
    connection: Connection, route_ids: Iterable[UUID], *, now: datetime, since: datetime | None = None
) -> None:
    """Has the last minutes of these routes' trucks processed again, or all fixes `since` a moment. A truck that a route
    lets go may stand at a stop that counts only from now on."""
    ids = list(route_ids)
    if not ids:
        return
    parameters = {"now": now, "ids": as_array(ids)}
    if since is None:
        process_trucks(connection, _RECHECK_ALL.all(connection, parameters))
    else:
        process_trucks(connection, _RECHECK_SINCE.all(connection, {**parameters, "since": since}))


def recheck_imported(connection: Connection, route_ids: Sequence[UUID], *, now: datetime) -> Cursor[WaitingAgain]:
    """Rechecks the trucks of those of the routes that are imported at `now`: the trucks that the routes have left, and
    those that have sent a fix lately. These are locked, so that the feed's next fix sees the draft; the first fix of a
    silent truck waits for the sweep, which sees it. The trucks are for `process_trucks`. They are not read here, so
    that the statement can go out together with the one that imports."""
    return _RECHECK_IMPORTED.execute(connection, {"now": now, "ids": as_array(route_ids)})


def recheck_left(connection: Connection, route_ids: Sequence[UUID], *, now: datetime) -> Cursor[WaitingAgain]:
    """Rechecks the trucks to which these routes were matched before their import started over, where they are held
    now."""
    return _RECHECK_LEFT.execute(connection, {"now": now, "ids": as_array(route_ids)})


def process_trucks(connection: Connection, trucks: Iterable[WaitingAgain]) -> None:
    """Has these trucks processed after the commit, by jobs of one company each."""
    by_fleet: dict[tuple[str, UUID], list[UUID]] = {}
    for environment, company_id, vehicle_id in trucks:
        by_fleet.setdefault((environment, company_id), []).append(vehicle_id)
    for (environment, company_id), vehicles in by_fleet.items():
        for batch in in_batches(vehicles, JOB_TRUCKS):
            after_commit(connection, process_positions_job(environment, batch, company_id))
