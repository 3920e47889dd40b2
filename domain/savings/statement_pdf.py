"""A statement of a month's savings in words, and as a signed PDF. It names no person."""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from zoneinfo import ZoneInfo

from domain.savings.driver_habits import HABIT_BASIS, NAMES
from domain.savings.report import PROVEN_BASIS, SAVINGS_BASIS
from domain.savings.statement_figures import Hours, MonthChanges, SavingsStatement
from domain.signing.signed_pdf import PdfDocument, PdfTable, signed_pdf
from domain.signing.signing_keys import SigningKey
from domain.wording import counted, dollars_in_words, sentence

_FROZEN = (
    "The figures are those of the day on which the statement was made; nothing changes them. Later changes of the"
    " month, such as late fills or corrected plans, stand in the next statement."
)


def month_in_words(month: date) -> str:
    return f"{month:%B %Y}"


def statement_facts(statement: SavingsStatement) -> Iterator[tuple[str, str]]:
    """The labels and values of the statement, in its order."""
    span, figures = statement.span, statement.sums.figures
    yield "Carrier", statement.company
    yield "Month", f"{span.first_day} to {span.last_day}, {span.time_zone}"
    if statement.counted_hours != Hours(span.start, span.end):
        start, end = (f"{one.astimezone(ZoneInfo(span.time_zone)):%Y-%m-%d %H:%M}" for one in statement.counted_hours)
        yield "Counted", f"from {start} to {end}: the time zone was changed, and each plan is in one statement"
    yield "Made", f"{statement.made_at.astimezone(ZoneInfo(statement.time_zone)):%Y-%m-%d %H:%M %Z}"
    yield "Plans that drivers had", f"{figures.plans:,}"
    yield (
        "Saved as planned",
        f"{dollars_in_words(figures.saved)}: {figures.gallons:,.1f} gal for {dollars_in_words(figures.cost)} instead of"
        f" {dollars_in_words(figures.average_cost)}",
    )
    yield "Proven by fuel cards", _proven(statement)
    for one in statement.sums.habits:
        saved = f"{dollars_in_words(one.saved)} on {counted(one.trips, 'trip')}" if one.trips else "not known"
        yield f"Against: {one.name.lower()}", saved


def _proven(statement: SavingsStatement) -> str:
    figures = statement.sums.figures
    if not figures.with_fills:
        return "no route had fills"
    return (
        f"{dollars_in_words(figures.proven)} on {counted(figures.with_fills, 'route')} with fills,"
        f" {figures.with_fills_percent} % of the plans: {figures.bought_gallons:,.1f} gal bought for"
        f" {dollars_in_words(figures.paid)}"
    )


def change_in_words(change: MonthChanges) -> str:
    """The later changes of a month, on one line."""
    parts = [f"{change.plans:+,} {'plan' if abs(change.plans) == 1 else 'plans'}"] if change.plans else []
    parts += [f"planned {_signed(change.planned)}"] if change.planned else []
    parts += [f"routes with fills {change.with_fills:+,}"] if change.with_fills else []
    parts += [f"proven {_signed(change.proven)}"] if change.proven else []
    parts += [f"against {NAMES[habit].lower()} {_signed(saved)}" for habit, saved in change.habits.items() if saved]
    return "; ".join(parts) or "nothing"


def _signed(amount: Decimal) -> str:
    return f"{'-' if amount < 0 else '+'}${abs(amount):,.2f}"


def statement_pdf(statement: SavingsStatement, key: SigningKey) -> bytes:
    """The signed file."""
    title = f"Statement of fuel savings, {month_in_words(statement.month)}"
    tables = [_habits(statement), _since_then(statement)]
    notes = [sentence(basis) for basis in (SAVINGS_BASIS, PROVEN_BASIS, HABIT_BASIS)]
    return signed_pdf(
        PdfDocument(title, statement.made_at, list(statement_facts(statement)), tables, [*notes, _FROZEN]), key
    )


def _habits(statement: SavingsStatement) -> PdfTable:
    rows = []
    for one in statement.sums.habits:
        known = (
            (dollars_in_words(one.planned), dollars_in_words(one.habit_cost), dollars_in_words(one.saved))
            if one.trips
            else ("", "", "not known")
        )
        rows.append((f"{one.name}. {one.method}", f"{one.trips:,}", *known, one.why_left_out))
    columns = ("Habit and method", "Trips", "As planned", "By habit", "Saved", "Left out")
    return PdfTable("What drivers' habits would have paid", columns, rows, widths=(34, 8, 14, 14, 14, 16))


def _since_then(statement: SavingsStatement) -> PdfTable:
    rows = [(month_in_words(one.month), change_in_words(one)) for one in statement.since_then]
    return PdfTable("Earlier months, since their statements", ("Month", "Since then, in all"), rows, widths=(20, 80))
