"""Closures: a person's word that a station is closed until a moment, for one company or, from operators, for all.

A closure ends by itself. Plans leave out a station that is closed when their truck arrives there. Trucks that are on
their way to it get new plans: `routes/plans/closed_stations.py`."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.audit.entries import Action, Actor, audit_subject, record_action
from domain.database.connections import Connection
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.errors import FuelrouteError
from domain.ids import new_id
from domain.stations.places import require_station

LONGEST_CLOSURE = timedelta(days=366)
"""A station that is closed for longer is retired, not marked."""

_LONGEST_REASON = 200
MOST_LISTED = 500


class ImpossibleClosure(FuelrouteError):
    """The moment until which a station is to be closed makes no sense; the text says why."""


class Closure(NamedTuple):
    """A station that is closed until a moment; `company_id` is None where it is closed for all companies."""

    id: UUID
    station_id: str
    station: str
    """The station's name."""
    company_id: UUID | None
    closed_until: datetime
    reason: str
    closed_by: str
    closed_at: datetime


def fault_of_moment(closed_until: datetime, *, now: datetime) -> str | None:
    """The reason why no station can be closed until that moment; None if one can."""
    if closed_until <= now:
        return "that time is over already"
    if closed_until - now > LONGEST_CLOSURE:
        return f"that is more than {LONGEST_CLOSURE.days} days ahead: retire the station instead"
    return None


_STORE = """
    INSERT INTO station_closures (id, station_id, company_id, closed_until, reason, closed_by, closed_at)
    SELECT new.id, new.station_id, %(company_id)s, new.closed_until, %(reason)s, %(by)s, %(now)s
    FROM unnest(%(ids)s::uuid[], %(stations)s::text[], %(until)s::timestamptz[]) AS new (id, station_id, closed_until)
    JOIN stations s ON s.station_id = new.station_id
    ON CONFLICT (company_id, station_id) DO UPDATE SET
        id = CASE WHEN station_closures.closed_until = excluded.closed_until THEN station_closures.id
                  ELSE excluded.id END,
        closed_until = excluded.closed_until, reason = excluded.reason,
        closed_by = excluded.closed_by, closed_at = excluded.closed_at
    WHERE (station_closures.closed_until, station_closures.reason)
          IS DISTINCT FROM (excluded.closed_until, excluded.reason)
    RETURNING station_closures.station_id
"""
_CLOSE = Scalar(str, _STORE)


def mark_closed(
    connection: Connection,
    station_id: str,
    company_id: UUID | None,
    closed_until: datetime,
    by: Actor,
    *,
    now: datetime,
) -> bool:
    """Closes a station for a company, or with None for all, in place of an earlier closure of the same company. Returns
    False if that is known already. Raises UnknownStation and ImpossibleClosure."""
    require_station(connection, station_id)
    fault = fault_of_moment(closed_until, now=now)
    if fault is not None:
        raise ImpossibleClosure(f"the station cannot be closed until then: {fault}")
    if not _close(connection, {station_id: closed_until}, company_id, by, now=now):
        return False
    _record(
        connection,
        Action("stations.close"),
        station_id,
        company_id,
        by.with_reason(f"until {closed_until.isoformat()}"),
    )
    return True


def _close(
    connection: Connection, until: Mapping[str, datetime], company_id: UUID | None, by: Actor, *, now: datetime
) -> list[str]:
    return _CLOSE.all(
        connection,
        {
            "ids": [new_id() for _ in until],
            "stations": list(until),
            "until": list(until.values()),
            "company_id": company_id,
            "reason": by.reason.strip()[:_LONGEST_REASON],
            "by": by.name,
            "now": now,
        },
    )


_REOPEN = Scalar(
    str,
    "DELETE FROM station_closures WHERE station_id = ANY(%s) AND company_id IS NOT DISTINCT FROM %s::uuid"
    " AND closed_until > %s RETURNING station_id",
)


def mark_open(connection: Connection, station_id: str, company_id: UUID | None, by: Actor, *, now: datetime) -> bool:
    """Takes back the closure of a company, or with None that of all. Returns False if there is none."""
    if not _REOPEN.all(connection, ([station_id], company_id, now)):
        return False
    _record(connection, Action("stations.reopen"), station_id, company_id, by.with_reason("open again"))
    return True


def _record(
    connection: Connection,
    action: Action,
    station_id: str,
    company_id: UUID | None,
    by: Actor,
) -> None:
    record_action(connection, by, action, audit_subject("station", station_id), company_id=company_id)


def store_told_closures(connection: Connection, told: Mapping[str, datetime | None], *, now: datetime) -> None:
    """Stores closures for all companies as a file of stations tells them. A station with None, or with a moment that is
    over, is open."""
    until = {one: moment for one, moment in told.items() if moment is not None and moment > now}
    _REOPEN.all(connection, ([one for one in told if one not in until], None, now))
    _close(connection, until, None, Actor("a file of stations"), now=now)


_IN_FORCE = Statement(
    Closure,
    """
    SELECT c.id, c.station_id, s.name AS station, c.company_id, c.closed_until, c.reason, c.closed_by, c.closed_at
    FROM station_closures c JOIN stations s ON s.station_id = c.station_id
    WHERE c.closed_until > %(now)s AND (c.company_id IS NULL OR c.company_id = %(company_id)s::uuid)
      AND (%(station_id)s::text IS NULL OR c.station_id = %(station_id)s)
    ORDER BY c.closed_until, c.id LIMIT %(limit)s
    """,
)


def closures_in_force(
    connection: Connection, company_id: UUID | None, *, station_id: str | None = None, now: datetime
) -> list[Closure]:
    """The closures for all companies and those of this company, the first to end first; with `station_id` those of one
    station."""
    asked = {"company_id": company_id, "station_id": station_id, "now": now, "limit": MOST_LISTED}
    return _IN_FORCE.all(connection, asked)


class _Closed(NamedTuple):
    station_id: str
    closed_until: NotNull[datetime]


CLOSED_STATIONS = Statement(
    _Closed,
    "SELECT station_id, max(closed_until) AS closed_until FROM station_closures"
    " WHERE closed_until > %(now)s AND (company_id IS NULL OR company_id = %(company_id)s) GROUP BY station_id",
)
"""The stations that are closed for a company, each with the moment from which it is open."""

_FORGET = Command(
    "DELETE FROM station_closures WHERE id IN (SELECT id FROM station_closures WHERE closed_until < %s LIMIT %s)"
)


def forget_closures(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Deletes closures that ended long ago. Returns how many."""
    return _FORGET.execute(connection, (now - timedelta(days=days), limit)).rowcount
