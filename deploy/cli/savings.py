"""The savings of fuel plans."""

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import typer

from deploy.cli.arguments import AsJson, CompanyId, acting
from deploy.cli.output import print_table, screen, show
from deploy.cli.reports import FirstDay, LastDay, LinesFile, report_document, span_between, write_file
from deploy.cli.storing import transaction
from domain import clock
from domain.accounts.contacts import Contacts
from domain.database.connections import Connection, Tenant
from domain.encoding import utc_text
from domain.files.csvfiles import write_records
from domain.lifecycle import Environment
from domain.notices.statement_notices import tell_statement
from domain.savings.driver_habits import HABIT_BASIS
from domain.savings.export import (
    CSV_COLUMNS,
    STATEMENT_COLUMNS,
    figures_row,
    line_row,
    plan_row,
    statement_row,
    week_row,
)
from domain.savings.habit_report import HABIT_COLUMNS, HabitSavings, habit_row, savings_by_habit
from domain.savings.report import (
    PROVEN_BASIS,
    SAVINGS_BASIS,
    Dimension,
    Figures,
    plans_behind,
    savings_by_line,
    savings_by_week,
    total_of,
)
from domain.savings.spans import Span, read_month
from domain.savings.statement_figures import SavingsStatement, changes_since
from domain.savings.statement_pdf import change_in_words, statement_facts
from domain.savings.statements import (
    NoStatement,
    make_statement,
    read_statement,
    read_statement_pdf,
    trips_of_statement,
    wait_for_habits,
)
from domain.settings import get_settings
from domain.wording import counted, dollars_in_words

app = typer.Typer(no_args_is_help=True)

Grouping = Literal["week", "truck", "driver", "lane", "plan"]

_IDS = {"vehicle_id", "driver_id", "route_id", "plan_id"}
"""Columns for programs: people are shown the names instead."""


@app.command("report")
def savings_report(
    company_id: CompanyId,
    first_day: FirstDay,
    last_day: LastDay,
    by: Annotated[Grouping, typer.Option("--by", help="One line for each of these.")] = "week",
    environment: Annotated[
        Environment, typer.Option("--environment", help="The environment of the routes.")
    ] = Environment.LIVE,
    csv_file: LinesFile = None,
    as_json: AsJson = False,
) -> None:
    """Reports the savings of plans in a span of days, in the company's time zone.

    A plan counts once its driver has it, while its route is active or completed; of several versions only the newest
    counts, on the day when it was made. The savings of a plan are the cost of its gallons at the average price of its
    road's stations, less their planned cost. Beside them stand the proven savings of the routes whose fuel-card
    fills were imported: their gallons at that average price, less what was paid. Below stands what the trips would
    have cost by three habits of fueling, driven over the inputs of each plan.
    """
    tenant = Tenant(company_id, environment)
    with transaction() as connection:
        span = span_between(connection, company_id, first_day, last_day)
        weeks = savings_by_week(connection, tenant, span)
        rows = list(_rows(connection, tenant, span, by))
        habits = savings_by_habit(connection, tenant, span)
    total = total_of(weeks)
    document = {
        "basis": SAVINGS_BASIS,
        "proven_basis": PROVEN_BASIS,
        **report_document(tenant, span, by, rows),
        "totals": figures_row(total),
        "habit_basis": HABIT_BASIS,
        "habits": [habit_row(one) for one in habits],
    }
    write_file(csv_file, lambda file: write_records(file, CSV_COLUMNS[by], rows))
    show(as_json, document, lambda: _print(span, by, rows, total, habits, csv_file))


@app.command("statement")
def savings_statement(
    company_id: CompanyId,
    month: Annotated[
        date,
        typer.Option("--month", parser=read_month, metavar="YEAR-MM", help="The month, in the company's time."),
    ],
    pdf_file: Annotated[
        Path | None, typer.Option("--pdf", metavar="FILE", help="Write the signed file, as it was sent.")
    ] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the trips of the statement to a CSV file.")
    ] = None,
    make: Annotated[
        bool, typer.Option("--make", help="Make and send it now if its day has not come, or was missed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Shows the statement of a month's savings as it was signed and sent, and what has changed of the month since.

    The scheduler makes it on the company's day of the next month (companies set --statement-day), once, and nothing
    changes it any more. It has the savings as planned, as proven by fuel cards, and against habits of drivers.
    """
    if make:
        _make_statement(company_id, month)
    with transaction() as connection:
        statement = read_statement(connection, company_id, month)
        if statement is None:
            raise NoStatement(f"{month:%Y-%m} has no statement: it is made on its day, or by --make")
        changes = changes_since(connection, statement)
        pdf = read_statement_pdf(connection, company_id, month) if pdf_file is not None else None
        rows = [statement_row(month, trip) for trip in trips_of_statement(connection, company_id, month)]
    write_file(csv_file, lambda file: write_records(file, STATEMENT_COLUMNS, rows))
    if pdf_file is not None and pdf is not None:
        pdf_file.write_bytes(pdf)
    since_then = "not told any more: its routes are no longer kept" if changes is None else change_in_words(changes)
    document = {
        "month": f"{month:%Y-%m}",
        "made_at": utc_text(statement.made_at),
        "time_zone": statement.time_zone,
        "totals": {**figures_row(statement.sums.figures), "chosen_extra": None},  # a statement does not keep it
        "habit_basis": HABIT_BASIS,
        "habits": [habit_row(one) for one in statement.sums.habits],
        "earlier_months": {f"{one.month:%Y-%m}": change_in_words(one) for one in statement.since_then},
        "since_then": since_then,
    }
    show(as_json, document, lambda: _print_statement(statement, since_then, pdf_file, csv_file))


def _make_statement(company_id: UUID, month: date) -> None:
    settings, now = get_settings(), clock.now()
    with transaction() as connection:
        wait_for_habits(connection, company_id, month)
    with transaction() as connection:
        made = make_statement(connection, company_id, month, acting(), contacts=Contacts.of(settings), now=now)
        tell_statement(connection, made, console=settings.console_address(), now=now)


def _print_statement(statement: SavingsStatement, since_then: str, *files: Path | None) -> None:
    for label, value in statement_facts(statement):
        screen.print(f"{label}: {value}")
    print_habits(statement.sums.habits)
    for one in statement.since_then:
        screen.print(f"{one.month:%Y-%m}, since its statement: {change_in_words(one)}")
    screen.print(f"since then: {since_then}")
    for file in files:
        if file is not None:
            screen.print(f"wrote {file}")


def _print(
    span: Span,
    by: Grouping,
    rows: list[dict[str, Any]],
    total: Figures,
    habits: list[HabitSavings],
    csv_file: Path | None,
) -> None:
    if not total.plans:
        screen.print(f"no plan counts from {span.first_day} to {span.last_day}")
    else:
        columns = [column for column in CSV_COLUMNS[by] if column not in _IDS]
        all_of_them = dict.fromkeys(columns) | {columns[0]: "all"} | figures_row(total)
        print_table([_readable(row) for row in [*rows, all_of_them]], *columns)
        days = f"from {span.first_day} to {span.last_day} ({span.time_zone})"
        screen.print(f"{counted(total.plans, 'plan')} {days}; amounts in dollars")
        screen.print(SAVINGS_BASIS)
        if total.with_fills:
            screen.print(
                f"{dollars_in_words(total.proven)} proven on {counted(total.with_fills, 'route')} with fills"
                f" ({total.with_fills_percent} % of the plans)"
            )
            screen.print(PROVEN_BASIS)
        print_habits(habits)
    if csv_file is not None:
        screen.print(f"wrote {csv_file}")


def print_habits(habits: Sequence[HabitSavings]) -> None:
    """The savings against each habit, with its method below."""
    hidden = ("method",)
    print_table([_readable(habit_row(one)) for one in habits], *(name for name in HABIT_COLUMNS if name not in hidden))
    for one in habits:
        screen.print(f"{one.habit}: {one.method}")
    screen.print(HABIT_BASIS)


def _rows(connection: Connection, tenant: Tenant, span: Span, by: Grouping) -> Iterator[dict[str, Any]]:
    match by:
        case "week":
            return map(week_row, savings_by_week(connection, tenant, span))
        case "plan":
            return map(plan_row, plans_behind(connection, tenant, span))
        case "truck" | "driver" | "lane":
            kind = Dimension(by)
            return (line_row(kind, line) for line in savings_by_line(connection, tenant, span, kind).lines)


_DECIMALS = {"gallons": 1, "saved_per_gallon": 3, "saved_percent": 1}


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: f"{value:,.{_DECIMALS.get(name, 2)}f}" if isinstance(value, float) else value
        for name, value in row.items()
    }
