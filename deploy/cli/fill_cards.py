"""Fuel cards that name no unit: whose they are."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer

from deploy.cli.arguments import AsJson, CompanyId, acting
from deploy.cli.failures import CommandFailed
from deploy.cli.output import print_table, screen, show, show_sentence
from deploy.cli.storing import transaction, transaction_about
from domain import clock
from domain.accounts.companies import require_company
from domain.database.connections import Connection, Tenant
from domain.fills.card_holders import FROM_THE_BEGINNING, CardHolder, list_assignments, waiting_cards
from domain.ids import read_id, shown_id
from domain.lifecycle import Environment
from domain.settings import get_settings
from domain.wording import counted

InEnvironment = Annotated[Environment, typer.Option("--environment", help="The environment that the fills belong to.")]


def fills_cards(company_id: CompanyId, environment: InEnvironment = Environment.LIVE, as_json: AsJson = False) -> None:
    """Lists the cards that name no unit: those whose fills wait for a truck, and those that are assigned."""
    with transaction_about(company_id) as connection:
        waiting = waiting_cards(connection, Tenant(company_id, environment))
        assigned = list_assignments(connection, company_id)
    document: dict[str, list[dict[str, Any]]] = {
        "waiting": [
            {
                "card": one.card_last_four,
                "driver_name": one.driver_name,
                "fills": one.fills,
                "first": f"{one.first_day:%Y-%m-%d}",
                "last": f"{one.last_day:%Y-%m-%d}",
            }
            for one in waiting
        ],
        "assigned": [
            {
                "card": one.card_last_four,
                "driver_name": one.driver_name or None,
                "from": None if one.first_day == FROM_THE_BEGINNING else one.first_day,
                "vehicle_id": shown_id("veh", one.vehicle_id) if one.vehicle_id else None,
                "driver_id": shown_id("drv", one.driver_id) if one.driver_id else None,
                "by": one.assigned_by,
            }
            for one in assigned
        ],
    }

    def text() -> None:
        for title, rows in document.items():
            screen.print(f"{title}:" if rows else f"{title}: none")
            if rows:
                print_table([{name: str(value or "") for name, value in row.items()} for row in rows], *rows[0])

    show(as_json, document, text)


def fills_assign(
    company_id: CompanyId,
    card: Annotated[str, typer.Argument(metavar="LAST_FOUR", help="The last four digits of the card.")],
    unit_number: Annotated[str | None, typer.Option("--unit", help="Its truck, by unit number or id.")] = None,
    driver_id: Annotated[str | None, typer.Option("--driver", help="Its driver's id.")] = None,
    nobody: Annotated[bool, typer.Option("--nobody", help="Nobody has it any more.")] = False,
    driver_name: Annotated[
        str | None,
        typer.Option("--name", help="The name that the files write beside it, if several cards end so; '' for any."),
    ] = None,
    first_day: Annotated[
        datetime | None,
        typer.Option("--from", formats=["%Y-%m-%d"], help="From this day on; without it, from the beginning."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Assigns a card that names no unit to a truck or a driver, once.

    Its fills that wait are credited at once, and those to come as they are imported. Fills of a driver's card go to the
    truck of the route that the driver was on at that time; without one they wait.
    """
    from domain.fills.matching_again import assign_card_and_match  # loads the roads

    if [unit_number is not None, driver_id is not None, nobody].count(True) != 1:
        raise CommandFailed("give one of --unit, --driver and --nobody")
    driver = read_id("drv", driver_id) if driver_id is not None else None
    if driver_id is not None and driver is None:
        raise CommandFailed(f"there is no driver {driver_id!r}: see `fuelroute drivers list`")
    now = clock.now()
    with transaction() as connection:
        require_company(connection, company_id)
        truck = _truck(connection, company_id, unit_number, now=now) if unit_number is not None else None
        holder = CardHolder(truck, driver, driver_name, first_day.date() if first_day is not None else None)
        far_miles = get_settings().fill_far_miles
        settled = assign_card_and_match(connection, company_id, card, holder, acting(), far_miles=far_miles, now=now)
    show_sentence(
        as_json,
        {"card": card, "settled": settled},
        f"assigned; {counted(settled, 'fill does', 'fills do')} not wait any more",
    )


def _truck(connection: Connection, company_id: UUID, unit_number: str, *, now: datetime) -> UUID:
    from domain.fills.finding import find_truck

    truck = find_truck(connection, company_id, unit_number, at=now, time_zone="UTC")
    if truck is None:
        raise CommandFailed(f"no truck has the unit number {unit_number!r}")
    return truck
