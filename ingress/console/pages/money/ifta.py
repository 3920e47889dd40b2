"""The page IFTA: a quarter's miles, gallons and tax by state, also as a CSV file."""

from datetime import date, timedelta

import psycopg
from starlette.responses import Response

from domain.accounts.users import MAY_EDIT_POLICY
from domain.audit.entries import Actor, NoReason
from domain.ids import shown_id
from domain.ifta.driven_routes import QuarterRoutes, find_quarter_routes
from domain.ifta.filings import Filing, NotFiled, file_quarter, read_filing, reopen_quarter
from domain.ifta.quarters import Quarter, UnknownQuarter
from domain.ifta.report import NO_MEMBERS, QuarterReport, make_quarter_report, write_credited_csv, write_ifta_csv
from ingress.console.addresses import action_at, as_download, in_report_threads, page_at
from ingress.console.downloads import Download
from ingress.console.refusals import Refused
from ingress.console.report_choices import today_of
from ingress.console.signed_in import Page, see_other
from ingress.console.stale_forms import state_of

MOST_ROUTES = 500
"""Most routes of a report that is made while a browser waits: each takes some milliseconds of a processor."""
_QUARTERS = 8
"""Quarters to choose from."""


_DONE = {
    "filed": "The quarter is marked as filed. Its report is frozen; later changes are told below it.",
    "reopened": "The quarter is open again. Its report follows what is known.",
}


def show(page: Page, *, fault: str = "", status: int = 200) -> Response:
    """Show the report as it was filed, or as it is now; for a larger fleet the command that makes it."""
    today = today_of(page)
    quarter = _quarter(page, today)
    filing = read_filing(page.connection, page.company_id, quarter)
    driven = _driven(page, quarter) if filing is None else None
    report = _shown(page, filing, driven)
    return page.render(
        "ifta.html",
        status=status,
        section="ifta",
        filing=filing,
        may_file=page.session.role in MAY_EDIT_POLICY,
        form=page.form,
        fault=fault,
        done=_DONE.get(page.form.text("done"), ""),
        quarter=quarter,
        quarters=_latest(today),
        report=report,
        seen=state_of(report.states) if report is not None else "",
        no_members=NO_MEMBERS,
        most=MOST_ROUTES,
        company=shown_id("cmp", page.company_id),
    )


def _shown(page: Page, filing: Filing | None, driven: QuarterRoutes | None) -> QuarterReport | None:
    if filing is not None:
        return filing.report
    return make_quarter_report(page.connection, driven, now=page.now) if driven is not None else None


def file(page: Page, by: Actor) -> Response:
    """Mark the quarter as filed. Raises Refused if its figures have changed since the page was loaded: the figures on
    the page are those that were filed."""
    quarter = _named_quarter(page)
    driven = _driven(page, quarter)
    if driven is None:
        raise _too_large()
    file_quarter(page.connection, driven, by, now=page.now)
    filing = read_filing(page.connection, page.company_id, quarter)
    if filing is None or page.form.text("seen") != state_of(filing.report.states):
        raise Refused(
            409,
            "The figures have changed since this page was loaded",
            "The quarter is not marked. Load the page again, and compare it with the return that you have filed.",
        )
    return see_other(f"/ifta?quarter={quarter}&done=filed")


def reopen(page: Page, by: Actor) -> Response:
    """Take back that the quarter was filed."""
    quarter = _named_quarter(page)
    reopen_quarter(page.connection, page.company_id, quarter, by, now=page.now)
    return see_other(f"/ifta?quarter={quarter}&done=reopened")


def export(page: Page) -> Response:
    report = _report(page)
    return Download(f"ifta-{report.quarter}.csv", lambda file: write_ifta_csv(file, report))


def export_vehicles(page: Page) -> Response:
    """The gallons credited by truck and state, and their source, as a CSV file."""
    report = _report(page)
    return Download(f"ifta-trucks-{report.quarter}.csv", lambda file: write_credited_csv(file, report))


def _report(page: Page) -> QuarterReport:
    """The report for a file, as it was filed if it was. Raises Refused where it would take too long."""
    quarter = _quarter(page, today_of(page))
    filing = read_filing(page.connection, page.company_id, quarter)
    if filing is not None:
        return filing.report
    driven = _driven(page, quarter)
    if driven is None:
        raise _too_large()
    return make_quarter_report(page.connection, driven, now=page.now)


def _too_large() -> Refused:
    return Refused(400, "This report is too large for a page", "Make it with the command that the page IFTA shows.")


def _quarter(page: Page, today: date) -> Quarter:
    """The quarter in the address, or the last quarter that is over. Raises Refused for any other text."""
    return _named_quarter(page) if page.form.text("quarter") else _latest(today)[1]


def _named_quarter(page: Page) -> Quarter:
    """The quarter that the request names. Raises Refused if it names none."""
    try:
        return Quarter.parse(page.form.text("quarter"))
    except UnknownQuarter:
        raise Refused(400, "There is no such quarter", "Go back and choose one, such as 2026Q4.") from None


def _latest(today: date) -> list[Quarter]:
    """The present quarter and those before it."""
    quarters = []
    day = today
    for _ in range(_QUARTERS):
        quarters.append(Quarter(day.year, (day.month + 2) // 3))
        day = quarters[-1].first_day - timedelta(days=1)
    return quarters


def _driven(page: Page, quarter: Quarter) -> QuarterRoutes | None:
    """The routes of a report; None if they are too many, or finding them takes too long."""
    try:
        driven = find_quarter_routes(page.connection, page.company_id, quarter)
    except psycopg.errors.QueryCanceled:
        return None
    return driven if len(driven.route_ids) <= MOST_ROUTES else None


ADDRESSES = [
    page_at("/ifta", show, run=in_report_threads),
    action_at(
        "/ifta/file", file, by=MAY_EDIT_POLICY, run=in_report_threads, again=show, faults={NotFiled: 409, NoReason: 400}
    ),
    action_at("/ifta/reopen", reopen, by=MAY_EDIT_POLICY, again=show, faults={NotFiled: 409, NoReason: 400}),
    page_at("/ifta.csv", export, run=as_download),
    page_at("/ifta-trucks.csv", export_vehicles, run=as_download),
]
