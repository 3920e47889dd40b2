"""Completed trips that wait until their fixes are compared with their fuel stops (`compliance`)."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.fence import is_at_work
from domain.database.statements import Command, Statement, in_turns
from domain.driven_lanes.learning import LATE_FIXES


class EndedTrip(NamedTuple):
    route_id: UUID
    company_id: UUID
    environment: str
    vehicle_id: UUID
    started_at: datetime
    """When the truck left the first stop, by the time of its fixes: the last one before a silence that hides it."""
    ended_at: datetime


_WAITING = Statement(
    EndedTrip,
    in_turns(
        "route_id, company_id, environment, vehicle_id, started_at, ended_at",
        f"""
        SELECT t.route_id, t.company_id, t.environment, t.vehicle_id, t.started_at, t.ended_at, t.completed_at AS since
        FROM trip_burns t
        WHERE t.stops_seen_at IS NULL AND t.completed_at <= %(now)s::timestamptz
              - CASE t.environment WHEN 'live' THEN %(late)s::interval ELSE interval '0' END
          AND {is_at_work("t.company_id")}
        """,
    ).replace("LIMIT %s", "LIMIT %(limit)s"),
)
_NOTE = Command("UPDATE trip_burns SET stops_seen_at = %s WHERE route_id = ANY(%s)")


def unseen_trips(connection: Connection, *, now: datetime, limit: int) -> list[EndedTrip]:
    """Trips that wait, of all companies in turns. Late fixes have come by then."""
    return _WAITING.all(connection, {"now": now, "late": LATE_FIXES, "limit": limit})


def note_seen(connection: Connection, route_ids: Sequence[UUID], *, now: datetime) -> None:
    """End the wait of these trips."""
    _NOTE.execute(connection, (now, list(route_ids)))
