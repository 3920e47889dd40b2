"""Reads what is known of a truck's time at one stop, for the page and the statement."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant
from domain.database.statements import Command, NotNull, Statement
from domain.detention.fixes_at_stop import (
    WatchedStay,
    proven_until,
    read_fixes_since,
    watched_stay,
    with_departure,
)
from domain.detention.free_time import FreeTime, free_time_of
from domain.documents import StopDocument
from domain.lifecycle import Environment, RouteStatus
from domain.roads.sphere import stop_point
from domain.routes.visits import DISPATCHER, IMPLIED, load_visits
from domain.telematics.arrivals import Evidence, Visit

_ENDED = (RouteStatus.COMPLETED, RouteStatus.CANCELED, RouteStatus.ERROR)


class End(NamedTuple):
    """The arrival or the departure, with what shows it."""

    at: datetime
    rule: str
    """The rule that decided it; empty once retention has deleted it."""
    fixes: Sequence[dict[str, Any]]
    """The fixes that satisfied the rule, as documents: `recordedAt`, `latitude`, `longitude`, `speedMph`,
    `accuracyMeters`."""
    by: str = ""
    """The dispatcher who entered it, and why; empty where fixes show it."""


class Dwell(NamedTuple):
    """A truck's time at one stop of a route."""

    route_id: UUID
    environment: str
    company: str
    time_zone: str
    load: str
    reference: str | None
    unit_number: str | None
    vin: str | None
    stop: int
    stops: int
    place: StopDocument
    opens_at: datetime | None
    closes_at: datetime | None
    arrival: End
    departure: End | None
    """None while the truck was not seen to leave."""
    left_by: datetime | None
    """The time by which the truck had left, where no fix showed the departure."""
    free_minutes: float
    free: FreeTime
    stay: WatchedStay
    signed_at: datetime | None
    """When a statement of the stop was first signed; its free time stays from then on."""
    reached_together: Sequence[int] = ()
    """Other stops at the same place, reached with this one: the truck stayed once for all of them."""

    @property
    def until(self) -> datetime | None:
        """The end of the time that is proven: the departure, or the last fix at the stop; None where nothing is."""
        return self.departure.at if self.departure is not None else self.stay.last_at

    @property
    def minutes_beyond(self) -> int | None:
        """Whole minutes beyond the free time that are proven; None where no end of the stay is known."""
        return self.free.minutes_beyond(self.until) if self.until is not None else None


class _Stay(NamedTuple):
    environment: str
    company: str
    time_zone: str
    external_id: str
    reference: str | None
    unit_number: str | None
    vin: str | None
    vehicle_id: UUID | None
    status: str
    scheduled_start: datetime
    stops: list[StopDocument]
    arrival_evidence: dict[str, Any] | None
    departure_evidence: dict[str, Any] | None
    free_minutes: NotNull[float]
    signed_at: datetime | None


_STAY = Statement(
    _Stay,
    """
    SELECT v.environment, c.name AS company, c.time_zone, r.external_id, r.reference, ve.unit_number, ve.vin,
           v.vehicle_id, r.status, r.scheduled_start, r.stops, v.arrival_evidence, v.departure_evidence,
           coalesce(d.free_minutes, c.detention_free_minutes) AS free_minutes, d.signed_at
    FROM visits v JOIN routes r ON r.id = v.route_id JOIN companies c ON c.id = v.company_id
    LEFT JOIN vehicles ve ON ve.id = v.vehicle_id
    LEFT JOIN dwells d ON d.route_id = v.route_id AND d.stop = v.stop AND d.arrived_at = v.arrived_at
    WHERE v.company_id = %s AND v.route_id = %s AND v.stop = %s
    """,
)


def read_dwell(
    connection: Connection, company_id: UUID, route_id: UUID, stop: int, *, radius_meters: float
) -> Dwell | None:
    """The truck's time at a stop, counted from 0; None where no visit is known."""
    row = _STAY.first(connection, (company_id, route_id, stop))
    if row is None:
        return None
    place = row.stops[stop]
    visits = load_visits(connection, [route_id])[route_id]
    visit = visits[stop]
    point = stop_point(place)
    tenant = Tenant(company_id, Environment(row.environment))
    fixes = read_fixes_since(connection, tenant, row.vehicle_id, visit.arrived_at) if row.vehicle_id else []
    if visit.departed_at is None and row.status in _ENDED:
        visit = with_departure(point, visit, fixes, radius_meters)
    opens_at, closes_at = _window(place)
    starts_at = row.scheduled_start if 0 in visits and _is_one_arrival(visits, 0, stop) else None
    evidence = row.departure_evidence or {}
    seen_until = datetime.fromisoformat(evidence["seenUntil"]) if "seenUntil" in evidence else None
    until = proven_until(connection, tenant, row.vehicle_id, visit, seen_until)
    is_hidden = evidence.get("source") == IMPLIED or until != visit.departed_at
    stay = watched_stay(point, fixes, visit.departed_at, radius_meters)
    return Dwell(
        route_id=route_id,
        environment=row.environment,
        company=row.company,
        time_zone=row.time_zone,
        load=row.external_id,
        reference=row.reference,
        unit_number=row.unit_number,
        vin=row.vin,
        stop=stop,
        stops=len(row.stops),
        place=place,
        opens_at=opens_at,
        closes_at=closes_at,
        arrival=_end(visit.arrived_at, row.arrival_evidence),
        departure=None if is_hidden or visit.departed_at is None else _departure(visit, row.departure_evidence),
        left_by=visit.departed_at if is_hidden else None,
        free_minutes=row.free_minutes,
        free=free_time_of(visit.arrived_at, opens_at, closes_at, row.free_minutes, starts_at=starts_at),
        stay=stay._replace(last_at=stay.last_at or seen_until),
        signed_at=row.signed_at,
        reached_together=[other for other in sorted(visits) if other != stop and _is_one_arrival(visits, other, stop)],
    )


_KEEP = Command(
    """
    INSERT INTO dwells (company_id, environment, route_id, stop, arrived_at, free_minutes, free_until, is_detained,
                        judged_at, signed_at)
    VALUES (%(company_id)s, %(environment)s, %(route_id)s, %(stop)s, %(arrived_at)s, %(free_minutes)s, %(free_until)s,
            false, %(now)s, %(now)s)
    ON CONFLICT (route_id, stop) DO UPDATE SET arrived_at = excluded.arrived_at, free_minutes = excluded.free_minutes,
        free_until = excluded.free_until, signed_at = excluded.signed_at,
        is_detained = dwells.is_detained AND dwells.arrived_at = excluded.arrived_at,
        told_at = coalesce(dwells.told_at, CASE WHEN dwells.is_detained THEN dwells.judged_at END)
    WHERE dwells.signed_at IS NULL OR dwells.arrived_at <> excluded.arrived_at
    """
)


def keep_free_time(connection: Connection, company_id: UUID, dwell: Dwell, *, now: datetime) -> None:
    """Keeps the free time of a stop of which a statement is being signed, whatever the policy becomes: two statements
    of one arrival never differ by it."""
    values = {"arrived_at": dwell.arrival.at, "free_minutes": dwell.free_minutes, "free_until": dwell.free.ends_at}
    which = {"company_id": company_id, "environment": dwell.environment, "route_id": dwell.route_id, "stop": dwell.stop}
    _KEEP.execute(connection, {**which, **values, "now": now})


def _is_one_arrival(visits: Mapping[int, Visit], one: int, other: int) -> bool:
    return visits[one].arrived_at == visits[other].arrived_at


def _window(place: StopDocument) -> tuple[datetime | None, datetime | None]:
    window = place.get("arrivalWindow") or {}
    start, end = window.get("start"), window.get("end")
    return datetime.fromisoformat(start) if start else None, datetime.fromisoformat(end) if end else None


def _departure(visit: Visit, stored: dict[str, Any] | None) -> End | None:
    if visit.departed_at is None:
        return None
    if stored is not None or not isinstance(visit.departure, Evidence):
        return _end(visit.departed_at, stored)
    fixes = [
        {
            "recordedAt": fix.recorded_at.isoformat(),
            "latitude": fix.latitude,
            "longitude": fix.longitude,
            "speedMph": fix.speed_mph,
            "accuracyMeters": fix.accuracy_meters,
        }
        for fix in visit.departure.fixes
    ]
    return End(visit.departed_at, visit.departure.rule, fixes)


def _end(at: datetime, evidence: dict[str, Any] | None) -> End:
    if evidence is None:
        return End(at, "", ())
    by = f"{evidence['by']}: {evidence['reason']}" if evidence.get("source") == DISPATCHER else ""
    return End(at, evidence["rule"], evidence["fixes"], by)
