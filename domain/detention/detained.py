"""Finds stops whose free time has ended while the truck was still there, once for each stop.

A trigger on `dwells` makes the webhook event `stop.detained` of each (`migrations/versions/dwells.py`). A fix from the
stop after the end of the free time, or a departure after it, is the proof: a truck that has fallen silent is not said
to be detained. So the pass may come late, and still finds every stop of the last days. The event is for the day on
which the free time ended.

Where a company changes its free time, the stops of the last days are judged again by the next pass: who was told of
one is not told again, and one of which a statement was signed keeps its free time."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.accounts.companies import note_free_times
from domain.database.connections import Connection, Tenant
from domain.database.fence import is_at_work
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.detention.fixes_at_stop import last_fix_there, proven_until, read_fixes_since, with_departure
from domain.driven_lanes.learning import LATE_FIXES
from domain.lifecycle import Environment, RouteStatus
from domain.roads import Point
from domain.routes.visits import IMPLIED, JudgedStay, judge_detention_again, load_visits, note_detention_judged
from domain.telematics.arrivals import Visit

FOUND_WITHIN = timedelta(days=7)
"""Arrivals longer ago are not looked at."""

_ON_ITS_WAY = (RouteStatus.DRAFT, RouteStatus.PLANNED, RouteStatus.ACTIVE)


class _AtStop(NamedTuple):
    """A stop whose free time has ended, by the newest fix of its truck or by its departure."""

    route_id: UUID
    company_id: UUID
    environment: str
    status: str
    stop: int
    vehicle_id: NotNull[UUID]
    arrived_at: datetime
    departed_at: datetime | None
    free_minutes: float
    free_until: NotNull[datetime]
    latitude: NotNull[float]
    longitude: NotNull[float]


_DWELL = "LEFT JOIN dwells d ON d.route_id = v.route_id AND d.stop = v.stop AND d.arrived_at = v.arrived_at"
_FREE_MINUTES = "CASE WHEN d.signed_at IS NOT NULL THEN d.free_minutes ELSE c.detention_free_minutes END"
"""SQL of the free time of a visit `v` to a stop: that of its signed statement, or else the policy's."""
_IS_FOUND = f"coalesce(d.is_detained AND d.free_minutes = {_FREE_MINUTES}, false)"


def _free_until(place: str, free_minutes: str) -> str:
    """SQL of the end of the free time of a visit `v` of a route `r`, as `free_time_of` has it."""
    opens_at = f"({place}->'arrivalWindow'->>'start')::timestamptz"
    began_at = "(SELECT first.arrived_at FROM visits first WHERE first.route_id = v.route_id AND first.stop = 0)"
    return f"""greatest(greatest(v.arrived_at, {opens_at}) + make_interval(secs => {free_minutes} * 60),
                 CASE WHEN {opens_at} IS NULL AND v.arrived_at = {began_at} THEN r.scheduled_start END)"""


_FREE_TIME_OVER = Statement(
    _AtStop,
    f"""
    WITH stayed AS MATERIALIZED (
        SELECT v.route_id, v.stop, {_FREE_MINUTES} AS free_minutes
        FROM visits v JOIN companies c ON c.id = v.company_id
        JOIN tracks t ON t.vehicle_id = v.vehicle_id AND t.environment = v.environment
        {_DWELL}
        WHERE v.is_to_judge AND v.arrived_at > %(since)s
          AND coalesce(v.departed_at, t.newest_at) >= v.arrived_at + make_interval(secs => {_FREE_MINUTES} * 60)
          AND v.departure_evidence->>'source' IS DISTINCT FROM '{IMPLIED}' AND {is_at_work("c.id")}
          AND NOT {_IS_FOUND})
    SELECT v.route_id, v.company_id, v.environment, r.status, v.stop, v.vehicle_id, v.arrived_at, v.departed_at,
           s.free_minutes, free.until AS free_until,
           (it.place->>'latitude')::float AS latitude, (it.place->>'longitude')::float AS longitude
    FROM stayed s JOIN visits v ON v.route_id = s.route_id AND v.stop = s.stop
    JOIN routes r ON r.id = v.route_id
    JOIN tracks t ON t.vehicle_id = v.vehicle_id AND t.environment = v.environment
    CROSS JOIN LATERAL (SELECT r.stops->v.stop AS place) AS it
    CROSS JOIN LATERAL (SELECT {_free_until("it.place", "s.free_minutes")} AS until) AS free
    WHERE coalesce(v.departed_at, t.newest_at) >= free.until
    ORDER BY free.until DESC, v.route_id, v.stop LIMIT %(limit)s
    FOR NO KEY UPDATE OF r SKIP LOCKED
    """,
)
"""The stays that were long enough come first, by the times alone, so that the stops of few routes are unpacked. The
newest are judged first: a stop that cannot be judged yet holds up no other."""


_NOTHING_LEFT = Statement(
    JudgedStay,
    f"""
    SELECT v.route_id, v.stop, v.arrived_at, v.departed_at
    FROM visits v JOIN routes r ON r.id = v.route_id JOIN companies c ON c.id = v.company_id
    {_DWELL}
    WHERE v.is_to_judge AND v.arrived_at > %(since)s AND v.departed_at IS NOT NULL AND {is_at_work("c.id")}
      AND (v.departure_evidence->>'source' IS NOT DISTINCT FROM '{IMPLIED}' OR {_IS_FOUND}
           OR v.departed_at < {_free_until("(r.stops->v.stop)", _FREE_MINUTES)})
    ORDER BY v.arrived_at LIMIT %(limit)s
    FOR NO KEY UPDATE OF r SKIP LOCKED
    """,
)
"""Stops that their trucks left in time, or that were judged before and have changed since. A pass notes some of them;
the next one finds the others."""
_NOTED_AT_ONCE = 5_000

_RESET = Command(
    """
    UPDATE dwells SET is_detained = false, told_at = coalesce(told_at, CASE WHEN is_detained THEN judged_at END),
        free_until = free_until + make_interval(secs => (%(free_minutes)s - free_minutes) * 60),
        free_minutes = %(free_minutes)s, judged_at = %(now)s
    WHERE company_id = %(company_id)s AND arrived_at > %(since)s AND signed_at IS NULL
      AND free_minutes <> %(free_minutes)s
    """
)


_FORGET_UNTOLD = Scalar(
    datetime | None,
    "DELETE FROM dwells WHERE company_id = %(company_id)s AND route_id = %(route_id)s AND stop = %(stop)s"
    " AND NOT is_detained AND told_at IS NULL"
    " RETURNING CASE WHEN arrived_at = %(arrived_at)s THEN signed_at END",
)
"""A stop that was not detained so far is stored anew, so that the trigger tells of it. Returns when a statement of this
arrival was signed."""
_STORE = Command(
    "INSERT INTO dwells (company_id, environment, route_id, stop, arrived_at, free_minutes, free_until, is_detained,"
    " judged_at, told_at, signed_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
    " ON CONFLICT (route_id, stop) DO UPDATE SET arrived_at = excluded.arrived_at,"
    " free_minutes = excluded.free_minutes, free_until = excluded.free_until, is_detained = excluded.is_detained,"
    " judged_at = excluded.judged_at, told_at = coalesce(dwells.told_at,"
    " CASE WHEN dwells.is_detained THEN dwells.judged_at ELSE excluded.told_at END),"
    " signed_at = CASE WHEN dwells.arrived_at = excluded.arrived_at THEN dwells.signed_at END"
)
"""A stop that was told before, of which a late fix has changed the arrival, or a policy the free time, is no new
event."""


def find_detained(connection: Connection, *, radius_meters: float, now: datetime, limit: int = 500) -> int:
    """Judges the stops whose free time has ended since the last pass, and those of companies that have changed their
    free time. Returns how many trucks are detained."""
    detained, noted = 0, list[JudgedStay]()
    since = now - FOUND_WITHIN
    _judge_changed_again(connection, since, now=now)
    for at_stop in _FREE_TIME_OVER.all(connection, {"since": since, "limit": limit}):
        judged = _is_detained(connection, at_stop, radius_meters, now)
        if judged is not None:
            _store(connection, at_stop, judged, now=now)
            noted.append(JudgedStay(at_stop.route_id, at_stop.stop, at_stop.arrived_at, at_stop.departed_at))
            detained += judged
    note_detention_judged(
        connection, [*noted, *_NOTHING_LEFT.all(connection, {"since": since, "limit": _NOTED_AT_ONCE})]
    )
    return detained


def _judge_changed_again(connection: Connection, since: datetime, *, now: datetime) -> None:
    """Has stops judged again where the free time has changed since. Those with a signed statement keep theirs."""
    for company in note_free_times(connection):
        if company.judged_minutes is not None:
            least = min(company.free_minutes, company.judged_minutes)  # whoever left earlier left in time by both
            judge_detention_again(connection, company.id, since=since, least_minutes=least)
            asked = {"company_id": company.id, "free_minutes": company.free_minutes, "since": since, "now": now}
            _RESET.execute(connection, asked)


def _store(connection: Connection, at_stop: _AtStop, is_detained: bool, *, now: datetime) -> None:
    signed_at = _FORGET_UNTOLD.first(connection, at_stop._asdict()) if is_detained else None
    _STORE.execute(connection, (*_row(at_stop), is_detained, now, now if is_detained else None, signed_at))


def _row(at_stop: _AtStop) -> Iterator[object]:
    yield from (at_stop.company_id, at_stop.environment, at_stop.route_id, at_stop.stop)
    yield from (at_stop.arrived_at, at_stop.free_minutes, at_stop.free_until)


def _is_detained(connection: Connection, at_stop: _AtStop, radius_meters: float, now: datetime) -> bool | None:
    """True if the truck was there when its free time ended. None while that is not known: fixes that are stored may not
    have been compared with the stops yet, and a tracker may still send those of its silence."""
    tenant = Tenant(at_stop.company_id, Environment(at_stop.environment))
    place = Point(at_stop.latitude, at_stop.longitude)
    visit = load_visits(connection, [at_stop.route_id])[at_stop.route_id][at_stop.stop]
    is_followed = at_stop.departed_at is None and at_stop.status in _ON_ITS_WAY
    if at_stop.departed_at is None:
        fixes = read_fixes_since(connection, tenant, at_stop.vehicle_id, at_stop.arrived_at)
        visit = with_departure(place, visit, fixes, radius_meters)
        if visit.departed_at is None:
            last = last_fix_there(place, fixes, radius_meters)
            if last is not None and last.recorded_at >= at_stop.free_until:
                return True
            return None if is_followed or last is not None or not fixes else False
    until = proven_until(connection, tenant, at_stop.vehicle_id, visit)
    is_beyond = until is not None and until >= at_stop.free_until
    may_come = tenant.environment == Environment.LIVE and until != visit.departed_at and _is_lately(visit, now)
    return None if (is_followed or may_come) and not is_beyond else is_beyond


def _is_lately(visit: Visit, now: datetime) -> bool:
    return visit.departed_at is not None and now - visit.departed_at < LATE_FIXES
