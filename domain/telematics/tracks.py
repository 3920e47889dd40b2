"""Tracks: which trucks have fixes that wait to be processed.

`routes.progress.tracking` takes the steps in the order in which they stand here: find the trucks that wait, lock their
tracks, and note what is left for the next job. `fix_batches` has the steps between, which load their fixes.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.burn.shortfalls import NextLook
from domain.database.connections import Connection, as_array
from domain.database.statements import Command, NotNull, Statement, in_turns
from domain.queue.jobs import SWEEP_GRACE
from domain.telematics import arrivals
from domain.telematics.due_trucks import OPEN_ROUTES_OF_TRUCK
from domain.telematics.rechecks import WaitingAgain, process_trucks


class WaitingTruck(NamedTuple):
    vehicle_id: UUID
    company_id: UUID
    version: str
    """The version of the track, which every change of the track changes."""
    route_ids: list[UUID]
    """A few open routes of the truck, its current one among them."""


_WAITING_TRUCKS = Statement(
    WaitingTruck,
    f"""
    SELECT truck.vehicle_id, truck.company_id, truck.ctid AS version,
           ARRAY(SELECT open_route.id FROM ({OPEN_ROUTES_OF_TRUCK}) AS open_route) AS route_ids
    FROM tracks truck
    WHERE truck.vehicle_id = ANY(%(vehicles)s) AND truck.environment = %(environment)s
      AND truck.unprocessed_from IS NOT NULL
    """,
)


def waiting_trucks(
    connection: Connection, environment: str, vehicle_ids: Sequence[UUID], *, early: timedelta
) -> dict[UUID, WaitingTruck]:
    """The vehicles with waiting fixes, by vehicle. Nothing is locked."""
    rows = _WAITING_TRUCKS.all(
        connection,
        {
            "vehicles": as_array(vehicle_ids),
            "environment": environment,
            "early": early,
            "stale": arrivals.STALE_DRAFT_AFTER,
        },
    )
    return {row.vehicle_id: row for row in rows}


class Track(NamedTuple):
    """A truck whose fixes wait to be processed."""

    version: str
    vehicle_id: UUID
    unprocessed_from: NotNull[datetime]
    """`recorded_at` of the earliest fix that waits."""
    oldest_at: datetime
    newest_at: datetime
    latitude: float
    longitude: float
    """The place of its newest fix."""
    free_since: datetime | None
    """When the truck completed its last route, by its fixes' time; None if it never did."""
    freed_at: datetime | None
    """When the truck completed its last route, by our clock."""
    watch_from: datetime | None = None
    watch_at: datetime | None = None
    fuel_stops_passed: int = 0
    """Explained in `watches`, like the two fields before it."""
    look_from: datetime | None = None
    look_below_percent: float | None = None
    look_by: datetime | None = None
    low_since: datetime | None = None
    """Explained in `looks`, like the three fields before it."""

    @property
    def look(self) -> NextLook | None:
        if self.look_from is None or self.look_below_percent is None or self.look_by is None:
            return None
        return NextLook(self.look_from, self.look_below_percent, self.look_by)

    def with_look(self, look: NextLook | None, low_since: datetime | None) -> "Track":
        """The track with another next look, or with None where the truck is looked at no more."""
        since, below_percent, by = look or (None, None, None)
        return self._replace(look_from=since, look_below_percent=below_percent, look_by=by, low_since=low_since)


_LOCK_TRACKS = Statement(
    Track,
    "SELECT ctid AS version, vehicle_id, unprocessed_from, oldest_at, newest_at, latitude, longitude,"
    " free_since, freed_at, watch_from, watch_at, fuel_stops_passed, look_from, look_below_percent, look_by, low_since"
    " FROM tracks"
    " WHERE vehicle_id = ANY(%s) AND environment = %s AND unprocessed_from IS NOT NULL"
    " ORDER BY vehicle_id FOR UPDATE SKIP LOCKED",
)


def lock_tracks(
    connection: Connection, environment: str, waiting: Mapping[UUID, WaitingTruck]
) -> tuple[list[Track], list[UUID]]:
    """The tracks of the waiting trucks, and the vehicles whose track has changed since `waiting` was read.

    A changed track means: a position came in, or a route of the truck was imported or closed. So the truck may be on
    another route now, and a new job processes it. Trucks that another worker processes are in neither list.
    """
    tracks = _LOCK_TRACKS.all(connection, (as_array(waiting), environment))
    changed = [track.vehicle_id for track in tracks if track.version != waiting[track.vehicle_id].version]
    return [track for track in tracks if track.vehicle_id not in changed], changed


# What is left, and what waits again


_NOTE = Command(
    """
    UPDATE tracks t
    SET unprocessed_from = new.rest_from,
        unprocessed_since = CASE WHEN new.rest_from IS NOT NULL THEN %(now)s::timestamptz END,
        look_from = new.look_from, look_below_percent = new.look_below_percent, look_by = new.look_by,
        low_since = new.low_since
    FROM unnest(%(vehicles)s::uuid[], %(rest_from)s::timestamptz[], %(look_from)s::timestamptz[],
                %(look_below)s::float8[], %(look_by)s::timestamptz[], %(low_since)s::timestamptz[])
        AS new (vehicle_id, rest_from, look_from, look_below_percent, look_by, low_since)
    WHERE t.vehicle_id = ANY(%(vehicles)s) AND t.environment = %(environment)s AND t.vehicle_id = new.vehicle_id
    """
)


def note_processed(
    connection: Connection,
    environment: str,
    tracks: Sequence[Track],
    rest_from: Mapping[UUID, datetime],
    *,
    now: datetime,
) -> None:
    """Notes that these locked tracks are processed, and stores their looks. For vehicles in `rest_from`, fixes recorded
    from that time on still wait; the others have none left."""
    parameters = {
        "now": now,
        "vehicles": as_array(track.vehicle_id for track in tracks),
        "rest_from": as_array(rest_from.get(track.vehicle_id) for track in tracks),
        **looks_as_arrays(tracks),
        "low_since": as_array(track.low_since for track in tracks),
        "environment": environment,
    }
    _NOTE.execute(connection, parameters)


def looks_as_arrays(tracks: Sequence[Track]) -> dict[str, str]:
    """The next looks at trucks, as parameters of a statement."""
    return {
        "look_from": as_array(track.look_from for track in tracks),
        "look_below": as_array(track.look_below_percent for track in tracks),
        "look_by": as_array(track.look_by for track in tracks),
    }


_FREE_TRUCKS = Statement(
    WaitingAgain,
    """
    UPDATE tracks t SET free_since = r.completed_at, freed_at = %(now)s, watch_at = NULL,
                        look_from = NULL, look_below_percent = NULL, look_by = NULL, low_since = NULL,
                        unprocessed_from = least(t.unprocessed_from, r.completed_at),
                        unprocessed_since = coalesce(t.unprocessed_since, %(now)s)
    FROM routes r
    WHERE r.id = ANY(%(ids)s) AND t.vehicle_id = ANY(ARRAY(SELECT vehicle_id FROM routes WHERE id = ANY(%(ids)s)))
      AND t.vehicle_id = r.vehicle_id AND t.environment = r.environment
    RETURNING t.environment, t.company_id, t.vehicle_id
    """,
)


def free_trucks(connection: Connection, route_ids: Sequence[UUID], *, now: datetime) -> None:
    """Frees the trucks of routes that were just completed. A truck's fixes since it reached the last stop belong to its
    next route, and are processed again."""
    process_trucks(connection, _FREE_TRUCKS.all(connection, {"now": now, "ids": list(route_ids)}))


_LOST = Statement(
    WaitingAgain,
    in_turns(
        "environment, company_id, vehicle_id",
        "SELECT environment, company_id, vehicle_id, unprocessed_since AS since FROM tracks"
        " WHERE unprocessed_from IS NOT NULL AND unprocessed_since <= %s",
    ),
)


def lost_processing(
    connection: Connection, *, now: datetime, limit: int = 10_000
) -> dict[tuple[str, UUID], list[UUID]]:
    """Vehicles whose fixes still wait although their job should have run: vehicle ids by environment and company, the
    longest waiting first."""
    lost: dict[tuple[str, UUID], list[UUID]] = {}
    for row in _LOST.all(connection, (now - SWEEP_GRACE, limit)):
        lost.setdefault((row.environment, row.company_id), []).append(row.vehicle_id)
    return lost


_RETRY_LATER = Command(
    "UPDATE tracks SET unprocessed_since = %s"
    " WHERE vehicle_id = %s AND environment = %s AND unprocessed_from IS NOT NULL"
)


def record_failed_processing(connection: Connection, environment: str, vehicle_id: UUID, *, now: datetime) -> None:
    """Notes an unexpected error, so that the sweep tries this truck again in a minute, not every few seconds."""
    _RETRY_LATER.execute(connection, (now + timedelta(minutes=1), vehicle_id, environment))
