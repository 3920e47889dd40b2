"""The page Compliance: the outcome of the fuel stops that drivers were told, by chain, reason, choice and driver, and
the cost of refusals; and both as CSV files. Viewers see no drivers."""

from collections.abc import Mapping

from starlette.responses import Response

from domain.compliance.report import (
    ComplianceBy,
    ComplianceFigures,
    ComplianceLine,
    compared_stops,
    compliance_lines,
)
from domain.compliance.rows import COMPLIANCE_COLUMNS, columns_of_stops, line_of_compliance, row_of_stop
from domain.files.csvfiles import write_records
from domain.lifecycle import Environment
from domain.wording import REFUSED_BECAUSE
from ingress.console.addresses import as_download, in_report_threads, page_at
from ingress.console.downloads import Download
from ingress.console.refusals import Refused
from ingress.console.report_choices import address_with, drivers_hidden, named_spans, sees_drivers, span_of
from ingress.console.signed_in import Page

STOPS, LINES = 100, 100
"""Most stops, and most lines of the report, on one page."""
MOST_STOPS_OF_FILE = 100_000

_KEPT = ("environment", "from", "to", "by", "page")
_EMPTY = {
    ComplianceBy.CHAIN: "no chain is known",
    ComplianceBy.REASON: "not refused",
    ComplianceBy.CHOICE: "",
    ComplianceBy.DRIVER: "a driver who was erased",
}
_NAMED: Mapping[ComplianceBy, Mapping[str, str]] = {
    ComplianceBy.REASON: {str(reason): words for reason, words in REFUSED_BECAUSE.items()},
    ComplianceBy.CHOICE: {
        "planned": "as planned",
        "allowance": "chosen within the allowance",
        "dispatcher": "chosen or allowed by a dispatcher",
    },
}


def _kinds(page: Page) -> list[ComplianceBy]:
    return [one for one in ComplianceBy if one is not ComplianceBy.DRIVER or sees_drivers(page)]


def _by(page: Page) -> ComplianceBy | None:
    """The kind of line in the address. None for stops one by one, and for a kind that the person may not see."""
    return next((one for one in _kinds(page) if one == page.form.text("by")), None)


def name_of_line(by: ComplianceBy, line: ComplianceLine) -> str:
    """The name as people read it."""
    if not line.name:
        return _EMPTY[by]
    return _NAMED.get(by, {}).get(line.name, line.name)


def total_of_compliance(lines: list[ComplianceLine]) -> ComplianceFigures:
    columns = zip(*(line.figures for line in lines), strict=True)
    return ComplianceFigures(*map(sum, columns)) if lines else ComplianceFigures(0, 0, 0, 0, 0, 0)


def show(page: Page) -> Response:
    tenant, span, by = page.tenant, span_of(page), _by(page) or ComplianceBy.CHAIN
    number = page.form.number("page")
    lines = compliance_lines(page.connection, tenant, span, by)
    total = total_of_compliance(lines)
    return page.render(
        "compliance.html",
        section="compliance",
        tenant=tenant,
        span=span,
        by=by,
        kinds=_kinds(page),
        lines=[(name_of_line(by, line), line) for line in lines[:LINES]],
        found=len(lines),
        total=total,
        refusals=sum(line.priced for line in lines),
        refusals_cents=sum(line.cents for line in lines),
        stops=list(compared_stops(page.connection, tenant, span, limit=STOPS, offset=number * STOPS)),
        reasons=REFUSED_BECAUSE,
        sees_drivers=sees_drivers(page),
        number=number,
        pages=-(-total.stops // STOPS),
        environments=list(Environment),
        spans=named_spans(page)[:2],
        address=lambda path, **changes: address_with(page, path, _KEPT, **changes),
    )


def export(page: Page) -> Response:
    tenant, span, by = page.tenant, span_of(page), _by(page)
    if by is not None:
        columns = COMPLIANCE_COLUMNS[by]
        rows = [line_of_compliance(by, line) for line in compliance_lines(page.connection, tenant, span, by)]
    elif page.form.text("by"):
        raise drivers_hidden()
    else:
        with_drivers = sees_drivers(page)
        columns = columns_of_stops(with_drivers=with_drivers)
        found = compared_stops(page.connection, tenant, span, limit=MOST_STOPS_OF_FILE + 1)
        rows = [row_of_stop(stop, with_drivers=with_drivers) for stop in found]
        if len(rows) > MOST_STOPS_OF_FILE:
            raise Refused(
                400,
                "These are too many stops for one file",
                f"Choose fewer days: {MOST_STOPS_OF_FILE:,} are the limit. `fuelroute compliance report` has none.",
            )
    name = f"compliance-by-{by or 'stop'}-{span.first_day}-{span.last_day}.csv"
    return Download(name, lambda file: write_records(file, columns, rows))


ADDRESSES = [
    page_at("/compliance", show, run=in_report_threads),
    page_at("/compliance.csv", export, run=as_download),
]
