"""Companies: their import and planning policy, and their end."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from deploy.cli.arguments import AsJson, CompanyArgument, Yes, confirm, read_secret, with_options
from deploy.cli.output import counting, print_fields, screen, show
from deploy.cli.storing import transaction
from domain.accounts import companies
from domain.accounts.companies import Policy
from domain.accounts.contacts import Contacts
from domain.housekeeping import erasure
from domain.ids import shown_id, with_shown_ids
from domain.lifecycle import MapLink, Objective
from domain.messages import message_life
from domain.routes.intake.retiring import close_routes
from domain.settings import get_settings
from domain.wording import counted

app = typer.Typer(
    no_args_is_help=True, help="Companies that dispatch with Fuelroute, and their import and planning policy."
)

Name = Annotated[str | None, typer.Option("--name", metavar="N", help="The company's name.")]
TimeZone = Annotated[
    str | None,
    typer.Option(
        "--time-zone",
        metavar="Z",
        help="Of the times in messages, and when a day begins for deals and taxes, such as America/Chicago; UTC unless "
        "set.",
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
FuelMargin = Annotated[
    float | None,
    typer.Option(
        "--fuel-margin-percent",
        metavar="P",
        help="Kept beyond the reserve until the first purchase, in case the gauge shows too much; 0 unless set.",
    ),
]
MapLinkOption = Annotated[
    MapLink | None,
    typer.Option(
        "--map-link", help="In messages: a link that any phone opens (unless set), or one to the phone's own map."
    ),
]
ReplanEnRoute = Annotated[
    bool | None,
    typer.Option(
        "--replan-en-route/--no-replan-en-route",
        help="A truck that leaves its plan's road, or passes a fuel stop without fueling, gets a new plan; off unless "
        "set.",
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


_OPTIONS: dict[str, Any] = {
    "time_zone": TimeZone,
    "import_window_days": WindowDays,
    "superseding": Superseding,
    "reserve_percent": Reserve,
    "end_fuel_percent": EndFuel,
    "assumed_fuel_percent": AssumedFuel,
    "min_purchase_gallons": MinPurchase,
    "stop_cost": StopCost,
    "max_detour_miles": MaxDetour,
    "max_stops": MaxStops,
    "objective": ObjectiveOption,
    "leftover_value_per_gallon": LeftoverValue,
    "fuel_margin_percent": FuelMargin,
    "map_link": MapLinkOption,
    "replan_en_route": ReplanEnRoute,
    "message_url": MessageUrl,
}
"""The options that set a policy, by the fields of `Policy`. The name is an option of each command's own."""


def _policy(message_url: str | None, **fields: Any) -> Policy:
    return Policy(message_url=read_secret(Path("-")) if message_url == "-" else message_url, **fields)


_with_policy = with_options("policy", _OPTIONS, _policy)


@app.command("create")
@_with_policy
def companies_create(
    policy: Policy,
    name: Annotated[str, typer.Option("--name", metavar="N", help="The company's name.")],
    as_json: AsJson = False,
) -> None:
    """Makes a company and prints its id."""
    with transaction() as connection:
        company_id = companies.create_company(
            connection, msgspec.structs.replace(policy, name=name), contacts=Contacts.of(get_settings())
        )
    shown = shown_id("cmp", company_id)
    show(as_json, {"id": shown, "name": name}, lambda: screen.print(f"company {shown}"))


@app.command("set")
@_with_policy
def companies_set(policy: Policy, company_id: CompanyArgument, name: Name = None, as_json: AsJson = False) -> None:
    """Changes a company's policy. What is not given stays as it is."""
    with transaction() as connection:
        company = companies.set_policy(
            connection, company_id, msgspec.structs.replace(policy, name=name), contacts=Contacts.of(get_settings())
        )
    document = with_shown_ids(company._asdict(), id="cmp")
    url = company.message_url
    document["message_url"] = f"{message_life.channel_of(url)}://***" if url else None
    show(as_json, document, lambda: print_fields(document))


@app.command("retire")
def companies_retire(company_id: CompanyArgument, as_json: AsJson = False) -> None:
    """Closes a company: refuses its keys at once and ends its unfinished routes. Its history stays."""
    with transaction() as connection:
        companies.retire_company(connection, company_id, now=datetime.now(UTC))
    closed = 0
    while True:
        with transaction() as connection:
            portion = close_routes(connection, company_id, now=datetime.now(UTC))
        closed += portion
        if portion == 0:
            break
    shown = shown_id("cmp", company_id)
    show(
        as_json,
        {"id": shown, "retired": True, "ended_routes": closed},
        lambda: screen.print(f"retired {shown}; {counted(closed, 'route was', 'routes were')} ended"),
    )


@app.command("erase")
def companies_erase(
    company_id: CompanyArgument,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Deletes a company with everything that belongs to it, for good. Safe to run again."""
    with transaction() as connection:
        routes = erasure.count_routes(connection, company_id)
    shown = shown_id("cmp", company_id)
    confirm(yes, f"{shown} and {counted(routes, 'route')} are removed for good")
    with counting("routes", routes, quiet=as_json) as progress:
        erasure.erase_company(transaction, company_id, now=datetime.now(UTC), progress=progress)
    show(as_json, {"id": shown, "erased": True}, lambda: screen.print(f"erased {shown}"))
