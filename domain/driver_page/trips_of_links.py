"""Reads the trips of many links with one statement: routes, plans, trucks, and what drivers have said. Another one, in
less than half of the time, tells whether a trip is still as it was read."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.statements import NotNull, Statement
from domain.documents import FuelPlanDocument, FuelStopDocument, StopDocument, TimelineEntry
from domain.driver_page.links import EXPIRY, LINKED_ROUTE
from domain.planning.choice_costs import COUNTS, had_by_driver
from domain.roads import Point
from domain.roads.sphere import point_or_none
from domain.routes.plans.stored_choices import STATUS_NOW
from domain.routes.reading.on_their_way import NEXT_STOP
from domain.telematics.fixes_to_visits import FuelVisit


class TripNow(NamedTuple):
    """A link that may open its page now: the version of its trip, and the truck."""

    token_hash: bytes
    version: str
    truck_at: datetime | None
    latitude: float | None
    longitude: float | None

    @property
    def place(self) -> Point | None:
        """The place of the truck."""
        return point_or_none(self.latitude, self.longitude)


class TripOfLink(NamedTuple):
    """A link that may open its page now, and what the page shows."""

    token_hash: bytes
    version: str
    link_id: UUID
    company_id: UUID
    environment: str
    route_id: UUID
    driver_id: UUID
    expires_at: datetime
    status: str
    name: str
    unit_number: str | None
    company: str
    time_zone: str
    language: str | None
    map_link: str
    tells_prices: bool
    ended_at: datetime
    stops: list[StopDocument]
    reached: int
    is_changing: bool
    is_reviewed: bool
    is_infeasible: bool
    plan_id: UUID | None
    generated_at: datetime | None
    document: FuelPlanDocument | None
    timeline: NotNull[list[TimelineEntry]]
    driver_facts: str | None
    coarse_way: bytes | None
    cause: str | None
    fuel_percent: float | None
    fuel_at: datetime | None
    before: FuelPlanDocument | None
    """The plan that the driver was told before."""
    truck_at: datetime | None
    latitude: float | None
    longitude: float | None
    fuel_stops_passed: NotNull[int]
    fuel_visits: list[FuelVisit] | None
    """The visits of the plan's fuel stops; None for a plan that the driver was not told yet."""
    station_ids: list[str] | None
    answers: int
    newest_answers: str | None
    choices: str | None
    allowance_cents: int

    @property
    def fuel_stops(self) -> Sequence[FuelStopDocument]:
        return self.document["stops"] if self.document is not None else []

    @property
    def place(self) -> Point | None:
        """The place of the truck."""
        return point_or_none(self.latitude, self.longitude)

    def mile_of(self, stop: int) -> float | None:
        """The mile of a stop on the plan's road."""
        return next((entry["mile"] for entry in self.timeline if entry["stop"] == stop), None)


_PASSED = "CASE WHEN t.watch_at IS NOT NULL THEN t.fuel_stops_passed ELSE 0 END"
_VERSION = f"""ROW(
    pg_postmaster_start_time(), r.written_by, r.updated_at, r.plan_id, r.correction_id, next.number, {_PASSED},
    v.unit_number, d.language, c.name, c.time_zone, c.map_link, c.prices_for_drivers, c.driver_allowance,
    (SELECT array_agg(ROW(b.id, b.xmin, m.id, m.status)::text ORDER BY b.id, m.id)
     FROM plans b LEFT JOIN messages m ON m.plan_id = b.id WHERE b.route_id = r.id),
    (SELECT array_agg(ROW(a.id, a.xmin)::text ORDER BY a.id) FROM driver_answers a WHERE a.route_id = r.id),
    (SELECT array_agg(ROW(o.id, o.xmin, o.status, s.parking_spaces, s.showers)::text ORDER BY o.id)
     FROM plan_choices o LEFT JOIN stations s ON s.station_id = o.station_ids[1] WHERE o.route_id = r.id))::text"""
"""SQL of a text that changes with all that a page shows but the place of its truck. It has short values as they are,
and the transactions (`xmin`) that wrote the rows of long ones, so the database makes it without reading a document. The
number of a transaction that a crash has lost may come again: with another start of the server, or at another moment."""
_OPEN = f"""
    FROM {LINKED_ROUTE}
    JOIN companies c ON c.id = r.company_id
    CROSS JOIN LATERAL (SELECT {NEXT_STOP} AS number OFFSET 0) AS next
    LEFT JOIN drivers d ON d.id = l.driver_id AND d.company_id = l.company_id
    LEFT JOIN vehicles v ON v.id = r.vehicle_id AND v.company_id = r.company_id
    LEFT JOIN tracks t ON t.vehicle_id = r.vehicle_id AND t.environment = r.environment
        AND t.company_id = r.company_id AND r.status IN ('planned', 'active')
"""
_OF_TOKENS = f"WHERE l.token_hash = ANY(%(hashes)s) AND {EXPIRY} > %(now)s"

VERSIONS_OF_TRIPS = Statement(
    TripNow,
    f"""
    SELECT l.token_hash, {_VERSION} AS version, t.newest_at AS truck_at, t.latitude, t.longitude
    {_OPEN} {_OF_TOKENS}
    """,
)

TRIPS_OF_LINKS = Statement(
    TripOfLink,
    f"""
    SELECT l.token_hash, {_VERSION} AS version, l.id AS link_id, l.company_id, l.environment, l.route_id, l.driver_id,
           {EXPIRY} AS expires_at, r.status, coalesce(nullif(r.reference, ''), r.external_id) AS name,
           v.unit_number, c.name AS company, c.time_zone, d.language, c.map_link,
           c.prices_for_drivers AS tells_prices,
           coalesce(r.completed_at, r.updated_at) AS ended_at, r.stops, next.number AS reached,
           r.replan IS NOT NULL AS is_changing, r.status = 'planned' AND r.review_at IS NOT NULL AS is_reviewed,
           r.status = 'error' AND last.id IS NOT NULL AS is_infeasible,
           p.id AS plan_id, p.generated_at, p.document, coalesce(p.timeline, '[]') AS timeline,
           p.driver_facts::text AS driver_facts, p.coarse_way, p.cause->>'kind' AS cause, p.fuel_percent, p.fuel_at,
           (SELECT b.document FROM plans b
            WHERE b.route_id = r.id AND b.company_id = r.company_id AND b.id < p.id AND b.document IS NOT NULL
              AND {had_by_driver("b")}
            ORDER BY b.id DESC LIMIT 1) AS before,
           t.newest_at AS truck_at, t.latitude, t.longitude,
           {_PASSED} AS fuel_stops_passed,
           CASE WHEN r.correction_id IS NULL THEN r.fuel_visits END AS fuel_visits,
           p.station_ids, said.answers, said.newest::text AS newest_answers,
           menu.choices::text AS choices, menu.allowance_cents
    {_OPEN}
    LEFT JOIN plans p ON p.id = CASE WHEN r.correction_id IS NULL THEN r.plan_id ELSE r.correction_id END
        AND p.company_id = r.company_id AND p.document IS NOT NULL AND r.status = ANY(%(shows_plan)s)
    LEFT JOIN plans last ON last.id = r.plan_id AND last.company_id = r.company_id AND last.document IS NULL
    CROSS JOIN LATERAL (
        SELECT count(*) AS answers, jsonb_object_agg(a.station_id, jsonb_build_object(
                   'kind', a.kind, 'reason', a.reason, 'at', a.answered_at,
                   'number', CASE WHEN a.plan_id = p.id THEN a.sequence END) ORDER BY a.id)
               FILTER (WHERE a.station_id IS NOT NULL AND a.driver_id = l.driver_id AND NOT a.is_late) AS newest
        FROM driver_answers a WHERE a.route_id = r.id) AS said
    CROSS JOIN LATERAL (
        SELECT jsonb_agg(jsonb_build_object(
                   'id', c.id, 'kind', c.kind, 'status', {STATUS_NOW}, 'extra_cents', c.extra_cents,
                   'fuel_stops', jsonb_array_length(c.document->'stops'), 'name', c.document->'stops'->0->'name',
                   'mile', c.document->'stops'->0->'milesFromOrigin', 'parking_spaces', s.parking_spaces,
                   'showers', s.showers) ORDER BY c.place)
                   FILTER (WHERE c.plan_id = r.plan_id AND r.status = 'active' AND r.correction_id IS NULL) AS choices,
               greatest(round(100 * max(o.driver_allowance))::bigint - coalesce(
                   sum(greatest(c.extra_cents, 0)) FILTER (WHERE {COUNTS}), 0)::bigint, 0) AS allowance_cents
        FROM companies o LEFT JOIN plan_choices c ON c.route_id = r.id
        LEFT JOIN stations s ON s.station_id = c.station_ids[1]
        WHERE o.id = r.company_id) AS menu
    {_OF_TOKENS}
    """,
)
