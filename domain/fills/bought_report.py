"""Planned against bought in a span of time: the stops followed and missed, and the dollars by cause, in all, by week,
truck and driver, with the stops behind each figure.

A route counts if it has fills and none of them waits for a person. It counts on the day when its plan was made, as in
the report of savings."""

from collections.abc import Iterable, Iterator
from datetime import date, datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant
from domain.database.statements import Statement
from domain.encoding import utc_text
from domain.ids import shown_id
from domain.savings.spans import Span

BOUGHT_BASIS = "planned against bought: plans as drivers have them, against fills of fuel cards, for routes with fills"


class BoughtBy(StrEnum):
    """The kind of a line."""

    WEEK = "week"
    TRUCK = "truck"
    DRIVER = "driver"


class BoughtFigures(NamedTuple):
    """Sums over stops. The causes are in cents and add up to the paid less the planned amount."""

    followed: int
    partly: int
    missed: int
    elsewhere: int
    planned_gallons: float
    planned_cents: int
    bought_gallons: float
    paid_cents: int
    price_cents: int
    gallons_cents: int
    place_cents: int

    @property
    def difference_cents(self) -> int:
        return self.paid_cents - self.planned_cents

    @property
    def stops(self) -> int:
        return self.followed + self.partly + self.missed + self.elsewhere


NOTHING_BOUGHT = BoughtFigures(0, 0, 0, 0, 0.0, 0, 0.0, 0, 0, 0, 0)


class BoughtLine(NamedTuple):
    """A week, a truck with its unit number, or a driver with the name."""

    week: date | None
    id: UUID | None
    name: str | None
    figures: BoughtFigures


_OF_SPAN = """
    w.company_id = %(company_id)s AND w.environment = %(environment)s
    AND w.planned_at >= %(start)s AND w.planned_at < %(end)s
"""
_SUMS = """
    count(*) FILTER (WHERE w.verdict = 'followed')::int AS followed,
    count(*) FILTER (WHERE w.verdict = 'partly')::int AS partly,
    count(*) FILTER (WHERE w.verdict = 'missed')::int AS missed,
    count(*) FILTER (WHERE w.verdict = 'elsewhere')::int AS elsewhere,
    coalesce(sum(w.planned_gallons), 0) AS planned_gallons, coalesce(sum(w.planned_cents), 0)::bigint AS planned_cents,
    coalesce(sum(w.bought_gallons), 0) AS bought_gallons, coalesce(sum(w.paid_cents), 0)::bigint AS paid_cents,
    coalesce(sum(w.price_cents), 0)::bigint AS price_cents, coalesce(sum(w.gallons_cents), 0)::bigint AS gallons_cents,
    coalesce(sum(w.place_cents), 0)::bigint AS place_cents
"""


class _Row(NamedTuple):
    week: int
    """The number of the week in the span; 0 for a truck or a driver."""
    id: UUID | None
    name: str | None
    followed: int
    partly: int
    missed: int
    elsewhere: int
    planned_gallons: float
    planned_cents: int
    bought_gallons: float
    paid_cents: int
    price_cents: int
    gallons_cents: int
    place_cents: int


_WEEKS = Statement(
    _Row,
    "SELECT width_bucket(w.planned_at, %(week_starts)s::timestamptz[]) AS week, NULL::uuid AS id, NULL::text AS name,"
    f" {_SUMS} FROM stop_verdicts w WHERE {_OF_SPAN} GROUP BY 1",
)
_BY_RECORD = {
    by: Statement(
        _Row,
        f"""
        SELECT 0 AS week, line.id, record.{name} AS name,
               {", ".join(f"line.{field}" for field in BoughtFigures._fields)}
        FROM (SELECT w.{key} AS id, {_SUMS} FROM stop_verdicts w WHERE {_OF_SPAN} GROUP BY 1) AS line
        LEFT JOIN {table} record ON record.id = line.id
        ORDER BY line.paid_cents - line.planned_cents DESC, line.id
        """,
    )
    for by, key, table, name in (
        (BoughtBy.TRUCK, "vehicle_id", "vehicles", "unit_number"),
        (BoughtBy.DRIVER, "driver_id", "drivers", "name"),
    )
}


class BoughtStop(NamedTuple):
    """A planned stop or a purchase elsewhere, with its route."""

    route_id: UUID
    external_id: str
    planned_at: datetime
    unit_number: str | None
    driver_name: str | None
    number: int
    verdict: str
    place: str
    planned_gallons: float
    planned_cents: int
    bought_gallons: float
    paid_cents: int
    price_cents: int
    gallons_cents: int
    place_cents: int


_STOPS = Statement(
    BoughtStop,
    f"""
    SELECT w.route_id, r.external_id, w.planned_at, v.unit_number, d.name AS driver_name, w.number, w.verdict, w.place,
           w.planned_gallons, w.planned_cents, w.bought_gallons, w.paid_cents, w.price_cents, w.gallons_cents,
           w.place_cents
    FROM (SELECT * FROM stop_verdicts w WHERE {_OF_SPAN}
          ORDER BY w.planned_at DESC, w.route_id, w.number LIMIT %(limit)s OFFSET %(offset)s) AS w
    JOIN routes r ON r.id = w.route_id
    LEFT JOIN vehicles v ON v.id = w.vehicle_id
    LEFT JOIN drivers d ON d.id = w.driver_id
    ORDER BY w.planned_at DESC, w.route_id, w.number
    """,
)


def bought_lines(connection: Connection, tenant: Tenant, span: Span, by: BoughtBy) -> list[BoughtLine]:
    """The lines of the report: all weeks of the span in their order, or the trucks or drivers, the dearest first."""
    if by is BoughtBy.WEEK:
        rows = _WEEKS.all(connection, {**span.asked(tenant), "week_starts": span.week_starts})
        found = {row.week: BoughtFigures(*row[3:]) for row in rows}
        return [BoughtLine(day, None, None, figures) for day, figures in span.by_week(found, NOTHING_BOUGHT)]
    return [
        BoughtLine(None, row.id, row.name, BoughtFigures(*row[3:]))
        for row in _BY_RECORD[by].all(connection, span.asked(tenant))
    ]


def total_bought(lines: Iterable[BoughtLine]) -> BoughtFigures:
    columns = list(zip(*(line.figures for line in lines), strict=True))
    return BoughtFigures(*(sum(column) for column in columns)) if columns else NOTHING_BOUGHT


def bought_stops(
    connection: Connection, tenant: Tenant, span: Span, *, limit: int | None = None, offset: int = 0
) -> Iterator[BoughtStop]:
    """The stops behind the figures, the newest plans first. No other statement may run on the connection until the last
    one is read."""
    return _STOPS.in_portions(connection, 2_000, {**span.asked(tenant), "limit": limit, "offset": offset})


# --- As rows for CSV files and JSON documents --------------------------------------------------------------------

_FIGURES = (
    *("followed", "partly", "missed", "elsewhere", "planned_gallons", "planned_cost", "bought_gallons", "paid"),
    *("difference", "by_price", "by_gallons", "by_place"),
)
"""All amounts are in dollars."""

BOUGHT_COLUMNS: dict[str, tuple[str, ...]] = {
    "week": ("week_from", *_FIGURES),
    "truck": ("vehicle_id", "unit_number", *_FIGURES),
    "driver": ("driver_id", "name", *_FIGURES),
    "stop": (
        *("route_id", "external_id", "planned_at", "unit_number", "driver_name", "number", "verdict", "place"),
        *_FIGURES[4:],
    ),
}


def bought_row(by: BoughtBy, line: BoughtLine) -> dict[str, Any]:
    figures = line.figures
    if by is BoughtBy.WEEK:
        names = [line.week.isoformat() if line.week is not None else None]
    else:
        kind = "veh" if by is BoughtBy.TRUCK else "drv"
        names = [shown_id(kind, line.id) if line.id is not None else None, line.name]  # type: ignore[arg-type]
    return dict(zip(BOUGHT_COLUMNS[by], (*names, *figures[:4], *_money(figures)), strict=True))


def stop_row(stop: BoughtStop) -> dict[str, Any]:
    names = (
        *(shown_id("rte", stop.route_id), stop.external_id, utc_text(stop.planned_at), stop.unit_number),
        *(stop.driver_name, stop.number, stop.verdict, stop.place),
    )
    return dict(zip(BOUGHT_COLUMNS["stop"], (*names, *_money(stop)), strict=True))


def _money(one: BoughtFigures | BoughtStop) -> tuple[float, ...]:
    return (
        round(one.planned_gallons, 3),
        one.planned_cents / 100,
        round(one.bought_gallons, 3),
        one.paid_cents / 100,
        (one.paid_cents - one.planned_cents) / 100,
        one.price_cents / 100,
        one.gallons_cents / 100,
        one.place_cents / 100,
    )
