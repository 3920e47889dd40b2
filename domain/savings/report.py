"""The report of savings in a span of time: in all, by week, truck, driver and lane, and the plans behind each figure.

Planned figures come from plans. Proven figures come from fills: the real cost of tractor diesel on routes whose fills
are known, against the average price of their corridors."""

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant
from domain.database.statements import Statement
from domain.savings.spans import Span

SAVINGS_BASIS = "planned, not bought: plans as drivers have them, against the average net price of each plan's corridor"
PROVEN_BASIS = (
    "proven: what fuel cards paid on routes with fills, against the average net price of each plan's corridor"
)


class Dimension(StrEnum):
    """The kind of thing that a line of the report is about."""

    TRUCK = "truck"
    DRIVER = "driver"
    LANE = "lane"


class LineOrder(StrEnum):
    """The figure that lines are ordered by."""

    SAVED = "saved"
    PER_GALLON = "per_gallon"
    PERCENT = "percent"
    COST = "cost"
    GALLONS = "gallons"
    PLANS = "plans"


class Figures(NamedTuple):
    """Sums over plans. `with_purchase` counts the plans that buy fuel; other plans save nothing."""

    plans: int
    with_purchase: int
    gallons: Decimal
    cost_cents: int
    saved_cents: int
    with_fills: int = 0
    """Plans of routes with fills whose corridor has an average price."""
    bought_gallons: Decimal = Decimal(0)
    paid_cents: int = 0
    at_average_cents: int = 0
    chosen_cents: int = 0

    @property
    def proven(self) -> Decimal:
        """The savings in dollars of what was really bought."""
        return _dollars(self.at_average_cents - self.paid_cents)

    @property
    def chosen_extra(self) -> Decimal:
        """The dollars that choices cost more than the cheapest plans."""
        return _dollars(self.chosen_cents)

    @property
    def paid(self) -> Decimal:
        return _dollars(self.paid_cents)

    @property
    def with_fills_percent(self) -> Decimal | None:
        """The share of the plans whose routes have fills."""
        return round(100 * Decimal(self.with_fills) / self.plans, 1) if self.plans else None

    @property
    def cost(self) -> Decimal:
        """The planned cost. Like all amounts here, it is in dollars."""
        return _dollars(self.cost_cents)

    @property
    def saved(self) -> Decimal:
        return _dollars(self.saved_cents)

    @property
    def average_cost(self) -> Decimal:
        """The cost of the gallons at the average prices of their corridors."""
        return _dollars(self.cost_cents + self.saved_cents)

    @property
    def saved_per_gallon(self) -> Decimal | None:
        return round(self.saved / self.gallons, 3) if self.gallons else None

    @property
    def saved_percent(self) -> Decimal | None:
        """The savings in percent of the average cost."""
        return round(100 * self.saved / self.average_cost, 1) if self.average_cost else None


def _dollars(cents: int) -> Decimal:
    return Decimal(cents).scaleb(-2)


NO_PLANS = Figures(0, 0, Decimal(0), 0, 0)


class PlanFilter(NamedTuple):
    """The plans of a truck, a driver or a lane. A field of None filters nothing."""

    vehicle_id: UUID | None = None
    driver_id: UUID | None = None
    origin: str | None = None
    destination: str | None = None


ALL_PLANS = PlanFilter()


class Week(NamedTuple):
    first_day: date
    figures: Figures


class SavingsLine(NamedTuple):
    """A truck with its unit number and VIN, a driver with name and external id, or a lane with its two ends."""

    id: UUID | None
    """The id of the truck or driver; None for a lane."""
    name: str | None
    other: str | None
    figures: Figures


class SavingsLines(NamedTuple):
    """A page of lines, and the number of lines on all pages."""

    lines: list[SavingsLine]
    total: int


class SavedPlan(NamedTuple):
    """A plan that counts, with its route."""

    route_id: UUID
    external_id: str
    plan_id: UUID
    planned_at: datetime
    vehicle_id: UUID
    unit_number: str | None
    driver_id: UUID
    driver_name: str | None
    origin: str
    destination: str
    gallons: Decimal
    cost_cents: int
    saved_cents: int | None
    bought_gallons: Decimal | None
    paid_cents: int | None
    at_average_cents: int | None
    """The cost at the average price; NULL where fills are not known, or the plan has no average price."""
    chosen_cents: int
    below_30_cents: int | None
    """The cost by a habit, as the next two; NULL where the trip is left out; see `habit_costs.py`."""
    cheapest_cents: int | None
    usual_cents: int | None

    @property
    def figures(self) -> Figures:
        has_purchase = int(self.saved_cents is not None)
        planned = Figures(1, has_purchase, self.gallons, self.cost_cents, self.saved_cents or 0)
        planned = planned._replace(chosen_cents=self.chosen_cents)
        if self.at_average_cents is None or self.paid_cents is None or self.bought_gallons is None:
            return planned
        return planned._replace(
            with_fills=1,
            bought_gallons=self.bought_gallons,
            paid_cents=self.paid_cents,
            at_average_cents=self.at_average_cents,
        )


_OF_SPAN = """
    s.company_id = %(company_id)s AND s.environment = %(environment)s
    AND s.planned_at >= %(start)s AND s.planned_at < %(end)s
"""
_ONLY = """
    (%(vehicle_id)s::uuid IS NULL OR s.vehicle_id = %(vehicle_id)s)
    AND (%(driver_id)s::uuid IS NULL OR s.driver_id = %(driver_id)s)
    AND (%(origin)s::text IS NULL OR s.origin = %(origin)s)
    AND (%(destination)s::text IS NULL OR s.destination = %(destination)s)
"""
_SUMS = """
    count(*)::int AS plans, count(s.saved_cents)::int AS with_purchase, sum(s.gallons) AS gallons,
    sum(s.cost_cents::float) AS cost_cents, coalesce(sum(s.saved_cents::float), 0) AS saved_cents,
    count(s.at_average_cents)::int AS with_fills,
    coalesce(sum(s.bought_gallons) FILTER (WHERE s.at_average_cents IS NOT NULL), 0) AS bought_gallons,
    coalesce(sum(s.paid_cents::float) FILTER (WHERE s.at_average_cents IS NOT NULL), 0) AS paid_cents,
    coalesce(sum(s.at_average_cents::float), 0) AS at_average_cents,
    coalesce(sum(s.chosen_cents::float), 0) AS chosen_cents
"""
"""PostgreSQL adds up doubles in half the time that it takes for bigints. Sums of whole numbers are exact up to 2^53."""
_EXACT = """
    plans, with_purchase, round(gallons::numeric, 3) AS gallons, cost_cents::bigint AS cost_cents,
    saved_cents::bigint AS saved_cents, with_fills, round(bought_gallons::numeric, 3) AS bought_gallons,
    paid_cents::bigint AS paid_cents, at_average_cents::bigint AS at_average_cents, chosen_cents::bigint AS chosen_cents
"""
"""The sums, rounded: gallons of plans have three decimals at most."""


class _WeekRow(NamedTuple):
    week: int
    plans: int
    with_purchase: int
    gallons: Decimal
    cost_cents: int
    saved_cents: int
    with_fills: int
    bought_gallons: Decimal
    paid_cents: int
    at_average_cents: int
    chosen_cents: int


_WEEKS = Statement(
    _WeekRow,
    f"""
    SELECT week, {_EXACT}
    FROM (SELECT width_bucket(s.planned_at, %(week_starts)s::timestamptz[]) AS week, {_SUMS}
          FROM savings s WHERE {_OF_SPAN} AND {_ONLY} GROUP BY 1) AS summed
    """,
)


def savings_by_week(connection: Connection, tenant: Tenant, span: Span, only: PlanFilter = ALL_PLANS) -> list[Week]:
    """The figures of every week of the span, weeks without plans included."""
    parameters = {**span.asked(tenant), **only._asdict(), "week_starts": span.week_starts}
    found = {row.week: Figures(*row[1:]) for row in _WEEKS.all(connection, parameters)}
    return [Week(*week) for week in span.by_week(found, NO_PLANS)]


def total_of(weeks: list[Week]) -> Figures:
    return Figures(*(sum(column) for column in zip(NO_PLANS, *(week.figures for week in weeks), strict=True)))


class _LineRow(NamedTuple):
    id: UUID | None
    name: str | None
    other: str | None
    total: int
    plans: int
    with_purchase: int
    gallons: Decimal
    cost_cents: int
    saved_cents: int
    with_fills: int
    bought_gallons: Decimal
    paid_cents: int
    at_average_cents: int
    chosen_cents: int


_ORDERED = """
    CASE %(order)s::text
        WHEN 'plans' THEN plans WHEN 'gallons' THEN gallons WHEN 'cost' THEN cost_cents
        WHEN 'per_gallon' THEN saved_cents / nullif(gallons, 0)
        WHEN 'percent' THEN saved_cents / nullif(cost_cents + saved_cents, 0)
        ELSE saved_cents END * %(sign)s::int NULLS LAST
"""


def _lines(keys: str, shown: str, joined: str = "") -> str:
    """The statement of one dimension. Names are joined only to the lines that are shown."""
    return f"""
        SELECT {shown}, total, {_EXACT}
        FROM (SELECT *, count(*) OVER ()::int AS total
              FROM (SELECT {keys}, {_SUMS} FROM savings s WHERE {_OF_SPAN} GROUP BY {keys}) AS line
              ORDER BY {_ORDERED}, {keys} LIMIT %(limit)s OFFSET %(offset)s) AS line {joined}
        ORDER BY {_ORDERED}, {keys}
    """


_LINES = {
    Dimension.TRUCK: Statement(
        _LineRow,
        _lines(
            "vehicle_id",
            "line.vehicle_id AS id, v.unit_number AS name, v.vin AS other",
            "LEFT JOIN vehicles v ON v.id = line.vehicle_id",
        ),
    ),
    Dimension.DRIVER: Statement(
        _LineRow,
        _lines(
            "driver_id",
            "line.driver_id AS id, d.name AS name, d.external_id AS other",
            "LEFT JOIN drivers d ON d.id = line.driver_id",
        ),
    ),
    Dimension.LANE: Statement(
        _LineRow, _lines("origin, destination", "NULL::uuid AS id, line.origin AS name, line.destination AS other")
    ),
}


def savings_by_line(
    connection: Connection,
    tenant: Tenant,
    span: Span,
    by: Dimension,
    *,
    order: LineOrder = LineOrder.SAVED,
    ascending: bool = False,
    limit: int | None = None,
    offset: int = 0,
) -> SavingsLines:
    """A page of the lines of one dimension. Lines without a figure to order by come last."""
    paging = {"order": order, "sign": 1 if ascending else -1, "limit": limit, "offset": offset}
    rows = _LINES[by].all(connection, {**span.asked(tenant), **paging})
    return SavingsLines(
        [SavingsLine(row.id, row.name, row.other, Figures(*row[4:])) for row in rows], rows[0].total if rows else 0
    )


_PLANS = Statement(
    SavedPlan,
    f"""
    SELECT s.route_id, r.external_id, s.plan_id, s.planned_at, s.vehicle_id, v.unit_number, s.driver_id,
           d.name AS driver_name, s.origin, s.destination, round(s.gallons::numeric, 3) AS gallons,
           s.cost_cents, s.saved_cents, round(s.bought_gallons::numeric, 3) AS bought_gallons, s.paid_cents,
           s.at_average_cents, coalesce(s.chosen_cents, 0) AS chosen_cents,
           h.below_30_cents, h.cheapest_cents, h.usual_cents
    FROM (SELECT * FROM savings s WHERE {_OF_SPAN} AND {_ONLY}
          ORDER BY s.planned_at DESC, s.route_id LIMIT %(limit)s OFFSET %(offset)s) AS s
    JOIN routes r ON r.id = s.route_id
    LEFT JOIN vehicles v ON v.id = s.vehicle_id
    LEFT JOIN drivers d ON d.id = s.driver_id
    LEFT JOIN habit_costs h ON h.route_id = s.route_id AND h.plan_id = s.plan_id
    ORDER BY s.planned_at DESC, s.route_id
    """,
)


def plans_behind(
    connection: Connection,
    tenant: Tenant,
    span: Span,
    only: PlanFilter = ALL_PLANS,
    *,
    limit: int | None = None,
    offset: int = 0,
) -> Iterator[SavedPlan]:
    """The plans that the figures add up, the newest first. No other statement may run on the connection until the last
    one is read."""
    parameters = {**span.asked(tenant), **only._asdict(), "limit": limit, "offset": offset}
    return _PLANS.in_portions(connection, 2_000, parameters)
