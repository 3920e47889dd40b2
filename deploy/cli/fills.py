"""Purchases of fuel cards: import, lists, the decisions of a person, and planned against bought."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import typer

from deploy.cli.arguments import AsJson, CompanyId, Limit, acting, known_id, rows_file
from deploy.cli.failures import CommandFailed
from deploy.cli.fill_cards import InEnvironment, fills_assign, fills_cards
from deploy.cli.importing import store_file
from deploy.cli.output import finish_import, print_table, screen, show, show_sentence
from deploy.cli.reports import FirstDay, LastDay, LinesFile, report_document, span_between, write_file
from deploy.cli.storing import transaction
from domain import clock
from domain.accounts.companies import require_company
from domain.database.connections import Connection, Tenant
from domain.encoding import utc_text
from domain.files.csvfiles import write_records
from domain.files.products import Fuel
from domain.files.profiles import Column, FileProfile
from domain.files.reading import AUTO
from domain.fills.bought_report import (
    BOUGHT_BASIS,
    BOUGHT_COLUMNS,
    BoughtBy,
    bought_lines,
    bought_row,
    bought_stops,
    stop_row,
    total_bought,
)
from domain.fills.fields import FILL_FIELDS
from domain.fills.fill_lists import FillList, ShownFill, count_fills, list_fills, reasons_of
from domain.fills.profiles import CARDS, card_profile_of
from domain.ids import read_id, shown_id
from domain.lifecycle import Environment
from domain.savings.spans import Span
from domain.settings import get_settings
from domain.wording import counted

app = typer.Typer(no_args_is_help=True)


def read_fill_id(text: str) -> UUID:
    """The id in the text. Raises UnknownFill for text that is no fill's id."""
    from domain.fills.reviewing import UnknownFill  # loads what matches fills

    return known_id("fil", text, UnknownFill)


@app.command("import", epilog=f"Fields: {', '.join(field.name for field in FILL_FIELDS.fields)}.")
def fills_import(
    company_id: CompanyId,
    file: Annotated[
        Path,
        typer.Argument(parser=rows_file, metavar="FILE", help="The card's export: CSV in UTF-8, or Excel."),
    ],
    profile: Annotated[
        str,
        typer.Option("--profile", help=f"The card: {', '.join(CARDS)}; auto recognizes it by the headings."),
    ] = AUTO,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="FIELD=COLUMN",
            help="The column that holds a field, in place of the profile's; give it several times.",
        ),
    ] = None,
    volume: Annotated[
        Literal["gallons", "litres"] | None,
        typer.Option("--volume", help="What all quantities of the file are, where no column says it."),
    ] = None,
    currency: Annotated[
        Literal["USD", "CAD"] | None,
        typer.Option("--currency", help="The currency of all amounts of the file, where no column says it."),
    ] = None,
    environment: InEnvironment = Environment.LIVE,
    as_json: AsJson = False,
) -> None:
    """Adds the purchases in a fuel card's file, and matches them to trucks, stations, routes and planned fuel stops.

    A file may be given again: a transaction that is stored already changes nothing, unless the card has corrected it.
    Rows that cannot be read are refused, each with its line and the reason; the others are stored. Lines that are about
    something else than fuel, such as totals, taxes and scales, are passed over and counted. Matches that are not clear
    wait for a person: see `fills review`.
    """
    from domain.operations.import_kinds import FillsFile  # loads what stores each kind of file

    chosen = card_profile_of(file, profile, lambda one: _with_columns(one, columns or []))
    if profile == AUTO and not as_json:
        screen.print(f"read as: {CARDS[chosen.name].title} (--profile {chosen.name})", highlight=False)
    fills = FillsFile(
        path=file,
        company_id=company_id,
        environment=environment,
        profile=chosen,
        volume=volume or "",
        currency=currency or "",
        far_miles=get_settings().fill_far_miles,
    )
    with transaction() as connection:
        require_company(connection, company_id)
    report = store_file(fills, bar="rows", as_json=as_json)
    with transaction() as connection:
        waiting = count_fills(connection, fills.tenant, FillList.REVIEW)
    if waiting and not as_json:
        screen.print(f"{counted(waiting, 'fill waits', 'fills wait')} for a person: fuelroute fills review")
    finish_import(as_json, "fills", report, profile=chosen.name)


def _with_columns(profile: FileProfile, columns: Sequence[str]) -> FileProfile:
    """The profile with other columns for some fields."""
    changed = dict(profile.columns)
    for given in columns:
        field, _, column = given.partition("=")
        if FILL_FIELDS.field(field) is None or not column:
            raise CommandFailed(f"{given!r} is not FIELD=COLUMN with a field that `fills import --help` lists")
        changed[field] = Column((column,))
    return msgspec.structs.replace(profile, columns=changed)


@app.command("list")
def fills_list(
    company_id: CompanyId,
    flagged: Annotated[bool, typer.Option("--flagged", help="Only those larger than the tank, or far away.")] = False,
    limit: Limit = 100,
    environment: InEnvironment = Environment.LIVE,
    as_json: AsJson = False,
) -> None:
    """Lists fills with their matches, the newest first."""
    _show_list(Tenant(company_id, environment), FillList.FLAGGED if flagged else FillList.ALL, limit, as_json)


@app.command("review")
def fills_review(
    company_id: CompanyId,
    fill_id: Annotated[
        UUID | None,
        typer.Argument(
            parser=read_fill_id,
            metavar="FILL_ID",
            help="The fill to decide; without it they are listed.",
        ),
    ] = None,
    unit_number: Annotated[
        str | None, typer.Option("--unit", help="Its truck, by the unit number in the fleet, or its id.")
    ] = None,
    station_id: Annotated[str | None, typer.Option("--station", help="Its station, by station_id.")] = None,
    fuel: Annotated[Fuel | None, typer.Option("--fuel", help="The kind of fuel.")] = None,
    route: Annotated[
        str | None, typer.Option("--route", help="Its route's id, or `none`. Without it the rules find the route.")
    ] = None,
    is_twice: Annotated[
        bool, typer.Option("--twice", help="It is the same purchase as the one that it may be: the two become one.")
    ] = False,
    limit: Limit = 100,
    environment: InEnvironment = Environment.LIVE,
    as_json: AsJson = False,
) -> None:
    """Lists the fills that wait for a person, or decides one of them.

    Without options the decision confirms the matches as they are.
    """
    if fill_id is None:
        _show_list(Tenant(company_id, environment), FillList.REVIEW, limit, as_json)
        return
    from domain.fills.reviewing import BY_RULE, NO_ROUTE, Decision, decide

    chosen: UUID | str = BY_RULE
    if route is not None:
        found = NO_ROUTE if route == NO_ROUTE else read_id("rte", route)
        if found is None:
            raise CommandFailed(f"there is no route {route!r}")
        chosen = found
    decision = Decision(unit_number, station_id, fuel, chosen, is_twice)
    with transaction() as connection:
        decide(
            connection,
            company_id,
            fill_id,
            decision,
            acting(),
            far_miles=get_settings().fill_far_miles,
            now=clock.now(),
        )
    shown = shown_id("fil", fill_id)
    show_sentence(as_json, {"fill_id": shown, "decided": True}, f"decided {shown}")


app.command("cards")(fills_cards)
app.command("assign")(fills_assign)


@app.command("match")
def fills_match(company_id: CompanyId, environment: InEnvironment = Environment.LIVE, as_json: AsJson = False) -> None:
    """Matches fills that wait for a person, and those of two months without a route or on a canceled one, once more.

    Do so after trucks, mappings, stations or routes were added that fills waited for. Decisions of people stay.
    """
    from domain.fills.importing import read_stations
    from domain.fills.matching_again import end_matching, match_fills_again

    tenant, now = Tenant(company_id, environment), clock.now()
    settled, after = 0, UUID(int=0)
    with transaction() as connection:
        require_company(connection, company_id)
        stations = read_stations(connection, company_id)
    while True:
        with transaction() as connection:
            done = match_fills_again(
                connection, tenant, stations, after=after, far_miles=get_settings().fill_far_miles, now=now
            )
        settled += done.settled
        if done.last_id is None:
            break
        after = done.last_id
    with transaction() as connection:
        end_matching(connection, tenant, acting(), settled=settled)
        waiting = count_fills(connection, tenant, FillList.REVIEW)
    show_sentence(
        as_json,
        {"settled": settled, "waiting": waiting},
        f"{counted(waiting, 'fill waits', 'fills wait')} for a person",
    )


@app.command("compared")
def fills_compared(
    company_id: CompanyId,
    first_day: FirstDay,
    last_day: LastDay,
    by: Annotated[
        Literal["week", "truck", "driver", "stop"], typer.Option("--by", help="One line for each of these.")
    ] = "week",
    environment: InEnvironment = Environment.LIVE,
    csv_file: LinesFile = None,
    as_json: AsJson = False,
) -> None:
    """Compares planned fuel stops with what was bought: followed, partly, missed, elsewhere, and dollars by cause.

    A route counts once it has fills and none of them waits for a person, on the day when its plan was made, in the
    company's time zone.
    """
    tenant = Tenant(company_id, environment)
    with transaction() as connection:
        span = span_between(connection, company_id, first_day, last_day)
        total = total_bought(bought_lines(connection, tenant, span, BoughtBy.WEEK))
        rows = list(_compared(connection, tenant, span, by))
    write_file(csv_file, lambda file: write_records(file, BOUGHT_COLUMNS[by], rows))

    def text() -> None:
        if not total.stops:
            screen.print(f"no route with fills has a plan from {span.first_day} to {span.last_day}")
        else:
            print_table([_readable(row) for row in rows], *(one for one in BOUGHT_COLUMNS[by] if one[-3:] != "_id"))
            screen.print(
                f"paid ${total.paid_cents / 100:,.2f} instead of ${total.planned_cents / 100:,.2f}: by price"
                f" {total.price_cents / 100:+,.2f}, by gallons {total.gallons_cents / 100:+,.2f}, by place"
                f" {total.place_cents / 100:+,.2f}"
            )
        if csv_file is not None:
            screen.print(f"wrote {csv_file}")

    document = {"basis": BOUGHT_BASIS, **report_document(tenant, span, by, rows)}
    show(as_json, document, text)


def _compared(connection: Connection, tenant: Tenant, span: Span, by: str) -> Iterator[dict[str, Any]]:
    if by == "stop":
        return map(stop_row, bought_stops(connection, tenant, span))
    kind = BoughtBy(by)
    return (bought_row(kind, line) for line in bought_lines(connection, tenant, span, kind))


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: f"{value:,.2f}" if isinstance(value, float) else "0" if value == 0 else str(value or "")
        for name, value in row.items()
    }


def _show_list(tenant: Tenant, which: FillList, limit: int, as_json: bool) -> None:
    with transaction() as connection:
        require_company(connection, tenant.company_id, even_retired=True)
        fills = list_fills(connection, tenant, which, limit=limit)
    rows = [_row(fill) for fill in fills]

    def text() -> None:
        if not rows:
            screen.print("no fill" if which is FillList.ALL else f"no fill is {_WORDS[which]}")
            return
        print_table(
            [{name: str(value or "") for name, value in row.items()} for row in rows],
            *("fill_id", "bought", "unit", "place", "fuel", "gallons", "paid", "currency", "station", "route", "open"),
        )

    show(as_json, {"fills": rows}, text)


_WORDS = {FillList.REVIEW: "waiting for a person", FillList.FLAGGED: "flagged"}


def _row(fill: ShownFill) -> dict[str, Any]:
    return {
        "fill_id": shown_id("fil", fill.id),
        "bought_at": utc_text(fill.bought_at),
        "bought": f"{fill.local_time:%Y-%m-%d %H:%M}",
        "card": fill.card_last_four,
        "transaction": fill.transaction_number,
        "unit": fill.unit_number,
        "place": ", ".join(filter(None, (fill.location_name, fill.city, fill.state))),
        "item": fill.item,
        "fuel": fill.fuel,
        "gallons": fill.gallons,
        "paid": fill.paid_cents / 100,
        "currency": fill.currency,
        "vehicle_id": shown_id("veh", fill.vehicle_id) if fill.vehicle_id else None,
        "station": fill.station_id,
        "route_id": shown_id("rte", fill.route_id) if fill.route_id else None,
        "route": fill.route_external_id,
        "verdict": fill.verdict,
        "score": fill.score,
        "miles_from_truck": fill.miles_from_truck,
        "twin_id": shown_id("fil", fill.twin_id) if fill.twin_id else None,
        "driver_name": fill.driver_name,
        "review": fill.review,
        "flags": fill.flags,
        "open": "; ".join(reasons_of(fill)),
    }
