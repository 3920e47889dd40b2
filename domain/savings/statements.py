"""Statements of a month's savings: made once, signed, sent, and never changed again.

A statement stores its trips with their figures, and its totals are the sums of these. So it needs neither plans nor
explanations later, which retention deletes. Whatever changes the month afterwards, such as late fills or corrected
plans, is told in the next statement and beside the page of this one. No person is named in it, so an erasure changes
nothing of it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.accounts.companies import lock_company, read_company, time_zone_of
from domain.accounts.contacts import Contacts
from domain.audit.entries import Action, Actor, audit_subject, record_action, service_actor
from domain.database.connections import Connection, as_json
from domain.database.fence import is_at_work
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.errors import FuelrouteError
from domain.savings.driver_habits import ANEW, LeftOut
from domain.savings.spans import month_of
from domain.savings.statement_figures import (
    COUNTED_TRIPS,
    NO_CHANGES,
    TRIPS_NOW,
    TRIPS_THEN,
    Hours,
    MonthChanges,
    SavingsStatement,
    asked_of_month,
    changes_since,
    read_changes,
    read_hours,
    read_sums,
    statement_document,
    sums_of_statement,
)
from domain.savings.statement_pdf import statement_pdf
from domain.signing.signing_keys import signing_key

MOST_MONTHS_TOLD = 12
"""Earlier months whose later changes a statement tells."""
_MOST_MADE_UP = 3
"""Most months that are made at once after the scheduler was away."""
_KEPT_DAYS = 125
"""Days for which a trip may wait for its statement after retention has deleted its route: so long, a month that was
missed is made up."""
_HOUR = 8
"""The hour of the company's day from which on its statement is made and sent."""


ON_ITS_DAY = service_actor("It is the day of the month's statement")


class NoStatement(FuelrouteError):
    """The statement of a month is not there, or cannot be made yet. The text says why."""


# --- Which are due ---------------------------------------------------------------------------------------------


class _Company(NamedTuple):
    id: UUID
    time_zone: str
    statement_day: int
    newest: date | None


_COMPANIES = Statement(
    _Company,
    "SELECT c.id, c.time_zone, c.statement_day,"
    " (SELECT max(s.month) FROM savings_statements s WHERE s.company_id = c.id) AS newest"
    f" FROM companies c WHERE c.retired_at IS NULL AND {is_at_work('c.id')} ORDER BY c.id",
)


class DueStatement(NamedTuple):
    company_id: UUID
    month: date


_HAS_TRIPS = Scalar(NotNull[bool], f"SELECT EXISTS ({TRIPS_NOW}) OR EXISTS ({TRIPS_THEN})")


def due_statements(connection: Connection, *, now: datetime) -> Iterator[DueStatement]:
    """The months with plans whose day has come and that have no statement, of all companies."""
    for company in _COMPANIES.all(connection, ()):
        due = newest_due_month(now, company.time_zone, company.statement_day)
        months = [due] if company.newest is None else _months_after(company.newest, due)[-_MOST_MADE_UP:]
        for month in months:
            hours = hours_of_month(connection, company.id, month, company.time_zone)
            if _HAS_TRIPS.one(connection, asked_of_month(company.id, month, hours)):
                yield DueStatement(company.id, month)


def newest_due_month(now: datetime, time_zone: str, statement_day: int) -> date:
    """The newest month whose statement is due: the month before, from the eighth hour of the day on."""
    local = now.astimezone(ZoneInfo(time_zone)) - timedelta(days=statement_day - 1, hours=_HOUR)
    return month_before(local.date())


def month_before(day: date) -> date:
    return (day.replace(day=1) - timedelta(days=1)).replace(day=1)


def hours_of_month(connection: Connection, company_id: UUID, month: date, time_zone: str) -> Hours:
    """The hours that a month's statement is to count: those of the month in this time zone; but it begins where the
    statement of the month before ends, and ends where that of the next month begins. So a company that changes its time
    zone has each plan in one statement."""
    span = month_of(month, time_zone)
    before = read_statement(connection, company_id, month_before(month))
    after = read_statement(connection, company_id, span.last_day + timedelta(days=1))
    return Hours(
        before.counted_hours.end if before is not None else span.start,
        after.counted_hours.start if after is not None else span.end,
    )


def _months_after(month: date, last: date) -> list[date]:
    months: list[date] = []
    while last > month:
        months.insert(0, last)
        last = month_before(last)
    return months


# --- Making one ------------------------------------------------------------------------------------------------

_WAIT_FOR_HABITS = Command(
    f"""
    INSERT INTO habit_costs (route_id, company_id, environment, plan_id, planned_at)
    SELECT s.route_id, s.company_id, s.environment, s.plan_id, s.planned_at FROM savings s
    WHERE s.company_id = %(company_id)s AND s.environment = 'live'
      AND s.planned_at >= %(start)s AND s.planned_at < %(end)s
      AND NOT EXISTS (SELECT FROM habit_costs h WHERE h.route_id = s.route_id AND h.plan_id = s.plan_id)
    ORDER BY s.route_id
    ON CONFLICT (route_id) DO UPDATE SET {ANEW}
    """
)


def wait_for_habits(connection: Connection, company_id: UUID, month: date) -> None:
    """Let the trips of a month wait to be driven by habits that a release before this one stored, or gave another plan,
    without that."""
    hours = hours_of_month(connection, company_id, month, time_zone_of(connection, company_id))
    _WAIT_FOR_HABITS.execute(connection, asked_of_month(company_id, month, hours))


_WAITING = Scalar(
    NotNull[int],
    f"SELECT count(*)::int FROM ({TRIPS_NOW}) AS trip WHERE driven_at IS NULL",
)
_COLUMNS_OF_TRIP = """
    (company_id, month, route_id, planned_at, unit_number, gallons, cost_cents, saved_cents, bought_gallons, paid_cents,
     at_average_cents, driven_at, left_out, below_30_cents, cheapest_cents, usual_cents, usual_of)
"""
_STORE_TRIPS = Command(
    f"""
    INSERT INTO statement_trips {_COLUMNS_OF_TRIP}
    SELECT %(company_id)s, %(month)s, trip.* FROM ({TRIPS_NOW}) AS trip
    ON CONFLICT DO NOTHING
    """
)
"""Retention may be storing one of them at the same moment."""
_NEWEST = Scalar(datetime, "SELECT max(made_at) FROM savings_statements WHERE company_id = %s")
_STORE = Command(
    "INSERT INTO savings_statements (company_id, month, time_zone, made_at, figures, pdf)"
    " VALUES (%s, %s, %s, %s, %s, %s)"
)


def make_statement(
    connection: Connection, company_id: UUID, month: date, by: Actor, *, contacts: Contacts, now: datetime
) -> SavingsStatement:
    """Make, sign and store a month's statement. Raises NoStatement where it is there already, or cannot be made yet;
    RetiredCompany; UnreadableContact if this process cannot open the key for signatures."""
    newest, untold = _NEWEST.first(connection, (company_id,)), _untold_changes(connection, company_id, month)
    lock_company(connection, company_id)  # only now: a year of trips is compared above, and imports wait for the lock
    if _NEWEST.first(connection, (company_id,)) != newest:
        raise NoStatement("another statement was made meanwhile: try again")
    company = read_company(connection, company_id)
    hours = hours_of_month(connection, company_id, month, company.time_zone)
    asked = asked_of_month(company_id, month, hours)
    if _FIND.first(connection, (company_id, month)) is not None:
        raise NoStatement(f"the statement of {month:%Y-%m} was made before, and it never changes")
    if now < hours.end:
        raise NoStatement(f"{month:%Y-%m} is not over yet")
    if waiting := _WAITING.one(connection, asked):
        raise NoStatement(f"{waiting:,} trips of {month:%Y-%m} are not compared with habits yet: wait some minutes")
    if not _HAS_TRIPS.one(connection, asked):
        raise NoStatement(f"no live plan counts in {month:%Y-%m}")
    _STORE_TRIPS.execute(connection, asked)
    statement = SavingsStatement(
        company_id,
        month,
        company.time_zone,
        now,
        company.name,
        sums_of_statement(connection, company_id, month),
        untold,
        hours,
    )
    pdf = statement_pdf(statement, signing_key(connection, contacts, now=now))
    document = as_json(statement_document(statement))
    _STORE.execute(connection, (company_id, month, company.time_zone, now, document, pdf))
    subject = audit_subject("savings statement", f"{month:%Y-%m}")
    record_action(connection, by, Action("savings.make_statement"), subject, company_id=company_id)
    return statement


def _untold_changes(connection: Connection, company_id: UUID, month: date) -> list[MonthChanges]:
    """The changes of earlier months since their statements, but for those that a later statement has told."""
    told: dict[date, MonthChanges] = {}
    earlier = list_statements(connection, company_id, limit=MOST_MONTHS_TOLD, before=month)
    for one in reversed(earlier):
        told.update({change.month: change for change in one.since_then})
    changes = [change for one in earlier if (change := changes_since(connection, one)) is not None]
    return [one for one in changes if one != told.get(one.month, NO_CHANGES._replace(month=one.month))]


_KEEP = Command(
    f"""
    INSERT INTO statement_trips {_COLUMNS_OF_TRIP}
    SELECT route.company_id, greatest(date_trunc('month', trip.planned_at AT TIME ZONE company.time_zone)::date,
               (made.month + interval '1 month')::date),
           trip.route_id, trip.planned_at, trip.unit_number, trip.gallons, trip.cost_cents, trip.saved_cents,
           trip.bought_gallons, trip.paid_cents, trip.at_average_cents, coalesce(trip.driven_at, %(now)s::timestamptz),
           CASE WHEN trip.driven_at IS NULL THEN '{LeftOut.FORGOTTEN}' ELSE trip.left_out END,
           trip.below_30_cents, trip.cheapest_cents, trip.usual_cents, trip.usual_of
    FROM ({COUNTED_TRIPS} AND s.route_id = ANY(%(route_ids)s)
        AND s.planned_at > %(now)s::timestamptz - interval '{_KEPT_DAYS} days') AS trip
    JOIN routes route ON route.id = trip.route_id JOIN companies company ON company.id = route.company_id
    LEFT JOIN LATERAL (
        SELECT newest.month, coalesce(
            (newest.figures->'hours'->>1)::timestamptz,
            (newest.month + interval '1 month') AT TIME ZONE newest.time_zone
        ) AS counted_until
        FROM savings_statements newest WHERE newest.company_id = company.id ORDER BY newest.month DESC LIMIT 1
    ) AS made ON true
    WHERE made.month IS NULL OR trip.planned_at >= made.counted_until
    ON CONFLICT DO NOTHING
    """
)
"""Keeps trips that the newest statement did not count. With another time zone since then, some of them may lie in its
month."""


def keep_for_statement(connection: Connection, route_ids: Sequence[UUID], *, now: datetime) -> None:
    """Keep the figures of routes that retention is about to delete for the statement of their month, which is not made
    yet. They name no person."""
    _KEEP.execute(connection, {"route_ids": list(route_ids), "now": now})


# --- Reading them ----------------------------------------------------------------------------------------------


class _Stored(NamedTuple):
    company_id: UUID
    month: date
    time_zone: str
    made_at: datetime
    figures: NotNull[dict[str, Any]]


_COLUMNS = "company_id, month, time_zone, made_at, figures"
_FIND = Statement(_Stored, f"SELECT {_COLUMNS} FROM savings_statements WHERE company_id = %s AND month = %s")
_LIST = Statement(
    _Stored,
    f"SELECT {_COLUMNS} FROM savings_statements"
    " WHERE company_id = %(company_id)s AND (%(before)s::date IS NULL OR month < %(before)s)"
    " ORDER BY month DESC LIMIT %(limit)s",
)
_PDF = Scalar(bytes, "SELECT pdf FROM savings_statements WHERE company_id = %s AND month = %s")


def _statement(stored: _Stored) -> SavingsStatement:
    document: Mapping[str, Any] = stored.figures
    return SavingsStatement(
        *stored[:4], document["company"], read_sums(document), read_changes(document), read_hours(document)
    )


def read_statement(connection: Connection, company_id: UUID, month: date) -> SavingsStatement | None:
    """A month's statement as it was made; None where there is none."""
    stored = _FIND.first(connection, (company_id, month))
    return _statement(stored) if stored is not None else None


def list_statements(
    connection: Connection, company_id: UUID, *, limit: int, before: date | None = None
) -> list[SavingsStatement]:
    """The statements of a company, the newest first."""
    asked = {"company_id": company_id, "before": before, "limit": limit}
    return [_statement(stored) for stored in _LIST.all(connection, asked)]


def read_statement_pdf(connection: Connection, company_id: UUID, month: date) -> bytes | None:
    """The signed file as it was sent."""
    return _PDF.first(connection, (company_id, month))


class StatementTrip(NamedTuple):
    """A trip of a statement, with its figures as they were then."""

    route_id: UUID
    planned_at: datetime
    unit_number: str | None
    gallons: float
    cost_cents: int
    saved_cents: int | None
    bought_gallons: float | None
    paid_cents: int | None
    at_average_cents: int | None
    below_30_cents: int | None
    cheapest_cents: int | None
    usual_cents: int | None


_TRIPS = Statement(
    StatementTrip,
    "SELECT route_id, planned_at, unit_number, gallons, cost_cents, saved_cents, bought_gallons, paid_cents,"
    " at_average_cents, below_30_cents, cheapest_cents, usual_cents FROM statement_trips"
    " WHERE company_id = %s AND month = %s ORDER BY planned_at, route_id",
)


def trips_of_statement(connection: Connection, company_id: UUID, month: date) -> Iterator[StatementTrip]:
    """The trips of a statement, the oldest first. No other statement may run on the connection meanwhile."""
    return _TRIPS.in_portions(connection, 2_000, (company_id, month))
