"""Savings against habits of fueling in a span of days: what plans cost, and what each habit would have paid for their
trips. Trips that are left out of a habit are counted by the reason; nothing is guessed for them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from domain.database.connections import Connection, Tenant
from domain.database.statements import NotNull, Statement
from domain.savings.driver_habits import METHODS, NAMES, WHY_LEFT_OUT, DriverHabit, LeftOut
from domain.savings.spans import Span


class HabitSavings(NamedTuple):
    """Sums over the trips that are compared with one habit."""

    habit: DriverHabit
    trips: int
    planned_cents: int
    habit_cents: int
    left_out: Mapping[LeftOut, int]
    """Trips that are not compared, by the reason."""

    @property
    def name(self) -> str:
        return NAMES[self.habit]

    @property
    def method(self) -> str:
        return METHODS[self.habit]

    @property
    def planned(self) -> Decimal:
        """Dollars, as all amounts without a unit."""
        return Decimal(self.planned_cents).scaleb(-2)

    @property
    def habit_cost(self) -> Decimal:
        return Decimal(self.habit_cents).scaleb(-2)

    @property
    def saved(self) -> Decimal:
        return self.habit_cost - self.planned

    @property
    def saved_percent(self) -> Decimal | None:
        """The savings in percent of what the habit pays."""
        return round(100 * self.saved / self.habit_cost, 1) if self.habit_cents else None

    @property
    def why_left_out(self) -> str:
        """The trips that are left out, in words; empty if there are none."""
        return "; ".join(f"{count:,} {WHY_LEFT_OUT[why]}" for why, count in self.left_out.items())


class HabitSums(NamedTuple):
    """The sums of the trips of one habit that are compared, or left out for one reason."""

    habit: NotNull[str]
    left_out: str | None
    trips: int
    planned_cents: NotNull[int]
    habit_cents: NotNull[int]


_HABIT_OF_TRIP = f"""
    CROSS JOIN LATERAL (VALUES
        ('{DriverHabit.BELOW_30}', h.below_30_cents), ('{DriverHabit.CHEAPEST}', h.cheapest_cents),
        ('{DriverHabit.USUAL}', h.usual_cents)) AS own (habit, cents)
    CROSS JOIN LATERAL (SELECT CASE
        WHEN h.driven_at IS NULL THEN '{LeftOut.WAITING}' WHEN own.cents IS NOT NULL THEN NULL
        WHEN h.left_out IS NOT NULL THEN h.left_out
        WHEN own.habit = '{DriverHabit.USUAL}' AND h.usual_of IS NULL THEN '{LeftOut.TOO_FEW_FILLS}'
        ELSE '{LeftOut.NO_WAY}' END AS left_out) AS why
"""
"""SQL with a row for each habit and trip `h`: its cents, or why it is left out."""


def sums_by_habit(trips: str) -> str:
    """SQL that adds up trips: `trips` is SQL with the columns of `habit_costs` and `cost_cents`."""
    return f"""
        SELECT own.habit, why.left_out, count(*)::int AS trips, sum(h.cost_cents)::bigint AS planned_cents,
               coalesce(sum(own.cents), 0)::bigint AS habit_cents
        FROM ({trips}) AS h {_HABIT_OF_TRIP} GROUP BY own.habit, why.left_out
    """


_TRIPS = """
    SELECT s.cost_cents, c.driven_at, c.left_out, c.below_30_cents, c.cheapest_cents, c.usual_cents, c.usual_of
    FROM savings s LEFT JOIN habit_costs c ON c.route_id = s.route_id AND c.plan_id = s.plan_id
    WHERE s.company_id = %(company_id)s AND s.environment = %(environment)s
      AND s.planned_at >= %(start)s AND s.planned_at < %(end)s
"""
_SUMS = Statement(HabitSums, sums_by_habit(_TRIPS))


def savings_by_habit(connection: Connection, tenant: Tenant, span: Span) -> list[HabitSavings]:
    """The savings against each habit, in the order of `DriverHabit`."""
    return savings_of_sums(_SUMS.all(connection, span.asked(tenant)))


def savings_of_sums(rows: Sequence[HabitSums]) -> list[HabitSavings]:
    return [_savings_of(habit, [row for row in rows if row.habit == habit]) for habit in DriverHabit]


def _savings_of(habit: DriverHabit, rows: Iterable[HabitSums]) -> HabitSavings:
    by_reason = {row.left_out: row for row in rows}
    compared = by_reason.pop(None, None)
    left_out = {why: by_reason[why].trips for why in LeftOut if why in by_reason}
    if compared is None:
        return HabitSavings(habit, 0, 0, 0, left_out)
    return HabitSavings(habit, compared.trips, compared.planned_cents, compared.habit_cents, left_out)


HABIT_COLUMNS = (
    *("habit", "trips", "planned_cost", "habit_cost", "saved", "saved_percent", "left_out", "why_left_out", "method"),
)


def habit_row(one: HabitSavings) -> dict[str, Any]:
    """The figures for CSV and JSON; None where no trip is compared."""
    amounts: Iterator[Decimal | None] = iter((one.planned, one.habit_cost, one.saved, one.saved_percent))
    known = [float(amount) if one.trips and amount is not None else None for amount in amounts]
    figures = dict(zip(HABIT_COLUMNS[2:6], known, strict=True))
    left_out = {"left_out": sum(one.left_out.values()), "why_left_out": one.why_left_out}
    return {"habit": str(one.habit), "trips": one.trips, **figures, **left_out, "method": one.method}
