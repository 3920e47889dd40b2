"""Visits: when the truck of a route arrived at each stop, when it left, and what shows it.

The evidence of either end is stored as `{"rule": ..., "fixes": [...]}`; `fixes` may be empty. What was marked by hand
also has `"source": "dispatcher"`, `by`, `reason` and `markedAt`. A departure that is only implied has `"source":
"implied"` and the `stop` that the truck had reached.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from domain.database import Connection, as_json
from domain.statements import Command, Statement
from domain.telematics.arrivals import Evidence, Implied, Mark, Visit

DISPATCHER = "dispatcher"
IMPLIED = "implied"


class _StoredVisit(NamedTuple):
    route_id: UUID
    stop: int
    arrived_at: datetime
    departed_at: datetime | None
    arrival: dict[str, Any] | None
    departure: dict[str, Any] | None


_VISITS = Statement(
    _StoredVisit,
    """
    SELECT route_id, stop, arrived_at, departed_at,
           CASE WHEN arrival_evidence ? 'source' THEN arrival_evidence END AS arrival,
           CASE WHEN departure_evidence ? 'source' THEN departure_evidence END AS departure
    FROM visits WHERE route_id = ANY(%s)
    """,
)


def load_visits(connection: Connection, route_ids: Sequence[UUID]) -> dict[UUID, dict[int, Visit]]:
    """Without the fixes behind them: by route, then by position of the stop."""
    visits: dict[UUID, dict[int, Visit]] = {}
    for row in _VISITS.all(connection, (list(route_ids),)):
        visits.setdefault(row.route_id, {})[row.stop] = Visit(
            row.arrived_at,
            _mark(row.arrival) if row.arrival else None,
            row.departed_at,
            _said(row.departure) if row.departure else None,
        )
    return visits


def _mark(evidence: Mapping[str, Any]) -> Mark:
    return Mark(evidence["by"], evidence["reason"], datetime.fromisoformat(evidence["markedAt"]))


def _said(evidence: Mapping[str, Any]) -> Mark | Implied:
    return _mark(evidence) if evidence["source"] == DISPATCHER else Implied(evidence["stop"])


_STORE_VISITS = Command(
    """
    INSERT INTO visits (company_id, environment, route_id, stop, arrived_at, departed_at, arrival_evidence,
                        departure_evidence, stored_at)
    SELECT r.company_id, r.environment, new.route_id, new.stop, new.arrived_at, new.departed_at,
           coalesce(new.arrival_evidence, known.arrival_evidence),
           coalesce(new.departure_evidence, known.departure_evidence), %(now)s
    FROM jsonb_to_recordset(%(visits)s)
         AS new (route_id uuid, stop int, arrived_at timestamptz, departed_at timestamptz,
                 arrival_evidence jsonb, departure_evidence jsonb)
    JOIN routes r ON r.id = new.route_id AND r.id = ANY(%(routes)s)
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
        _STORE_VISITS.execute(connection, {"now": now, "visits": as_json(rows), "routes": list(visits)})


def _evidence(evidence: Evidence | Mark | Implied | None) -> dict[str, object] | None:
    if evidence is None:
        return None
    if isinstance(evidence, Mark):
        said = {"source": DISPATCHER, "by": evidence.by, "reason": evidence.reason, "markedAt": evidence.at}
        return {"rule": "marked by hand", "fixes": [], **said}
    if isinstance(evidence, Implied):
        rule = f"it had left by then, for it reached stop {evidence.stop + 1}"
        return {"rule": rule, "fixes": [], "source": IMPLIED, "stop": evidence.stop}
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
