"""The report of fuel tax by state."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from deploy.cli.arguments import AsJson, CompanyId, Why, acting
from deploy.cli.output import counting, print_table, screen, show
from deploy.cli.reports import write_file
from deploy.cli.storing import transaction
from domain import clock
from domain.encoding import utc_text
from domain.ids import with_shown_ids
from domain.ifta.quarters import Quarter
from domain.wording import counted

if TYPE_CHECKING:
    from domain.database.connections import Connection
    from domain.ifta.filings import Filing
    from domain.ifta.report import QuarterReport, QuarterTotals, StateLine

app = typer.Typer(no_args_is_help=True)


QuarterOption = Annotated[
    Quarter,
    typer.Option(
        "--quarter", parser=Quarter.parse, metavar="YEARQn", help="The quarter, such as 2026Q4, in the company's time."
    ),
]


@app.command("report")
def ifta_report(
    company_id: CompanyId,
    quarter: QuarterOption,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the lines of the states to a CSV file.")
    ] = None,
    vehicles_file: Annotated[
        Path | None,
        typer.Option("--vehicles-csv", metavar="FILE", help="Write the gallons credited by truck and state to a file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Reports a quarter's miles and gallons by state, as they were planned, and the gallons that fuel cards sold.

    It counts each leg of a live route that was driven: from a stop that the truck reached to the next one, in the
    quarter of the arrival there. Miles are those of the plan's road. Gallons burned are miles by the truck's mpg,
    gallons planned are those that the plan buys on these legs. Gallons bought are the fills of fuel cards that were
    imported. A truck with fills in the quarter is credited these, the others what was planned: see --vehicles-csv.
    No odometer was read, and miles between routes are not in it: compare it with your logs before you file anything.
    """
    from domain.ifta.filings import read_filing  # loads numpy and the roads
    from domain.ifta.report import write_credited_csv, write_ifta_csv

    with transaction() as connection:
        filing = read_filing(connection, company_id, quarter)
        report = filing.report if filing is not None else _made(connection, company_id, quarter, as_json)
    write_file(csv_file, lambda file: write_ifta_csv(file, report))
    write_file(vehicles_file, lambda file: write_credited_csv(file, report))
    document = with_shown_ids(asdict(report)) | ({} if filing is None else {"filed": _filed_document(filing)})
    show(as_json, document, lambda: _print(report, filing, csv_file, vehicles_file))


def _made(connection: "Connection", company_id: UUID, quarter: Quarter, as_json: bool) -> "QuarterReport":
    from domain.ifta.driven_routes import find_quarter_routes
    from domain.ifta.report import make_quarter_report

    driven = find_quarter_routes(connection, company_id, quarter)
    with counting("routes", len(driven.route_ids), quiet=as_json or not driven.route_ids) as progress:
        return make_quarter_report(connection, driven, now=clock.now(), progress=progress)


def _filed_document(filing: "Filing") -> dict[str, Any]:
    changes = None if filing.changes is None else [one._asdict() for one in filing.changes]
    return {
        "at": utc_text(filing.filed_at),
        "by": filing.filed_by,
        "compared_at": utc_text(filing.compared_at) if filing.compared_at is not None else None,
        "changes": changes,
        "is_to_amend": filing.is_to_amend,
    }


@app.command("file")
def ifta_file(company_id: CompanyId, quarter: QuarterOption, reason: Why) -> None:
    """Marks a quarter as filed: its report is frozen as it is now, and later changes are told beside it."""
    from domain.ifta.driven_routes import find_quarter_routes
    from domain.ifta.filings import file_quarter

    with transaction() as connection:
        driven = find_quarter_routes(connection, company_id, quarter)
        with counting("routes", len(driven.route_ids), quiet=not driven.route_ids) as progress:
            file_quarter(connection, driven, acting(reason), now=clock.now(), progress=progress)
    screen.print(f"{quarter} is filed: its report never changes, until it is reopened")


@app.command("reopen")
def ifta_reopen(company_id: CompanyId, quarter: QuarterOption, reason: Why) -> None:
    """Takes back that a quarter was filed: its report follows what is known again."""
    from domain.ifta.filings import reopen_quarter

    with transaction() as connection:
        reopen_quarter(connection, company_id, quarter, acting(reason), now=clock.now())
    screen.print(f"{quarter} is open again")


@app.command("compare")
def ifta_compare(company_id: CompanyId, quarter: QuarterOption) -> None:
    """Compares a filed quarter with what is known now, as the scheduler does once a day."""
    from domain.ifta.filings import NotFiled, compare_filing, read_filing
    from domain.settings import get_settings

    with transaction() as connection:
        kept = get_settings().fill_retention_days
        compare_filing(connection, company_id, quarter, fills_kept_days=kept, now=clock.now())
        filing = read_filing(connection, company_id, quarter)
    if filing is None:
        raise NotFiled(f"{quarter} is not filed")
    _print_filing(filing)


def _print_filing(filing: "Filing") -> None:
    screen.print(f"filed by {filing.filed_by} on {filing.filed_at:%Y-%m-%d}")
    if filing.changes is None:
        screen.print("since filed: not compared yet")
    else:
        screen.print(f"since filed: {'; '.join(one.in_words for one in filing.changes) or 'nothing has changed'}")
    if filing.is_to_amend:
        screen.print("that is more than rounding: look whether the return has to be amended")


def _print(report: "QuarterReport", filing: "Filing | None", *files: Path | None) -> None:
    from domain.ifta.report import CREDITED_BASIS, IFTA_BASIS, NO_MEMBERS

    so_far = "" if report.ended else " so far: the quarter is not over"
    if not report.states:
        screen.print(f"no leg was driven in {report.quarter}{so_far}")
    else:
        print_table([*map(_row, report.states), {**_row(report.totals), "state": "all"}], *_row(report.states[0]))
        screen.print(
            f"{counted(report.legs, 'leg')} of {counted(report.routes, 'route')} in {report.quarter} "
            f"({report.first_day} to {report.last_day}, {report.time_zone}){so_far}"
        )
        screen.print(IFTA_BASIS)
        if report.vehicles_with_fills:
            trucks = counted(len({line.vehicle_id for line in report.vehicles}), "truck")
            screen.print(f"{CREDITED_BASIS}: {report.vehicles_with_fills} of {trucks} had fills")
        if report.legs_rebuilt:
            screen.print(
                f"{counted(report.legs_rebuilt, 'leg')}: the plan's road is no longer stored and was computed again"
            )
        if report.legs_without_plan:
            screen.print(f"{counted(report.legs_without_plan, 'leg')} without a plan: miles of the embedded roads")
        if any(line.tax_dollars is None and line.state not in NO_MEMBERS for line in report.states):
            screen.print("a state without a tax had no rate in the tax table on the quarter's first day")
    if filing is not None:
        _print_filing(filing)
    for file in files:
        if file is not None:
            screen.print(f"wrote {file}")


def _row(line: "StateLine | QuarterTotals") -> dict[str, Any]:
    from domain.ifta.report import StateLine

    row = {"state": "", "tax_per_gallon": None, "surcharge_per_gallon": None, **asdict(line)}
    decimals = {"tax_per_gallon": 4, "surcharge_per_gallon": 4}
    return {
        field.name: row[field.name]
        if row[field.name] is None or field.name == "state"
        else f"{row[field.name]:,.{decimals.get(field.name, 2)}f}"
        for field in fields(StateLine)
    }
