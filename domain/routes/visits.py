"""Visits: arrival and departure of a route's truck at each stop, with their evidence.

The evidence of either end is stored as `{"rule": ..., "fixes": [...]}`; `fixes` may be empty. A manual stop event also
has `"source": "dispatcher"`, `by`, `reason` and `markedAt`. An implied departure has `"source": "implied"` and the
`stop` that the truck had reached. A departure that a silence hides has `seenUntil`, the last fix before it.

The visits of the fuel stops of the driver's plan stand in `routes.fuel_visits`, without evidence: they move nothing."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import Cursor

from domain.database.connections import Connection, as_array, as_json
from domain.database.statements import Command, Statement
from domain.queue.jobs import SWEEP_GRACE
from domain.telematics.arrivals import Evidence, Implied, ManualStopEvent, Visit
from domain.telematics.fixes_to_visits import FuelVisit

DISPATCHER = "dispatcher"
IMPLIED = "implied"


WITHOUT_EVIDENCE = f"""arrival_evidence = NULL,
    departure_evidence = CASE WHEN departure_evidence->>'source' = '{IMPLIED}' THEN departure_evidence
        WHEN departure_evidence ? 'seenUntil' THEN departure_evidence || '{{"rule": "", "fixes": []}}' END"""
"""SQL that forgets who or what showed the times of a visit. That nothing showed when it left stays: its departure would
be taken for one that was seen."""


class VisitRow(NamedTuple):
    route_id: UUID
    stop: int
    arrived_at: datetime
    departed_at: datetime | None
    arrival: dict[str, Any] | None
    departure: dict[str, Any] | None


_VISITS = Statement(
    VisitRow,
    """
    SELECT route_id, stop, arrived_at, departed_at,
           CASE WHEN arrival_evidence ? 'source' THEN arrival_evidence END AS arrival,
           CASE WHEN departure_evidence ?| '{source,seenUntil}' THEN departure_evidence END AS departure
    FROM visits WHERE route_id = ANY(%s)
    """,
)


def load_visits(connection: Connection, route_ids: Sequence[UUID]) -> dict[UUID, dict[int, Visit]]:
    """The visits of these routes, without their fixes: by route, then by position of the stop."""
    return read_visits(ask_for_visits(connection, route_ids))


def ask_for_visits(connection: Connection, route_ids: Iterable[UUID]) -> Cursor[VisitRow]:
    """The visits of these routes for `read_visits`. They are not read here, so that the statement can go out together
    with the next one."""
    return _VISITS.execute(connection, (as_array(route_ids),))


def read_visits(stored: Iterable[VisitRow]) -> dict[UUID, dict[int, Visit]]:
    visits: dict[UUID, dict[int, Visit]] = {}
    for row in stored:
        visits.setdefault(row.route_id, {})[row.stop] = Visit(
            row.arrived_at,
            _manual_stop_event(row.arrival) if row.arrival else None,
            row.departed_at,
            _departure(row.departure) if row.departure else None,
        )
    return visits


def _manual_stop_event(evidence: Mapping[str, Any]) -> ManualStopEvent:
    return ManualStopEvent(evidence["by"], evidence["reason"], datetime.fromisoformat(evidence["markedAt"]))


def _departure(evidence: Mapping[str, Any]) -> Evidence | ManualStopEvent | Implied:
    if "source" not in evidence:
        return Evidence(evidence["rule"], (), datetime.fromisoformat(evidence["seenUntil"]))
    return _manual_stop_event(evidence) if evidence["source"] == DISPATCHER else Implied(evidence["stop"])


_STORE_VISITS = Command(
    """
    INSERT INTO visits (company_id, environment, route_id, stop, vehicle_id, arrived_at, departed_at, arrival_evidence,
                        departure_evidence, stored_at)
    SELECT r.company_id, r.environment, new.route_id, new.stop, r.vehicle_id, new.arrived_at, new.departed_at,
           coalesce(new.arrival_evidence, known.arrival_evidence),
           coalesce(new.departure_evidence, known.departure_evidence), %(now)s
    FROM jsonb_to_recordset(%(visits)s)
         AS new (route_id uuid, stop int, arrived_at timestamptz, departed_at timestamptz,
                 arrival_evidence jsonb, departure_evidence jsonb)
    JOIN routes r ON r.id = new.route_id AND r.id = ANY(%(routes)s)
    LEFT JOIN visits known ON known.route_id = new.route_id AND known.stop = new.stop
    ON CONFLICT (route_id, stop) DO UPDATE SET
        vehicle_id = excluded.vehicle_id, arrived_at = excluded.arrived_at, departed_at = excluded.departed_at,
        arrival_evidence = excluded.arrival_evidence, departure_evidence = excluded.departure_evidence,
        stored_at = excluded.stored_at,
        is_to_judge = visits.is_to_judge
            OR (visits.vehicle_id, visits.arrived_at, visits.departed_at, visits.departure_evidence->>'source')
               IS DISTINCT FROM (excluded.vehicle_id, excluded.arrived_at, excluded.departed_at,
                                 excluded.departure_evidence->>'source')
    """
)


def store_visits(connection: Connection, visits: Mapping[UUID, Mapping[int, Visit]], *, now: datetime) -> None:
    """Stores visits by route, then by position of the stop. A visit without fixes as evidence keeps what is stored."""
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


FUEL_VISITS = """(
    SELECT coalesce(jsonb_agg(jsonb_build_object(
               'latitude', fuel.stop->'latitude', 'longitude', fuel.stop->'longitude',
               'arrivedAt', known.visit->'arrivedAt', 'departedAt', known.visit->'departedAt')
           ORDER BY fuel.number), '[]')
    FROM (SELECT stop, number, row_number() OVER (PARTITION BY stop->'latitude', stop->'longitude' ORDER BY number) = 1
                 AS comes_first
          FROM jsonb_array_elements(p.document->'stops') WITH ORDINALITY AS planned (stop, number)) AS fuel
    LEFT JOIN LATERAL (
        SELECT visit FROM jsonb_array_elements(r.fuel_visits) AS visit
        WHERE (visit->'latitude', visit->'longitude') = (fuel.stop->'latitude', fuel.stop->'longitude')
          AND visit->>'arrivedAt' IS NOT NULL
          AND (visit->>'departedAt')::timestamptz <= coalesce(p.as_of, p.generated_at) IS NOT TRUE
        ORDER BY (visit->>'arrivedAt')::timestamptz DESC, visit->>'departedAt' LIMIT 1) AS known ON fuel.comes_first)"""
"""SQL of `routes.fuel_visits` of a route `r` whose driver gets the plan `p`. A fuel stop that stays keeps its visit,
unless the truck had left it before the plan was made: then the plan leads there once more, as on the way back."""

_STORE_FUEL_VISITS = Command(
    """
    UPDATE routes r SET fuel_visits = new.fuel_visits, updated_at = clock_timestamp()
    FROM jsonb_to_recordset(%(visits)s) AS new (route_id uuid, fuel_visits jsonb)
    WHERE r.id = ANY(%(routes)s) AND r.id = new.route_id
    """
)


def store_fuel_visits(connection: Connection, visits: Mapping[UUID, Sequence[FuelVisit]]) -> None:
    """Stores the visits of the fuel stops of these routes, which are locked."""
    if visits:
        rows = [{"route_id": route_id, "fuel_visits": of_route} for route_id, of_route in visits.items()]
        _STORE_FUEL_VISITS.execute(connection, {"visits": as_json(rows), "routes": list(visits)})


class JudgedStay(NamedTuple):
    """A visit as it was when its detention was judged."""

    route_id: UUID
    stop: int
    arrived_at: datetime
    departed_at: datetime | None


_NOTE_DETENTION_JUDGED = Command(
    """
    UPDATE visits v SET is_to_judge = false
    FROM unnest(%s::uuid[], %s::int[], %s::timestamptz[], %s::timestamptz[])
         AS judged (route_id, stop, arrived_at, departed_at)
    WHERE v.route_id = judged.route_id AND v.stop = judged.stop
      AND (v.arrived_at, v.departed_at) IS NOT DISTINCT FROM (judged.arrived_at, judged.departed_at)
    """
)


def note_detention_judged(connection: Connection, stays: Sequence[JudgedStay]) -> None:
    """Leaves visits out of the passes that look for detained trucks, until they change. Their routes are locked; one
    that has changed before the lock, while the pass read it, is judged by the next pass."""
    if stays:
        _NOTE_DETENTION_JUDGED.execute(connection, [list(column) for column in zip(*stays, strict=True)])


_IS_LONG = """v.company_id = %(company_id)s AND v.arrived_at > %(since)s AND NOT v.is_to_judge
    AND (v.departed_at IS NULL OR v.departed_at >= v.arrived_at + make_interval(secs => %(minutes)s * 60))"""
_JUDGE_AGAIN = Command(
    f"""
    WITH locked AS MATERIALIZED (
        SELECT r.id FROM routes r WHERE r.id IN (SELECT v.route_id FROM visits v WHERE {_IS_LONG})
        ORDER BY r.id FOR NO KEY UPDATE OF r)
    UPDATE visits v SET is_to_judge = true FROM locked WHERE v.route_id = locked.id AND {_IS_LONG}
    """
)


def judge_detention_again(connection: Connection, company_id: UUID, *, since: datetime, least_minutes: float) -> None:
    """Has the company's visits of so many minutes or more, of arrivals since then, judged by the next passes that look
    for detained trucks."""
    _JUDGE_AGAIN.execute(connection, {"company_id": company_id, "since": since, "minutes": least_minutes})


class _Judged(NamedTuple):
    route_id: UUID
    company_id: UUID
    has_arrived: bool


_KEEP_WHAT_COULD_BEGIN = Statement(
    _Judged,
    """
    WITH judged AS MATERIALIZED (
        SELECT v.route_id, v.stop, v.arrived_at,
               (v.vehicle_id = r.vehicle_id
                AND r.scheduled_start - v.arrived_at <= %(early)s
                AND NOT EXISTS (
                    SELECT FROM visits other
                    WHERE other.vehicle_id = r.vehicle_id AND other.environment = r.environment
                      AND other.stored_at >= v.stored_at AND other.route_id <> v.route_id
                      AND (other.stored_at, other.arrived_at, other.route_id) > (v.stored_at, v.arrived_at, v.route_id))
                AND NOT EXISTS (
                    SELECT FROM routes other
                    WHERE other.vehicle_id = r.vehicle_id AND other.environment = r.environment
                      AND (other.status IN ('planned','active')
                           OR other.status = 'draft' AND other.arrived_at IS NOT NULL)
                      AND other.id <> ALL(%(ids)s::uuid[]))) IS TRUE AS could_begin
        FROM routes r JOIN visits v ON v.route_id = r.id
        WHERE r.id = ANY(%(ids)s::uuid[]) AND r.imported_at = %(now)s AND r.arrived_at IS NOT NULL
    ), forgotten AS (
        DELETE FROM visits v USING judged
        WHERE v.route_id = ANY(%(ids)s::uuid[]) AND v.route_id = judged.route_id AND v.stop = judged.stop
          AND NOT judged.could_begin
    )
    UPDATE routes r SET arrived_at = kept.arrived_at, updated_at = clock_timestamp(),
        retry_at = CASE WHEN kept.arrived_at IS NOT NULL THEN %(due)s::timestamptz END
    FROM (SELECT route_id, min(arrived_at) FILTER (WHERE could_begin) AS arrived_at
          FROM judged GROUP BY route_id) AS kept
    WHERE r.id = ANY(%(ids)s::uuid[]) AND r.id = kept.route_id
    RETURNING r.id AS route_id, r.company_id, r.arrived_at IS NOT NULL AS has_arrived
    """,
)


def keep_what_could_begin(
    connection: Connection, route_ids: Sequence[UUID], *, early: timedelta, now: datetime
) -> Cursor[_Judged]:
    """Keeps, of the visits of routes imported at `now`, only those that could have begun the route as it is now. Such a
    visit

    - was made by the vehicle that the route is matched to,
    - lies no more than `early` before the start,
    - was not followed by the start of another route of that vehicle, by our clock: the sandbox's time is simulated.

    Its stop is the same: an update has moved the visits of stops that stay, and forgotten the others. A route without a
    visit left waits for its truck. The cursor tells which ones have arrived. The caller has locked the tracks of the
    vehicles, so that no other route of theirs starts meanwhile.
    """
    parameters = {"ids": as_array(route_ids), "early": early, "due": now + SWEEP_GRACE, "now": now}
    return _KEEP_WHAT_COULD_BEGIN.execute(connection, parameters)


def _evidence(evidence: Evidence | ManualStopEvent | Implied | None) -> dict[str, object] | None:
    if evidence is None:
        return None
    if isinstance(evidence, ManualStopEvent):
        entry = {"source": DISPATCHER, "by": evidence.by, "reason": evidence.reason, "markedAt": evidence.at}
        return {"rule": "entered by hand", "fixes": [], **entry}
    if isinstance(evidence, Implied):
        rule = f"it had left by then, for it reached stop {evidence.stop + 1}"
        return {"rule": rule, "fixes": [], "source": IMPLIED, "stop": evidence.stop}
    if not evidence.fixes:  # as it was loaded
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
    seen = {"seenUntil": evidence.seen_until} if evidence.seen_until is not None else {}
    return {"rule": evidence.rule, "fixes": fixes, **seen}
