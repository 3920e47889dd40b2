"""The office of the demo's company, which fills the pages that its trips leave empty: connector, webhook, notices,
users, mappings, prices, a closed station, statements of savings. What would send something is paused or disabled in the
transaction that makes it."""

import csv
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from deploy.demo.past import FleetTruck
from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.companies import read_company
from domain.accounts.contacts import Contacts
from domain.accounts.users import create_user
from domain.audit.entries import Actor
from domain.connectors.connectors import ConnectorValues, add_connector, pause_connector
from domain.connectors.vendor import VendorVehicle
from domain.connectors.vendor_vehicles import match_vehicles
from domain.database.connections import Connection, Tenant
from domain.ids import shown_id
from domain.lifecycle import Role
from domain.notices.subscriptions import SubscriptionValues, add_subscription, disable_subscription
from domain.operations.import_kinds import PricesFile
from domain.operations.import_runs import ImportRun
from domain.routes.intake.fleet_changes import add_mapping
from domain.savings.habit_costs import drive_waiting, waiting_trips
from domain.savings.spans import month_of
from domain.savings.statements import ON_ITS_DAY, NoStatement, make_statement, month_before, newest_due_month
from domain.savings.usual_fueling import UsualFuelings
from domain.settings import Settings
from domain.stations.closures import mark_closed
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_polling import price_profile_of
from domain.webhooks.delivery_log import send_test
from domain.webhooks.endpoints import EndpointChanges, add_endpoint, disable_endpoint

CLOSED_STATION = "HL-PA-0310"
"""A truck stop that is closed until tomorrow."""
_CHAIN = "Prairie Star"
"""The chain that has sent a price file."""
_WORD_IN_TMS = "PRAIRIE"


def make_office(
    connection: Connection,
    tenant: Tenant,
    fleet: Sequence[FleetTruck],
    stations: Path,
    settings: Settings,
    by: Actor,
    *,
    now: datetime,
) -> None:
    contacts, company_id = Contacts.of(settings), tenant.company_id
    for name, role in (("dispatch", Role.DISPATCHER), ("books", Role.VIEWER)):
        unique = shown_id("cmp", company_id)[-6:]  # an address is one person's in the whole service
        create_user(connection, by, email=f"{name}-{unique}@example.com", role=role, company_id=company_id)
    for truck in fleet[:3]:
        value = f"{_WORD_IN_TMS} {truck.unit_number}"
        add_mapping(connection, company_id, "unit_number", value, truck.vehicle_id, by)
    _make_connector(connection, tenant, fleet, contacts, by, now=now)
    changes = EndpointChanges(url="https://tms.example.com/fuelroute", description="The TMS; disabled in the demo")
    endpoint = add_endpoint(connection, tenant, changes, by, allowed=AllowedHosts(), contacts=contacts).endpoint
    send_test(connection, company_id, endpoint.id, by, now=now)
    disable_endpoint(connection, company_id, endpoint.id, by, now=now)
    _make_subscription(connection, tenant, settings, by, now=now)
    reason = by.with_reason("The pumps are being replaced")
    mark_closed(connection, CLOSED_STATION, company_id, now + timedelta(days=1), reason, now=now)
    _import_prices(connection, tenant, stations, settings, by, now=now)


def make_statements(connection: Connection, company_id: UUID, settings: Settings, *, now: datetime) -> None:
    """The statements of the last two months that have plans, each as of its day, once all trips are compared with
    habits."""
    fuelings = UsualFuelings()
    while trips := waiting_trips(connection, limit=100):
        for trip in trips:
            drive_waiting(connection, trip, fuelings, now=now)
    company, contacts = read_company(connection, company_id), Contacts.of(settings)
    newest = newest_due_month(now, company.time_zone, company.statement_day)
    for month in (month_before(newest), newest):
        day = month_of(month, company.time_zone).end + timedelta(days=company.statement_day - 1, hours=9)
        with suppress(NoStatement):
            make_statement(connection, company_id, month, ON_ITS_DAY, contacts=contacts, now=day)


def _make_connector(
    connection: Connection, tenant: Tenant, fleet: Sequence[FleetTruck], contacts: Contacts, by: Actor, *, now: datetime
) -> None:
    """A connector that asks nobody, with the trucks as a vendor would name them, and one that nobody knows."""
    values = ConnectorValues("samsara", {"token": "a-token-of-the-demo"}, url="https://api.samsara.com")
    made = add_connector(connection, tenant, values, by, allowed=AllowedHosts(), contacts=contacts)
    pause_connector(connection, tenant.company_id, made.id, by, now=now)
    named = [VendorVehicle(str(281474977075800 + number), truck.unit_number) for number, truck in enumerate(fleet)]
    stranger = VendorVehicle("281474977079999", f"Freightliner {fleet[3].unit_number}")
    match_vehicles(connection, tenant.company_id, made.id, [*named[:3], *named[4:], stranger], now=now)


def _make_subscription(connection: Connection, tenant: Tenant, settings: Settings, by: Actor, *, now: datetime) -> None:
    values = SubscriptionValues(
        name="Night desk",
        kinds=("vehicle_unmapped", "error", "late", "gets_low"),
        url="mailtos://demo:demo@example.com?to=nightdesk@example.com",
        after_minutes=5,
        quiet_from=22 * 60,
        quiet_until=6 * 60,
        time_zone="America/Chicago",
    )
    made = add_subscription(
        connection, tenant.company_id, None, values, by, allowed=AllowedHosts(), contacts=Contacts.of(settings)
    )
    disable_subscription(connection, tenant.company_id, made.id, by, now=now)


def _import_prices(
    connection: Connection, tenant: Tenant, stations: Path, settings: Settings, by: Actor, *, now: datetime
) -> None:
    """The file that a chain sends its customer every morning: the company's own prices there."""
    with stations.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["brand"] == _CHAIN]
    prices = [(row["station_id"], f"{float(row['retail_price']) - 0.21:.3f}", now.date().isoformat()) for row in rows]
    with tempfile.TemporaryDirectory(prefix="fuelroute-demo-") as folder:
        path = Path(folder, f"prairie-star-{now:%Y-%m-%d}.csv")
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("station_id", "net_price", "effective_date"), *prices])
        sent = PricesFile(
            path=path,
            company_id=tenant.company_id,
            profile=price_profile_of(connection, tenant.company_id, "auto", path),
            takes_retail=False,
            limits=OutlierLimits.of(settings),
            file_name=path.name,
            sender=by.name,
        )
        ImportRun(sent, lambda: nullcontext(connection), by.name, time=lambda: now).store()
