"""The outcome of fuel stops that drivers were told, and the cost of refusals."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import typer

from deploy.cli.arguments import AsJson, CompanyId
from deploy.cli.output import print_table, screen, show
from deploy.cli.reports import FirstDay, LastDay, LinesFile, report_document, span_between, write_file
from deploy.cli.storing import transaction
from domain.compliance.report import COMPLIANCE_BASIS, ComplianceBy, compared_stops, compliance_lines
from domain.compliance.rows import COMPLIANCE_COLUMNS, line_of_compliance, row_of_stop
from domain.database.connections import Connection, Tenant
from domain.files.csvfiles import write_records
from domain.lifecycle import Environment
from domain.savings.spans import Span

app = typer.Typer(no_args_is_help=True)


@app.command("report")
def compliance_report(
    company_id: CompanyId,
    first_day: FirstDay,
    last_day: LastDay,
    by: Annotated[
        Literal["chain", "reason", "choice", "driver", "stop"], typer.Option("--by", help="One line for each of these.")
    ] = "chain",
    environment: Annotated[
        Environment, typer.Option("--environment", help="The environment of the routes.")
    ] = Environment.LIVE,
    csv_file: LinesFile = None,
    as_json: AsJson = False,
) -> None:
    """Tells which fuel stops drivers followed, missed and refused, and what the refusals cost.

    A stop counts once its trip has ended, on the day when its plan was made, by the best proof there is: the card's
    fill, the level of the tank, the driver's answer, the place of the truck.
    """
    tenant = Tenant(company_id, environment)
    with transaction() as connection:
        span = span_between(connection, company_id, first_day, last_day)
        rows = list(_rows(connection, tenant, span, by))
    write_file(csv_file, lambda file: write_records(file, COMPLIANCE_COLUMNS[by], rows))

    def text() -> None:
        if not rows:
            screen.print(f"no fuel stop was told from {span.first_day} to {span.last_day}")
        else:
            print_table([_readable(row) for row in rows], *(one for one in COMPLIANCE_COLUMNS[by] if one[-3:] != "_id"))
        if csv_file is not None:
            screen.print(f"wrote {csv_file}")

    show(as_json, {"basis": COMPLIANCE_BASIS, **report_document(tenant, span, by, rows)}, text)


def _rows(connection: Connection, tenant: Tenant, span: Span, by: str) -> Iterator[dict[str, Any]]:
    if by == "stop":
        return (row_of_stop(stop, with_drivers=True) for stop in compared_stops(connection, tenant, span))
    kind = ComplianceBy(by)
    return (line_of_compliance(kind, line) for line in compliance_lines(connection, tenant, span, kind))


def _readable(row: dict[str, Any]) -> dict[str, str]:
    return {name: f"{value:,.2f}" if isinstance(value, float) else str(value or "") for name, value in row.items()}
