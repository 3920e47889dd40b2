"""Truck stops with their retail prices, negotiated prices, and diesel taxes."""

from datetime import date
from typing import Annotated
from uuid import UUID

import typer

from deploy.cli.arguments import (
    AsJson,
    Believe,
    CompanyId,
    CsvFile,
    Currency,
    Unit,
    Why,
    acting,
    columns_of,
    read_company_id,
    read_moment,
)
from deploy.cli.failures import CommandFailed
from deploy.cli.importing import store_file
from deploy.cli.output import finish_import, plain, print_table, show, show_sentence
from deploy.cli.records import Records, add_commands, by_id
from deploy.cli.storing import transaction
from domain import clock
from domain.ids import with_shown_ids
from domain.stations import deals, stations, taxes
from domain.stations.believed_prices import unit_option
from domain.stations.closures import closures_in_force
from domain.stations.listings import DEALS, STATIONS, TAXES
from domain.text import printable
from domain.wording import counted

stations_app = typer.Typer(no_args_is_help=True)
deals_app = typer.Typer(no_args_is_help=True)
taxes_app = typer.Typer(no_args_is_help=True)


_UNIT_COLUMNS = (
    "Where prices are not US dollars a gallon: currency, unit. Where one is unusual and somebody has looked at it:"
    " checked_price, which is the price again."
)


def _number(text: str) -> int | None:
    """A deal's id; None for a text that no deal has."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


add_commands(
    stations_app,
    Records(
        "station",
        "stations",
        STATIONS,
        ("station_id", "name", "brand", "city", "state", "retail_price", "priced_at"),
        by_id("station", str),
        shape=stations.StationFileRow,
        of_company=False,
    ),
)
add_commands(
    deals_app,
    Records(
        "deal",
        "deals",
        DEALS,
        ("id", "station_id", "brand", "discount_per_gallon", "net_price", "valid_from", "valid_to"),
        by_id("deal", _number),
        shape=deals.DealFileRow,
        retires=False,
    ),
)
add_commands(
    taxes_app,
    Records(
        "tax",
        "taxes",
        TAXES,
        ("state", "valid_from", "rate_per_gallon", "surcharge_per_gallon"),
        {
            "state": (Annotated[str, typer.Argument(metavar="STATE", help="The state, such as OH.")], str),
            "valid_from": (
                Annotated[str, typer.Argument(metavar="DAY", help="The first day of the tax, such as 2026-10-01.")],
                _day,
            ),
        },
        shape=taxes.TaxRow,
        of_company=False,
        retires=False,
    ),
)


@stations_app.command("import", epilog=f"{columns_of(stations.StationRow)} {_UNIT_COLUMNS}")
def stations_import(
    file: CsvFile, currency: Currency = "", unit: Unit = "", believe: Believe = False, as_json: AsJson = False
) -> None:
    """Adds and updates truck stops and their prices.

    Plans of trucks that are still at their first stop are checked again. Prices that are unlike what is known are not
    stored, and neither are rows that place a station more than 5 miles from where it is known; both are listed.
    """
    from domain.operations.import_kinds import StationsFile

    stations = StationsFile(path=file, unit=unit_option(currency, unit), believe=believe)
    finish_import(as_json, "stations", store_file(stations, bar="stations", as_json=as_json))


@deals_app.command("import", epilog=f"{columns_of(deals.DealRow)} {_UNIT_COLUMNS}")
def deals_import(
    company_id: CompanyId,
    file: CsvFile,
    currency: Currency = "",
    unit: Unit = "",
    believe: Believe = False,
    as_json: AsJson = False,
) -> None:
    """Adds and updates negotiated prices, by station or brand, with the days they are valid on."""
    from domain.operations.import_kinds import DealsFile

    deals = DealsFile(path=file, company_id=company_id, unit=unit_option(currency, unit), believe=believe)
    finish_import(as_json, "deals", store_file(deals, as_json=as_json))


@taxes_app.command("import", epilog=columns_of(taxes.TaxRow))
def taxes_import(file: CsvFile, as_json: AsJson = False) -> None:
    """Adds and updates the states' diesel taxes, for companies whose objective is tax-adjusted.

    A purchase is credited the rate. A surcharge is owed by miles alone and has a column of its own. The quarterly
    matrix of IFTA, Inc. is read, too.
    """
    from domain.operations.import_kinds import TaxesFile

    finish_import(as_json, "taxes", store_file(TaxesFile(path=file), as_json=as_json))


@stations_app.command("retire")
def stations_retire(
    station_ids: Annotated[
        list[str],
        typer.Argument(metavar="STATION_ID", help="The truck stop's id, as in the column station_id of the import."),
    ],
    as_json: AsJson = False,
) -> None:
    """Takes truck stops out of use: no plan stops there until `stations import` names them again by their ids."""
    now = clock.now()
    with transaction() as connection:
        stations.set_stations_retired(connection, station_ids, acting(), now=now)
    show_sentence(
        as_json,
        {"ids": station_ids, "retired": True},
        f"retired {printable(', '.join(station_ids))}",
    )


Until = Annotated[
    str,
    typer.Option(
        "--until",
        metavar="TIME",
        help="The end, such as 2026-12-01T14:00:00-06:00.",
    ),
]
StationArgument = Annotated[str, typer.Argument(metavar="STATION", help="The truck stop's id.")]
ForCompany = Annotated[
    UUID | None,
    typer.Option("--company", parser=read_company_id, metavar="ID", help="Only for this company, not for all."),
]


@stations_app.command("close")
def stations_close(
    station_id: StationArgument, until: Until, company_id: ForCompany = None, reason: Why = "", as_json: AsJson = False
) -> None:
    """Marks a truck stop as closed until a time, for one company or for all.

    Plans leave it out, and trucks on their way to it get new plans. The mark ends by itself.
    """
    from domain.routes.plans.closed_stations import close_station

    now, moment = clock.now(), read_moment("--until", until)
    with transaction() as connection:
        routes = close_station(connection, station_id, company_id, moment, acting(reason), now=now)
    show_sentence(
        as_json,
        {**_mark(station_id, company_id), "closed_until": moment, "new_plans": routes},
        f"{printable(station_id)} is closed until {plain(moment)}; {counted(routes, 'truck')} on the way to it"
        f" {'gets' if routes == 1 else 'get'} a new plan",
    )


@stations_app.command("open")
def stations_open(
    station_id: StationArgument, company_id: ForCompany = None, reason: Why = "", as_json: AsJson = False
) -> None:
    """Opens a truck stop again before its closure ends. Plans made from now on may stop there; no driver is told."""
    from domain.routes.plans.closed_stations import reopen_station

    with transaction() as connection:
        was_closed = reopen_station(connection, station_id, company_id, acting(reason), now=clock.now())
    if not was_closed:
        whose = " for this company" if company_id is not None else ""
        raise CommandFailed(f"{station_id} is not closed{whose}: see `fuelroute stations closed`")
    show_sentence(as_json, {**_mark(station_id, company_id), "closed_until": None}, f"{printable(station_id)} is open")


@stations_app.command("closed")
def stations_closed(company_id: ForCompany = None, as_json: AsJson = False) -> None:
    """Lists the truck stops that are closed now: for all companies, and with --company for that one too."""
    with transaction() as connection:
        rows = [with_shown_ids(one._asdict()) for one in closures_in_force(connection, company_id, now=clock.now())]
    columns = ("station_id", "station", "closed_until", "company_id", "reason", "closed_by")
    show(as_json, {"data": rows}, lambda: print_table(rows, *columns))


def _mark(station_id: str, company_id: UUID | None) -> dict[str, object]:
    return with_shown_ids({"station_id": station_id, "company_id": company_id})
