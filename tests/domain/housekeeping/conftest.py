"""A company whose erasure is tested."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from domain.accounts.companies import create_company
from domain.accounts.policy import Policy
from domain.accounts.sessions import begin_session
from domain.accounts.users import create_user
from domain.database.connections import Database
from domain.housekeeping.erasure import erase_company
from domain.lifecycle import Role
from domain.routes.intake.fleet_changes import add_mapping, import_drivers, import_vehicles
from domain.stations.deals import store_deal_rows
from tests.domain.housekeeping.traces import ids_of
from tests.factories import DOT, Fleet


@pytest.fixture
def company(database: Database, tmp_path: Path, now: datetime) -> Iterator[Fleet]:
    """A company of its own with a truck and two drivers, one of them Zoë; what a test leaves is erased."""
    vehicles, drivers, deals = (tmp_path / f"{name}.csv" for name in ("vehicles", "drivers", "deals"))
    vehicles.write_text("unit_number\nQH-UNIT-7\n")
    drivers.write_text(
        "name,display_name,external_id,contact\n"
        "Zoë Quartermain,Zoë Q.,EMP-4711,mailto://a:b@example.org?to=zoe@example.org\nCy Oh,,,\n"
    )
    deals.write_text("brand,net_price\nPilot,3.1\n")
    with database.transaction() as connection:
        policy = Policy(name="Quartermain Haulage", message_url="mailto://a:dispatch-secret@example.org")
        company_id = create_company(connection, policy)
        import_vehicles(connection, company_id, vehicles)
        import_drivers(connection, company_id, drivers)
        store_deal_rows(connection, company_id, deals, now=now)
        trucks, people = (ids_of(connection, table, company_id) for table in ("vehicles", "drivers"))
        add_mapping(connection, company_id, "driver_name", "Q. ZOE", people[0], DOT)
        boss = create_user(connection, DOT, email="qh-boss@example.com", role=Role.OWNER, company_id=company_id)
        begin_session(connection, boss, address="192.0.2.1", now=now)
    yield Fleet(company_id, (trucks[0], trucks[0]), (people[0], people[1]))
    erase_company(database.transaction, company_id, now=now)
