"""Visits: when the truck of a route arrived at each stop, when it left, and the fixes that show it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database import Connection, as_json
from domain.statements import Command, Statement
from domain.telematics.arrivals import Evidence, Visit


class _StoredVisit(NamedTuple):
    route_id: UUID
    stop: int
    arrived_at: datetime
    departed_at: datetime | None


_VISITS = Statement(_StoredVisit, "SELECT route_id, stop, arrived_at, departed_at FROM visits WHERE route_id = ANY(%s)")


def load_visits(connection: Connection, route_ids: Sequence[UUID]) -> dict[UUID, dict[int, Visit]]:
    """Without their evidence: by route, then by position of the stop."""
    visits: dict[UUID, dict[int, Visit]] = {}
    for row in _VISITS.all(connection, (list(route_ids),)):
        visits.setdefault(row.route_id, {})[row.stop] = Visit(row.arrived_at, departed_at=row.departed_at)
    return visits


_STORE_VISITS = Command(
    """
    INSERT INTO visits (company_id, environment, route_id, stop, arrived_at, departed_at, arrival_evidence,
                        departure_evidence, stored_at)
    SELECT r.company_id, r.environment, new.route_id, new.stop, new.arrived_at, new.departed_at,
           coalesce(new.arrival_evidence, known.arrival_evidence),
           coalesce(new.departure_evidence, known.departure_evidence), %s
    FROM jsonb_to_recordset(%s) AS new (route_id uuid, stop int, arrived_at timestamptz, departed_at timestamptz,
         arrival_evidence jsonb, departure_evidence jsonb)
    JOIN routes r ON r.id = new.route_id
    LEFT JOIN visits known ON known.route_id = new.route_id AND known.stop = new.stop
    ON CONFLICT (route_id, stop) DO UPDATE SET
        arrived_at = excluded.arrived_at, departed_at = excluded.departed_at,
        arrival_evidence = excluded.arrival_evidence, departure_evidence = excluded.departure_evidence,
        stored_at = excluded.stored_at
    """
)


def store_visits(connection: Connection, visits: Mapping[UUID, Mapping[int, Visit]], *, now: datetime) -> None:
    """Visits by route, then by position of the stop. A visit without evidence keeps the one that is stored."""
    rows = [
        {
            "route_id": route_id,
            "stop": stop,
            "arrived_at": visit.arrived_at,
            "departed_at": visit.departed_at,
            "arrival_evidence": _evidence(visit.arrival),
            "departure_evidence": _evidence(visit.departure),
        }
        for route_id, of_route in visits.items()
        for stop, visit in of_route.items()
    ]
    if rows:
        _STORE_VISITS.execute(connection, (now, as_json(rows)))


def _evidence(evidence: Evidence | None) -> dict[str, object] | None:
    if evidence is None:
        return None
    fixes = [
        {
            "recordedAt": fix.recorded_at,
            "latitude": fix.latitude,
            "longitude": fix.longitude,
            "speedMph": fix.speed_mph,
            "accuracyMeters": fix.accuracy_meters,
        }
        for fix in evidence.fixes
    ]
    return {"rule": evidence.rule, "fixes": fixes}
