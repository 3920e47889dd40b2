"""The figures of a statement of savings: the sums of its trips, as they were when it was made and as they are now."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import NotNull, Scalar, Statement
from domain.lifecycle import Environment
from domain.savings.driver_habits import DriverHabit, LeftOut
from domain.savings.habit_report import HabitSavings, HabitSums, savings_of_sums, sums_by_habit
from domain.savings.report import Figures
from domain.savings.spans import Span, month_of


class MonthSums(NamedTuple):
    """The sums of a month's trips: as planned, as proven, and against each habit."""

    figures: Figures
    habits: Sequence[HabitSavings]


class MonthChanges(NamedTuple):
    """The later changes of a month, against its statement: counts, and dollars saved."""

    month: date
    plans: int
    planned: Decimal
    with_fills: int
    proven: Decimal
    habits: Mapping[DriverHabit, Decimal]


NO_CHANGES = MonthChanges(date.min, 0, Decimal(0), 0, Decimal(0), dict.fromkeys(DriverHabit, Decimal(0)))


class Hours(NamedTuple):
    """The time from `start` to before `end`."""

    start: datetime
    end: datetime


class SavingsStatement(NamedTuple):
    """A statement as it was made."""

    company_id: UUID
    month: date
    """The first day of the month."""
    time_zone: str
    made_at: datetime
    company: str
    sums: MonthSums
    since_then: Sequence[MonthChanges]
    """Changes of earlier months since their own statements, as far as they were not told before."""
    hours: Hours | None = None
    """The hours whose plans it counts; None in statements of earlier versions, which count those of the month."""

    @property
    def span(self) -> Span:
        return month_of(self.month, self.time_zone)

    @property
    def counted_hours(self) -> Hours:
        return self.hours or Hours(self.span.start, self.span.end)


# --- Sums ------------------------------------------------------------------------------------------------------

COUNTED_TRIPS = f"""
    SELECT s.route_id, s.planned_at, v.unit_number, s.gallons, s.cost_cents, s.saved_cents, s.bought_gallons,
           s.paid_cents, s.at_average_cents, h.driven_at, h.left_out, h.below_30_cents, h.cheapest_cents, h.usual_cents,
           h.usual_of
    FROM savings s LEFT JOIN habit_costs h ON h.route_id = s.route_id AND h.plan_id = s.plan_id
    LEFT JOIN vehicles v ON v.id = s.vehicle_id
    WHERE s.environment = '{Environment.LIVE}'
"""
"""SQL of trips as statements store them. Sandbox routes save nothing."""
TRIPS_NOW = f"""
    {COUNTED_TRIPS} AND s.company_id = %(company_id)s AND s.planned_at >= %(start)s AND s.planned_at < %(end)s
"""
"""SQL of a month's trips as they are now."""
TRIPS_THEN = "SELECT t.* FROM statement_trips t WHERE t.company_id = %(company_id)s AND t.month = %(month)s"
_HAS_FORGOTTEN = Scalar(
    NotNull[bool],
    f"SELECT EXISTS ({TRIPS_THEN} AND NOT EXISTS (SELECT FROM routes r WHERE r.id = t.route_id))",
)
"""Tell if retention has deleted routes of the statement."""


class _Totals(NamedTuple):
    plans: NotNull[int]
    with_purchase: NotNull[int]
    gallons: NotNull[Decimal]
    cost_cents: NotNull[int]
    saved_cents: NotNull[int]
    with_fills: NotNull[int]
    bought_gallons: NotNull[Decimal]
    paid_cents: NotNull[int]
    at_average_cents: NotNull[int]


def _totals(trips: str) -> str:
    return f"""
        SELECT count(*)::int AS plans, count(saved_cents)::int AS with_purchase,
               round(coalesce(sum(gallons), 0)::numeric, 3) AS gallons,
               coalesce(sum(cost_cents), 0)::bigint AS cost_cents, coalesce(sum(saved_cents), 0)::bigint AS saved_cents,
               count(at_average_cents)::int AS with_fills,
               round(coalesce(sum(bought_gallons) FILTER (WHERE at_average_cents IS NOT NULL), 0)::numeric, 3)
                   AS bought_gallons,
               coalesce(sum(paid_cents) FILTER (WHERE at_average_cents IS NOT NULL), 0)::bigint AS paid_cents,
               coalesce(sum(at_average_cents), 0)::bigint AS at_average_cents
        FROM ({trips}) AS trip
    """


_NOW = Statement(_Totals, _totals(TRIPS_NOW))
_NOW_BY_HABIT = Statement(HabitSums, sums_by_habit(TRIPS_NOW))
_THEN = Statement(_Totals, _totals(TRIPS_THEN))
_THEN_BY_HABIT = Statement(HabitSums, sums_by_habit(TRIPS_THEN))


def sums_of_statement(connection: Connection, company_id: UUID, month: date) -> MonthSums:
    """The sums of the trips that are stored with the month's statement."""
    asked = {"company_id": company_id, "month": month}
    return MonthSums(Figures(*_THEN.one(connection, asked)), savings_of_sums(_THEN_BY_HABIT.all(connection, asked)))


def asked_of_month(company_id: UUID, month: date, hours: Hours) -> dict[str, Any]:
    """The parameters of statements on a month's trips."""
    return {"company_id": company_id, "month": month, **hours._asdict()}


def changes_since(connection: Connection, statement: SavingsStatement) -> MonthChanges | None:
    """The changes of a month since its statement; None once retention has deleted routes of it, since then they cannot
    be told from trips that count no more."""
    company_id, month = statement.company_id, statement.month
    asked = asked_of_month(company_id, month, statement.counted_hours)
    if _HAS_FORGOTTEN.one(connection, asked):
        return None
    habits_now = savings_of_sums(_NOW_BY_HABIT.all(connection, asked))
    before, habits_then = sums_of_statement(connection, company_id, month)
    after = Figures(*_NOW.one(connection, asked))
    return MonthChanges(
        month,
        after.plans - before.plans,
        after.saved - before.saved,
        after.with_fills - before.with_fills,
        after.proven - before.proven,
        {one.habit: one.saved - other.saved for one, other in zip(habits_now, habits_then, strict=True)},
    )


# --- As they are stored ----------------------------------------------------------------------------------------


def statement_document(statement: SavingsStatement) -> dict[str, Any]:
    """The JSON document of a statement."""
    sums, since_then = statement.sums, statement.since_then
    figures = {name: _stored(value) for name, value in sums.figures._asdict().items()}
    habits = [{**one._asdict(), "left_out": {**one.left_out}} for one in sums.habits]
    changes = [
        {
            **{name: _stored(value) for name, value in one._asdict().items()},
            "month": one.month.isoformat(),
            "habits": {habit: str(saved) for habit, saved in one.habits.items()},
        }
        for one in since_then
    ]
    hours = [one.isoformat() for one in statement.counted_hours]
    return {
        "company": statement.company,
        "figures": figures,
        "habits": habits,
        "since_then": changes,
        "hours": hours,
    }


def _stored(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value


def read_sums(document: Mapping[str, Any]) -> MonthSums:
    stored = document["figures"]
    gallons = {name: Decimal(stored[name]) for name in ("gallons", "bought_gallons")}
    habits = [
        HabitSavings(
            DriverHabit(one["habit"]),
            one["trips"],
            one["planned_cents"],
            one["habit_cents"],
            {why: one["left_out"][why] for why in LeftOut if why in one["left_out"]},
        )
        for one in document["habits"]
    ]
    return MonthSums(Figures(**{**stored, **gallons}), habits)


def read_hours(document: Mapping[str, Any]) -> Hours | None:
    return Hours(*map(datetime.fromisoformat, document["hours"])) if "hours" in document else None


def read_changes(document: Mapping[str, Any]) -> list[MonthChanges]:
    return [
        MonthChanges(
            date.fromisoformat(one["month"]),
            one["plans"],
            Decimal(one["planned"]),
            one["with_fills"],
            Decimal(one["proven"]),
            {habit: Decimal(one["habits"][habit]) for habit in DriverHabit if habit in one["habits"]},
        )
        for one in document["since_then"]
    ]
