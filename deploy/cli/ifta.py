"""The report of fuel tax by state."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from deploy.cli.arguments import AsJson, CompanyId
from deploy.cli.output import counting, print_table, screen, show
from deploy.cli.reports import write_file
from deploy.cli.storing import transaction
from domain import clock
from domain.ids import with_shown_ids
from domain.ifta.driven_routes import find_quarter_routes
from domain.ifta.quarters import Quarter
from domain.ifta.report import (
    CREDITED_BASIS,
    IFTA_BASIS,
    QuarterReport,
    QuarterTotals,
    StateLine,
    make_quarter_report,
    write_credited_csv,
    write_ifta_csv,
)
from domain.wording import counted

app = typer.Typer(
    no_args_is_help=True, help="IFTA, the International Fuel Tax Agreement: miles, gallons and tax by state."
)


@app.command("report")
def ifta_report(
    company_id: CompanyId,
    quarter: Annotated[
        Quarter,
        typer.Option(
            "--quarter",
            parser=Quarter.parse,
            metavar="YEARQn",
            help="The quarter, such as 2026Q4, in the company's time.",
        ),
    ],
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
    with transaction() as connection:
        driven = find_quarter_routes(connection, company_id, quarter)
        with counting("routes", len(driven.route_ids), quiet=as_json or not driven.route_ids) as progress:
            report = make_quarter_report(connection, driven, now=clock.now(), progress=progress)
    write_file(csv_file, lambda file: write_ifta_csv(file, report))
    write_file(vehicles_file, lambda file: write_credited_csv(file, report))
    show(as_json, with_shown_ids(asdict(report)), lambda: _print(report, csv_file, vehicles_file))


def _print(report: QuarterReport, *files: Path | None) -> None:
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
        if any(line.tax_dollars is None for line in report.states):
            screen.print("a state without a tax had no rate in the tax table on the quarter's first day")
    for file in files:
        if file is not None:
            screen.print(f"wrote {file}")


def _row(line: StateLine | QuarterTotals) -> dict[str, Any]:
    row = {"state": "", "tax_per_gallon": None, "surcharge_per_gallon": None, **asdict(line)}
    decimals = {"tax_per_gallon": 4, "surcharge_per_gallon": 4}
    return {
        field.name: row[field.name]
        if row[field.name] is None or field.name == "state"
        else f"{row[field.name]:,.{decimals.get(field.name, 2)}f}"
        for field in fields(StateLine)
    }
