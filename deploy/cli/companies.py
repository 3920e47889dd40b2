"""Companies: their import and planning policy, and their end."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.arguments import AsJson, Yes, confirm, read_secret
from deploy.cli.output import counted, counting, print_fields, screen, show
from deploy.cli.storing import transaction
from domain.accounts import companies
from domain.accounts.companies import Policy
from domain.accounts.contacts import Contacts
from domain.housekeeping import erasure
from domain.lifecycle import Objective
from domain.messages import messages
from domain.routes.retiring import close_routes
from domain.settings import get_settings

app = typer.Typer(
    no_args_is_help=True, help="Companies that dispatch with Fuelroute, and their import and planning policy."
)

Name = Annotated[str | None, typer.Option("--name", metavar="N", help="The company's name.")]
TimeZone = Annotated[
    str | None,
    typer.Option(
        "--time-zone",
        metavar="Z",
        help="When a day begins for deals and taxes, such as America/Chicago; UTC unless set.",
    ),
]
WindowDays = Annotated[
    float | None,
    typer.Option("--import-window-days", metavar="D", help="Routes that start more days ahead are held; 7 unless set."),
]
Superseding = Annotated[
    bool | None,
    typer.Option(
        "--superseding/--no-superseding",
        help="A newer route with the same reference replaces the one before; off unless set.",
    ),
]
Reserve = Annotated[
    float | None, typer.Option("--reserve-percent", metavar="P", help="The tank never falls below it; 15 unless set.")
]
EndFuel = Annotated[
    float | None, typer.Option("--end-fuel-percent", metavar="P", help="Fuel wanted at the destination; 25 unless set.")
]
AssumedFuel = Annotated[
    float | None,
    typer.Option(
        "--assumed-fuel-percent",
        metavar="P",
        help="The level of a truck that has sent none for 24 hours; 50 unless set.",
    ),
]
MinPurchase = Annotated[
    float | None, typer.Option("--min-purchase-gallons", metavar="G", help="The smallest purchase; 30 unless set.")
]
StopCost = Annotated[
    float | None, typer.Option("--stop-cost", metavar="C", help="What one stop costs, in dollars; 20 unless set.")
]
MaxDetour = Annotated[
    float | None,
    typer.Option("--max-detour-miles", metavar="M", help="Off the road to a truck stop, each way; 5 unless set."),
]
MaxStops = Annotated[
    int | None, typer.Option("--max-stops", metavar="K", help="Most fuel stops of a plan; no limit unless set.")
]
ObjectiveOption = Annotated[
    Objective | None,
    typer.Option("--objective", help="Compare prices at the pump (unless set), or prices less the fuel tax."),
]
LeftoverValue = Annotated[
    float | None,
    typer.Option(
        "--leftover-value-per-gallon",
        metavar="V",
        help="Dollars a gallon, for fuel left beyond what is wanted at the end; 0 unless set.",
    ),
]
MessageUrl = Annotated[
    str | None,
    typer.Option(
        "--message-url",
        metavar="APPRISE",
        help="Apprise URL for messages to drivers without a contact. - reads it from standard input: others on the "
        "machine can see arguments in the process list.",
    ),
]


@app.command("create")
def companies_create(
    name: Annotated[str, typer.Option("--name", metavar="N", help="The company's name.")],
    time_zone: TimeZone = None,
    import_window_days: WindowDays = None,
    superseding: Superseding = None,
    reserve_percent: Reserve = None,
    end_fuel_percent: EndFuel = None,
    assumed_fuel_percent: AssumedFuel = None,
    min_purchase_gallons: MinPurchase = None,
    stop_cost: StopCost = None,
    max_detour_miles: MaxDetour = None,
    max_stops: MaxStops = None,
    objective: ObjectiveOption = None,
    leftover_value_per_gallon: LeftoverValue = None,
    message_url: MessageUrl = None,
    as_json: AsJson = False,
) -> None:
    """Makes a company and prints its id."""
    policy = Policy(
        name=name,
        time_zone=time_zone,
        import_window_days=import_window_days,
        superseding=superseding,
        reserve_percent=reserve_percent,
        end_fuel_percent=end_fuel_percent,
        assumed_fuel_percent=assumed_fuel_percent,
        min_purchase_gallons=min_purchase_gallons,
        stop_cost=stop_cost,
        max_detour_miles=max_detour_miles,
        max_stops=max_stops,
        objective=objective,
        leftover_value_per_gallon=leftover_value_per_gallon,
        message_url=_message_url(message_url),
    )
    with transaction() as connection:
        company_id = companies.create_company(connection, policy, contacts=Contacts.of(get_settings()))
    show(as_json, {"id": company_id, "name": name}, lambda: screen.print(f"company {company_id}"))


@app.command("set")
def companies_set(
    company_id: Annotated[str, typer.Argument(metavar="ID", help="The company's id.")],
    name: Name = None,
    time_zone: TimeZone = None,
    import_window_days: WindowDays = None,
    superseding: Superseding = None,
    reserve_percent: Reserve = None,
    end_fuel_percent: EndFuel = None,
    assumed_fuel_percent: AssumedFuel = None,
    min_purchase_gallons: MinPurchase = None,
    stop_cost: StopCost = None,
    max_detour_miles: MaxDetour = None,
    max_stops: MaxStops = None,
    objective: ObjectiveOption = None,
    leftover_value_per_gallon: LeftoverValue = None,
    message_url: MessageUrl = None,
    as_json: AsJson = False,
) -> None:
    """Changes a company's policy. What is not given stays as it is."""
    policy = Policy(
        name=name,
        time_zone=time_zone,
        import_window_days=import_window_days,
        superseding=superseding,
        reserve_percent=reserve_percent,
        end_fuel_percent=end_fuel_percent,
        assumed_fuel_percent=assumed_fuel_percent,
        min_purchase_gallons=min_purchase_gallons,
        stop_cost=stop_cost,
        max_detour_miles=max_detour_miles,
        max_stops=max_stops,
        objective=objective,
        leftover_value_per_gallon=leftover_value_per_gallon,
        message_url=_message_url(message_url),
    )
    with transaction() as connection:
        row = companies.set_policy(connection, company_id, policy, contacts=Contacts.of(get_settings()))._asdict()
    row["message_url"] = messages.channel_of(row["message_url"]) + "://***" if row["message_url"] else None
    show(as_json, row, lambda: print_fields(row))


def _message_url(given: str | None) -> str | None:
    return read_secret(Path("-")) if given == "-" else given


@app.command("retire")
def companies_retire(
    company_id: Annotated[str, typer.Argument(metavar="ID", help="The company's id.")], as_json: AsJson = False
) -> None:
    """Closes a company: refuses its keys at once and ends its unfinished routes. Its history stays."""
    with transaction() as connection:
        companies.retire_company(connection, company_id, now=datetime.now(UTC))
    closed = 0
    while True:
        with transaction() as connection:
            portion = close_routes(connection, company_id)
        closed += portion
        if portion == 0:
            break
    show(
        as_json,
        {"id": company_id, "retired": True, "ended_routes": closed},
        lambda: screen.print(f"retired {company_id}; {counted(closed, 'route was', 'routes were')} ended"),
    )


@app.command("erase")
def companies_erase(
    company_id: Annotated[str, typer.Argument(metavar="ID", help="The company's id.")],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Deletes a company with everything that belongs to it, for good. Safe to run again."""
    with transaction() as connection:
        routes = erasure.count_routes(connection, company_id)
    confirm(yes, f"{company_id} and {counted(routes, 'route')} are removed for good")
    with counting("routes", routes, quiet=as_json) as progress:
        erasure.erase_company(transaction, company_id, now=datetime.now(UTC), progress=progress)
    show(as_json, {"id": company_id, "erased": True}, lambda: screen.print(f"erased {company_id}"))
