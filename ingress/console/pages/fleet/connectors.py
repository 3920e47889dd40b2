"""The pages Connectors: vendors of telematics, the state of each connector, and the vehicles that they name."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from starlette.responses import Response

from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.name_lookups import looking_up_for
from domain.accounts.users import MAY_MANAGE_CONNECTORS, MAY_MATCH
from domain.audit.entries import Actor
from domain.connectors import connectors, vendor_vehicles
from domain.connectors.connectors import CONNECTORS, Connector, ConnectorValues, UnusableConnector, state_of
from domain.connectors.kinds import VENDORS
from domain.connectors.vendor import Vendor, VendorFault
from domain.connectors.vendor_question import ask_vendor
from domain.connectors.vendor_vehicles import ConnectorVehicle
from domain.database.connections import Tenant
from domain.fleet.api_lists import FleetRecord, list_records
from domain.fleet.likeness import Likeness, Suggestion
from domain.fleet.records import UnknownTarget
from domain.ids import read_id, shown_id
from domain.lifecycle import Environment
from domain.telemetry.logs import get_logger
from domain.wording import sentence
from ingress.console.addresses import Faults, action_at, page_at
from ingress.console.refusals import FormFault, Refused
from ingress.console.signed_in import Page, named_in_address, see_other

log = get_logger(__name__)

_ROWS = 100
_SUGGESTIONS = 5
_TEST_SECONDS = 5.0
"""Time for a test. The transaction of the page waits meanwhile."""

_DONE = {
    "added": "The connector is added. It works at once; load this page again to see its first positions.",
    "changed": "The connector has the new credentials.",
    "paused": "The connector is paused: nothing is asked or taken.",
    "resumed": "The connector goes on where it was paused.",
    "removed": "The connector is removed.",
    "linked": "The vehicle is linked: its positions come in from now on.",
}


def show(page: Page, *, fault: str = "", status: int = 200) -> Response:
    found = CONNECTORS.all(page.connection, page.company_id)
    return page.render(
        "connectors.html",
        status=status,
        section="connectors",
        connectors=[(one, state_of(one, now=page.now)) for one in found],
        counts=vendor_vehicles.count_connector_vehicles(page.connection, page.company_id, now=page.now),
        vendors=VENDORS.values(),
        may_manage=page.session.role in MAY_MANAGE_CONNECTORS,
        environments=list(Environment),
        form=page.form,
        done=_DONE.get(page.form.text("done"), ""),
        fault=fault,
    )


def add(page: Page, by: Actor) -> Response:
    environment = page.form.choice("environment", Environment)
    if environment is None:
        raise FormFault("choose an environment")
    kind = page.form.text("kind")
    if kind not in VENDORS:
        raise FormFault("choose a vendor")
    values = ConnectorValues(
        kind, _credentials(page, VENDORS[kind]), page.form.text("name"), page.form.text("url", most=4_000)
    )
    made = connectors.add_connector(
        page.connection,
        Tenant(page.company_id, environment),
        values,
        by,
        allowed=AllowedHosts.of_connectors(page.console.settings),
        contacts=page.console.contacts,
    )
    return _done(page, made, "added")


def _credentials(page: Page, vendor: type[Vendor]) -> dict[str, str]:
    return {field.name: page.form.text(f"field_{field.name}", most=20_000) for field in vendor.fields}


class _Unmatched(NamedTuple):
    vehicle: ConnectorVehicle
    suggestions: Sequence[Suggestion]


def show_one(page: Page, *, fault: str = "", status: int = 200) -> Response:
    return _connector_page(page, _connector(page), fault=fault, status=status)


def _connector_page(
    page: Page, connector: Connector, *, fault: str = "", answer: str = "", status: int = 200
) -> Response:
    unmatched = _list(page, connector, "unmatched")
    counts = vendor_vehicles.count_connector_vehicles(page.connection, page.company_id, now=page.now)
    newest = connector.newest_at
    return page.render(
        "connector.html",
        status=status,
        section="connectors",
        connector=connector,
        vendor=VENDORS.get(connector.kind),
        state=state_of(connector, now=page.now),
        lag_minutes=None if newest is None else max(0, round((page.now - newest).total_seconds() / 60)),
        counts=counts.get(connector.id),
        unmatched=_with_suggestions(page, unmatched),
        silent=_list(page, connector, "silent"),
        doubtful=_list(page, connector, "doubtful"),
        links=[one for one in _list(page, connector, "all") if one.matched_by == "person"],
        may_manage=page.session.role in MAY_MANAGE_CONNECTORS,
        may_link=page.session.role in MAY_MATCH,
        api_address=page.console.settings.api_address(),
        done=_DONE.get(page.form.text("done"), ""),
        fault=fault,
        answer=answer,
    )


def _list(page: Page, connector: Connector, only: str) -> list[ConnectorVehicle]:
    return vendor_vehicles.list_connector_vehicles(
        page.connection, page.company_id, connector.id, only=only, now=page.now, limit=_ROWS
    )


def _with_suggestions(page: Page, vehicles: Sequence[ConnectorVehicle]) -> list[_Unmatched]:
    """The unmatched vehicles, each with our vehicles whose unit numbers resemble its name."""
    if not vehicles:
        return []
    records: list[FleetRecord] = list_records(page.connection, page.company_id, "vehicle")
    likeness = Likeness(records, "unit_number")
    return [_Unmatched(one, likeness.rank(one.name or "", limit=_SUGGESTIONS)) for one in vehicles]


def test(page: Page, by: Actor) -> Response:
    """Asks the vendor now, and shows its answer. Nothing is locked meanwhile."""
    connector_id = CONNECTORS.read_id(page.request.path_params["id"])
    connector = CONNECTORS.find(page.connection, page.company_id, connector_id)
    access = connectors.read_access(page.connection, page.company_id, connector.id, contacts=page.console.contacts)
    allowed = AllowedHosts.of_connectors(page.console.settings)
    try:
        with looking_up_for(page.company_id):
            answer = asyncio.run(ask_vendor(connector.kind, access, allowed, seconds=_TEST_SECONDS))
    except VendorFault as fault:
        words = f"{sentence(str(fault))} {sentence(fault.what_to_do)}"
        connectors.record_test(page.connection, connector, by, fault=fault)
        return _connector_page(page, connector, fault=words)
    connectors.record_test(page.connection, connector, by, fault=None)
    return _connector_page(page, connector, answer=sentence(answer))


def change(page: Page, by: Actor) -> Response:
    connector = _connector(page)
    vendor = connectors.vendor_of(connector.kind)
    connectors.change_access(
        page.connection,
        page.company_id,
        connector.id,
        by,
        credentials=_credentials(page, vendor),
        url=page.form.text("url", most=4_000),
        allowed=AllowedHosts.of_connectors(page.console.settings),
        contacts=page.console.contacts,
    )
    return _done(page, connector, "changed")


def pause(page: Page, by: Actor) -> Response:
    connector = _connector(page)
    connectors.pause_connector(page.connection, page.company_id, connector.id, by, now=page.now)
    return _done(page, connector, "paused")


def resume(page: Page, by: Actor) -> Response:
    connector = _connector(page)
    connectors.resume_connector(page.connection, page.company_id, connector.id, by)
    return _done(page, connector, "resumed")


def remove(page: Page, by: Actor) -> Response:
    connectors.remove_connector(page.connection, page.company_id, _connector(page).id, by)
    return see_other("/connectors?done=removed")


def link(page: Page, by: Actor) -> Response:
    """Links a vendor's vehicle to one of ours, named by a suggestion or by its unit number. Raises Refused if there is
    no such vehicle."""
    connector = _connector(page)
    key, chosen, unit_number = (page.form.text(name) for name in ("vehicle_key", "vehicle", "unit_number"))
    vehicle_id = read_id("veh", chosen)
    if unit_number:
        records = list_records(page.connection, page.company_id, "vehicle")
        vehicle_id = next((one.id for one in records if one.stored("unit_number") == unit_number), None)
    if vehicle_id is None and chosen != "none":
        raise FormFault("choose a vehicle, or give the unit number of one in service")
    try:
        vendor_vehicles.link_vehicle(page.connection, page.company_id, connector.id, key, vehicle_id, by, now=page.now)
    except (UnknownTarget, UnusableConnector):
        raise Refused(404, "There is no such vehicle", "Go back and load the page again.") from None
    return _done(page, connector, "linked")


def _connector(page: Page) -> Connector:
    return named_in_address(page, CONNECTORS)


def _done(page: Page, connector: Connector, done: str) -> Response:
    log.info(f"console.connector_{done}", connector_id=connector.id, company_id=page.company_id)
    return see_other(f"/connectors/{shown_id('con', connector.id)}?done={done}")


_FAULTS: Faults = {UnusableConnector: 400}
ADDRESSES = [
    page_at("/connectors", show),
    action_at("/connectors", add, by=MAY_MANAGE_CONNECTORS, again=show, faults=_FAULTS),
    page_at("/connectors/{id}", show_one),
    action_at("/connectors/{id}/link", link, by=MAY_MATCH, again=show_one),
    action_at("/connectors/{id}/change", change, by=MAY_MANAGE_CONNECTORS, again=show_one, faults=_FAULTS),
    *(
        action_at(f"/connectors/{{id}}/{name}", handler, by=MAY_MANAGE_CONNECTORS)
        for name, handler in (
            ("test", test),
            ("pause", pause),
            ("resume", resume),
            ("remove", remove),
        )
    ),
]
