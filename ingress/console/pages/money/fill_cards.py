"""The page Cards: cards without a unit number, whose fills wait until a person says once who has the card."""

from datetime import date

from starlette.responses import Response

from domain.accounts.users import MAY_DISPATCH
from domain.audit.entries import Actor
from domain.database.connections import Tenant
from domain.fills.card_holders import (
    FROM_THE_BEGINNING,
    CardHolder,
    UnusableCard,
    list_assignments,
    waiting_cards,
)
from domain.fills.finding import UnclearTruck, find_truck
from domain.fills.matching_again import assign_card_and_match
from domain.fleet.records import UnknownTarget
from domain.ids import read_id
from domain.lifecycle import Environment
from ingress.console.addresses import action_at, in_report_threads, page_at
from ingress.console.signed_in import Page, see_other


def show(page: Page, *, fault: str = "", status: int = 200) -> Response:
    return page.render(
        "fill_cards.html",
        status=status,
        section="fills",
        waiting=[
            (environment, one)
            for environment in Environment
            for one in waiting_cards(page.connection, Tenant(page.company_id, environment))
        ],
        assigned=list_assignments(page.connection, page.company_id),
        from_the_beginning=FROM_THE_BEGINNING,
        may_assign=page.session.role in MAY_DISPATCH,
        form=page.form,
        fault=fault,
    )


def assign(page: Page, by: Actor) -> Response:
    """Store who has the card, and credit its waiting fills."""
    form = page.form
    holder, day = form.text("holder"), form.text("from")
    driver_id = read_id("drv", holder)
    truck = None
    if holder and driver_id is None:
        truck = find_truck(page.connection, page.company_id, holder, at=page.now, time_zone="UTC")
        if truck is None:
            raise UnusableCard(f"no truck has the unit number {holder[:40]!r}; of a driver give the id")
    try:
        first_day = date.fromisoformat(day) if day else None
    except ValueError:
        raise UnusableCard("choose the first day from the calendar") from None
    found = CardHolder(truck, driver_id, form.text("name") or None, first_day)
    far_miles = page.console.settings.fill_far_miles
    with page.connection.transaction():  # what fails in it leaves the page its connection
        assign_card_and_match(
            page.connection, page.company_id, form.text("card"), found, by, far_miles=far_miles, now=page.now
        )
    return see_other("/fills/cards")


ADDRESSES = [
    page_at("/fills/cards", show),
    action_at(
        "/fills/cards",
        assign,
        by=MAY_DISPATCH,
        run=in_report_threads,
        again=show,
        faults=dict.fromkeys((UnusableCard, UnclearTruck, UnknownTarget), 400),
    ),
]
