"""The page of the monthly statements of savings: one as it was sent, and what has changed of its month since then; its
signed file, and its trips as a CSV file."""

from datetime import date, timedelta

from starlette.responses import Response

from domain.accounts.companies import read_company
from domain.accounts.users import MAY_MANAGE_NOTICES
from domain.files.csvfiles import write_records
from domain.savings.driver_habits import HABIT_BASIS
from domain.savings.export import STATEMENT_COLUMNS, statement_row
from domain.savings.spans import UnusableSpan, read_month
from domain.savings.statement_figures import NO_CHANGES, SavingsStatement, changes_since
from domain.savings.statement_pdf import change_in_words, month_in_words, statement_facts
from domain.savings.statements import (
    list_statements,
    newest_due_month,
    read_statement,
    read_statement_pdf,
    trips_of_statement,
)
from domain.wording import sentence
from ingress.console.addresses import as_download, in_report_threads, page_at
from ingress.console.downloads import Download
from ingress.console.refusals import Refused, known
from ingress.console.signed_in import Page

_SHOWN = 36
"""Most months to choose from."""


def show(page: Page) -> Response:
    statements = list_statements(page.connection, page.company_id, limit=_SHOWN)
    shown = _chosen(page) if page.form.text("month") else statements[0] if statements else None
    changes = changes_since(page.connection, shown) if shown is not None else None
    return page.render(
        "savings_statements.html",
        section="savings",
        statements=statements,
        shown=shown,
        facts=list(statement_facts(shown)) if shown is not None else [],
        since_then=None if changes is None else change_in_words(changes),
        has_changed=shown is not None and changes != NO_CHANGES._replace(month=shown.month),
        next_day=_next_day(page),
        may_see_notices=page.session.role in MAY_MANAGE_NOTICES,
        habit_basis=sentence(HABIT_BASIS).rstrip("."),
        month_in_words=month_in_words,
        change_in_words=change_in_words,
    )


def _next_day(page: Page) -> date:
    """The day on which the next statement is due."""
    company = read_company(page.connection, page.company_id)
    due = newest_due_month(page.now, company.time_zone, company.statement_day)
    following = (due + timedelta(days=70)).replace(day=1)
    return following.replace(day=company.statement_day)


def _chosen(page: Page) -> SavingsStatement:
    """The statement of the month in the address. Raises Refused where there is none."""
    return known(read_statement(page.connection, page.company_id, _month(page)))


def _month(page: Page) -> date:
    try:
        return read_month(page.form.text("month"))
    except UnusableSpan as error:
        raise Refused(400, "This is no month", sentence(str(error))) from None


def pdf(page: Page) -> Response:
    """The signed file, as it was sent."""
    month = _month(page)
    content = known(read_statement_pdf(page.connection, page.company_id, month))
    headers = {"Content-Disposition": f'attachment; filename="savings-{month:%Y-%m}.pdf"'}
    return Response(content, media_type="application/pdf", headers=headers)


def export(page: Page) -> Response:
    """The trips of a statement, as they were when it was made."""
    month = _chosen(page).month
    trips = trips_of_statement(page.connection, page.company_id, month)
    rows = (statement_row(month, trip) for trip in trips)
    return Download(f"savings-{month:%Y-%m}.csv", lambda file: write_records(file, STATEMENT_COLUMNS, rows))


ADDRESSES = [
    page_at("/savings/statements", show, run=in_report_threads),
    page_at("/savings/statement.pdf", pdf),
    page_at("/savings/statement.csv", export, run=as_download),
]
