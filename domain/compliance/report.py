"""The outcome of the fuel stops that drivers were told in a span of days, by driver, chain, reason and choice; and the
cost of each refusal.

A stop counts once, by the best proof that there is: the card's fills, then the level of the tank, then the driver's own
answer, then the place of the truck. A stop that the driver refused, and did not buy at, is refused and not missed."""

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant
from domain.database.statements import Statement
from domain.savings.spans import Span

COMPLIANCE_BASIS = (
    "fuel stops as drivers were told, by fills where there are any, else levels, answers and places of their trucks"
)


class ComplianceBy(StrEnum):
    """The kind of a line."""

    CHAIN = "chain"
    REASON = "reason"
    CHOICE = "choice"
    """The plan that the driver had: `planned`, one that he chose within his `allowance`, or one of a `dispatcher`."""
    DRIVER = "driver"


class ComplianceFigures(NamedTuple):
    """Numbers of stops. `unknown` ones have no proof and do not count in the share."""

    followed: int
    partly: int
    """Fuel was bought there, but other gallons."""
    missed: int
    refused: int
    unknown: int
    answered: int

    @property
    def stops(self) -> int:
        return self.followed + self.partly + self.missed + self.refused + self.unknown

    @property
    def followed_percent(self) -> float | None:
        """The share of the stops with a proof at which fuel was bought; None where there are none."""
        known = self.stops - self.unknown
        return round(100 * (self.followed + self.partly) / known, 1) if known else None


class ComplianceLine(NamedTuple):
    """A driver with his name, a chain, a reason, or a choice; empty for stops without one. `cents` is what the new
    plans after refusals cost more, of `priced` refusals."""

    id: UUID | None
    name: str | None
    figures: ComplianceFigures
    priced: int
    cents: int


class ComparedStop(NamedTuple):
    """A fuel stop and what came of it."""

    route_id: UUID
    external_id: str
    at: datetime
    driver_id: UUID
    driver_name: str | None
    number: int | None
    """The number in the driver's last plan, from 1; None for a refused stop that it does not have."""
    place: str
    chain: str | None
    outcome: str
    proof: str
    answer: str | None
    reason: str | None
    priced_cents: int | None
    """Cents that the new plan after the refusal cost more; None where there is none."""


_TOLD = """
    SELECT t.route_id, t.planned_at AS at, t.driver_id, t.plan_id, t.number, t.station_id, t.place, a.id AS answer_id,
           a.kind AS answer, a.reason,
           CASE WHEN w.verdict IS NOT NULL THEN w.verdict
                WHEN t.seen = 'bought' THEN 'followed'
                WHEN a.kind = 'fueled' AND t.seen IS DISTINCT FROM 'not_bought' THEN 'followed'
                WHEN t.seen = 'stood' AND a.kind IS DISTINCT FROM 'refused' THEN 'followed'
                WHEN t.seen IS NOT NULL OR a.kind = 'refused' THEN 'missed'
                ELSE 'unknown' END AS verdict,
           CASE WHEN w.verdict IS NOT NULL THEN 'fill'
                WHEN t.seen IN ('bought', 'not_bought') THEN 'level'
                WHEN a.kind IN ('fueled', 'refused') THEN 'answer'
                WHEN t.seen IS NOT NULL THEN 'place'
                ELSE '' END AS proof
    FROM {told_stops} t
    LEFT JOIN stop_verdicts w ON w.route_id = t.route_id AND w.number = t.number AND w.verdict <> 'elsewhere'
    LEFT JOIN LATERAL (
        SELECT id, kind, reason FROM driver_answers own
        WHERE own.route_id = t.route_id AND own.station_id = t.station_id AND NOT own.is_late
        ORDER BY own.answered_at DESC, own.id DESC LIMIT 1) AS a ON true
    WHERE {of_span}
"""
_OF_SPAN = """
    t.company_id = %(company_id)s AND t.environment = %(environment)s
    AND t.planned_at >= %(start)s AND t.planned_at < %(end)s
"""
_REFUSED = """
    SELECT a.route_id, a.answered_at, a.driver_id, a.plan_id, NULL, a.station_id, a.place, a.id, a.kind, a.reason,
           'missed', 'answer'
    FROM driver_answers a
    WHERE a.company_id = %(company_id)s AND a.environment = %(environment)s AND a.kind = 'refused'
      AND a.answered_at >= %(start)s AND a.answered_at < %(end)s AND NOT a.is_late AND a.left_out_until IS NOT NULL
      AND NOT EXISTS (SELECT FROM told_stops t WHERE t.route_id = a.route_id AND t.station_id = a.station_id)
      AND NOT EXISTS (
        SELECT FROM driver_answers later WHERE later.route_id = a.route_id AND later.station_id = a.station_id
          AND later.kind = 'refused' AND NOT later.is_late AND (later.answered_at, later.id) > (a.answered_at, a.id))
"""
"""A stop that was refused stands in the driver's last plan no more, unless there was no other plan; the last refusal of
a station counts."""
_STOPS = f"{_TOLD.format(told_stops='told_stops', of_span=_OF_SPAN)} UNION ALL {_REFUSED}"

_BUYS = """
    SELECT sum((s.stop->>'totalCost')::float8) AS dollars, sum((s.stop->>'gallonsToFill')::float8) AS gallons
    FROM jsonb_array_elements({document}->'stops') WITH ORDINALITY AS s (stop, number) WHERE s.number > {passed}
"""
_EXTRA = f"""
    SELECT round(100 * (
        coalesce(bought.dollars, 0) - coalesce(planned.dollars, 0)
        - coalesce(bought.dollars / nullif(bought.gallons, 0), planned.dollars / nullif(planned.gallons, 0), 0)
          * (coalesce(bought.gallons, 0) - coalesce(planned.gallons, 0))))::bigint AS cents
    FROM driver_answers a
    JOIN plans old ON old.id = a.plan_id AND old.document IS NOT NULL
    JOIN LATERAL (
        SELECT n.document, n.cause, coalesce((n.cause->>'fuelStopsPassed')::int, 0) AS passed FROM plans n
        WHERE n.route_id = a.route_id AND n.revision = old.revision AND n.document IS NOT NULL
          AND n.cause->'closures' ? a.id::text AND EXISTS (SELECT FROM messages m WHERE m.plan_id = n.id)
        ORDER BY n.generated_at DESC, n.id DESC LIMIT 1) AS new ON true
    CROSS JOIN LATERAL ({_BUYS.format(document="old.document", passed="new.passed")}) AS planned
    CROSS JOIN LATERAL ({_BUYS.format(document="new.document", passed="0")}) AS bought
    WHERE a.id = stop.answer_id AND stop.answer = 'refused' AND NOT EXISTS (
        SELECT FROM driver_answers beside
        WHERE beside.route_id = a.route_id AND beside.kind = 'refused' AND NOT beside.is_late
          AND new.cause->'closures' ? beside.id::text AND (beside.answered_at, beside.id) > (a.answered_at, a.id)
          AND NOT EXISTS (
            SELECT FROM driver_answers later
            WHERE later.route_id = a.route_id AND later.station_id = beside.station_id AND NOT later.is_late
              AND (later.answered_at, later.id) > (beside.answered_at, beside.id)))
"""
"""The new plan's purchases less those of the plan before from the same place on. Gallons that one of them buys more are
still in the tank at the end, so they do not count: they are taken off at the new plan's average price. A plan that was
made for several refusals counts once, with the last of them that still stands."""

_CHOICE = """
    coalesce((
        SELECT CASE WHEN pc.asked_by IS NULL AND pc.decided_by IS NULL THEN 'allowance' ELSE 'dispatcher' END
        FROM plan_choices pc JOIN plans kept ON kept.id = c.plan_id AND pc.id::text = kept.cause->>'choice'
        WHERE pc.route_id = c.route_id),
        'planned')
"""


def _compared(stops: str) -> str:
    """SQL of the stops with their outcomes. OFFSET 0 keeps the cost of refusals to the refused ones among them: without
    it PostgreSQL works it out for every answer that the company ever had."""
    return f"""
    SELECT stop.*, coalesce(s.brand, '') AS chain,
           CASE WHEN stop.verdict = 'missed' AND stop.answer = 'refused' THEN 'refused' ELSE stop.verdict END
               AS outcome,
           extra.cents
    FROM ({stops}) AS stop
    LEFT JOIN stations s ON s.station_id = stop.station_id
    LEFT JOIN LATERAL ({_EXTRA} OFFSET 0) AS extra ON true
    """


class _Row(NamedTuple):
    id: UUID | None
    name: str | None
    followed: int
    partly: int
    missed: int
    refused: int
    unknown: int
    answered: int
    priced: int
    cents: int


_FIGURES = (
    ", ".join(
        f"count(*) FILTER (WHERE c.outcome = '{one}')::int AS {one}"
        for one in ("followed", "partly", "missed", "refused", "unknown")
    )
    + ", count(c.answer)::int AS answered, count(c.cents)::int AS priced,"
    " coalesce(sum(c.cents), 0)::bigint AS cents"
)
_LINES = {
    by: Statement(
        _Row,
        f"SELECT {id} AS id, {name} AS name, {_FIGURES} FROM ({_compared(_STOPS)}) AS c {join}"
        f" GROUP BY 1, 2 ORDER BY count(*) DESC, 2, 1",
    )
    for by, id, name, join in (
        (ComplianceBy.CHAIN, "NULL::uuid", "c.chain", ""),
        (ComplianceBy.REASON, "NULL::uuid", "coalesce(c.reason, '')", ""),
        (ComplianceBy.CHOICE, "NULL::uuid", _CHOICE, ""),
        (ComplianceBy.DRIVER, "c.driver_id", "d.name", "LEFT JOIN drivers d ON d.id = c.driver_id"),
    )
}
_NEWEST = "{stop}.at DESC, {stop}.route_id, {stop}.number NULLS LAST, {stop}.answer_id"
_NEWEST_TOLD = f"""(
    SELECT t.* FROM told_stops t WHERE {_OF_SPAN} ORDER BY t.planned_at DESC, t.route_id, t.number
    LIMIT %(limit)s::bigint + %(offset)s)"""
_PORTION = f"""
    SELECT * FROM ({_TOLD.format(told_stops=_NEWEST_TOLD, of_span="true")} UNION ALL {_REFUSED}) AS one
    ORDER BY {_NEWEST.format(stop="one")} LIMIT %(limit)s OFFSET %(offset)s
"""
"""Outcomes are looked up for the stops that may stand on the page, not for all of the span."""
_LIST = Statement(
    ComparedStop,
    f"""
    SELECT c.route_id, r.external_id, c.at, c.driver_id, d.name AS driver_name, c.number, c.place, c.chain, c.outcome,
           c.proof, c.answer, c.reason, c.cents AS priced_cents
    FROM ({_compared(_PORTION)}) AS c JOIN routes r ON r.id = c.route_id LEFT JOIN drivers d ON d.id = c.driver_id
    ORDER BY {_NEWEST.format(stop="c")}
    """,
)


def compliance_lines(connection: Connection, tenant: Tenant, span: Span, by: ComplianceBy) -> list[ComplianceLine]:
    """The lines of the report, those with most stops first."""
    rows = _LINES[by].all(connection, span.asked(tenant))
    return [ComplianceLine(row.id, row.name, ComplianceFigures(*row[2:8]), row.priced, row.cents) for row in rows]


def compared_stops(
    connection: Connection, tenant: Tenant, span: Span, *, limit: int | None = None, offset: int = 0
) -> Iterator[ComparedStop]:
    """The stops behind the figures, the newest first. No other statement may run on the connection until the last one
    is read."""
    return _LIST.in_portions(connection, 2_000, {**span.asked(tenant), "limit": limit, "offset": offset})
