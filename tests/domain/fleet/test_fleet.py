"""A fleet that two people import at once, and vehicles, drivers and companies that are retired."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import psycopg
import pytest

from domain.accounts.companies import (
    RetiredCompany,
    create_company,
    lately_retired_companies,
    require_company,
    retire_company,
)
from domain.accounts.keys import PresentedKey, create_key, find_callers
from domain.accounts.policy import Policy
from domain.contract.shapes import DriverQuery, VehicleQuery
from domain.database.connections import Connection, Database
from domain.fleet.api_lists import list_drivers, list_vehicles
from domain.fleet.matching import Matched
from domain.fleet.records import UnknownTarget
from domain.ids import new_id, shown_id
from domain.lifecycle import Environment
from domain.messages.due_messages import due_messages, list_messages
from domain.queue.jobs import import_routes_job
from domain.routes.intake.fleet_changes import add_mapping, import_drivers, import_vehicles
from domain.routes.intake.holds import routes_that_can_move
from domain.routes.intake.imports import import_routes
from domain.routes.intake.retiring import Retirement, StillDriving, close_routes, match_again_lately_retired, retire
from domain.routes.progress.tracking import process_vehicles
from domain.routes.reading.lookups import read_routes
from domain.settings import Settings
from tests.conftest import own_database
from tests.domain.helpers import (
    imported,
    planned_by_hand,
    positions_at,
    post,
    pushed,
    route_row,
    status_of,
    visits_of,
)
from tests.factories import DOT, JOLIET, Fleet, make_fleet
from tests.jobs import jobs_of
from tests.rows import named

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with own_database("fleet") as opened:
        yield opened


@pytest.mark.parametrize(
    ("table", "load", "header"), [("vehicles", import_vehicles, "unit_number"), ("drivers", import_drivers, "name")]
)
def test_two_imports_at_once_wait_for_one_another(
    database: Database, tmp_path: Path, table: str, load: Callable[..., Any], header: str
) -> None:
    file = tmp_path / "fleet.csv"
    file.write_text("\n".join([header, *(f"unit {number}" for number in range(50))]))
    with database.transaction() as connection:
        company_id = create_company(connection, Policy(name="Acme"))
    both_are_here = Barrier(2, timeout=180)

    def one(_: int) -> tuple[int, int]:
        with database.transaction() as connection:
            connection.execute("SELECT")
            both_are_here.wait()
            report = load(connection, company_id, file)
            return report.created, report.unchanged

    with ThreadPoolExecutor(2) as threads:
        reports = sorted(threads.map(one, range(2)))

    assert reports == [(0, 50), (50, 0)]
    with database.transaction() as connection:
        (row,) = (
            named(connection)
            .execute(f"SELECT count(*) AS count FROM {table} WHERE company_id = %s", (company_id,))
            .fetchall()
        )
    assert row.count == 50


@pytest.mark.parametrize(("table", "column"), [("vehicles", "unit_number"), ("drivers", "external_id")])
def test_the_database_refuses_a_duplicate(connection: Connection, fleet: Fleet, table: str, column: str) -> None:
    columns = f"company_id, {column}"
    double = f"INSERT INTO {table} (id, {columns}) SELECT gen_random_uuid(), {columns} FROM {table}"
    with pytest.raises(psycopg.errors.UniqueViolation), connection.transaction():
        connection.execute(f"{double} WHERE company_id = %s", (fleet.company_id,))

    connection.execute(f"UPDATE {table} SET retired_at = now() WHERE company_id = %s", (fleet.company_id,))
    connection.execute(f"{double} WHERE company_id = %s", (fleet.company_id,))


# --- Retiring --------------------------------------------------------------------------------------------------


def retired(connection: Connection, fleet: Fleet, kind: Matched, *, now: datetime, force: bool = False) -> Retirement:
    record = {"vehicle": fleet.trucks, "driver": fleet.drivers}[kind][0]
    return retire(connection, fleet.company_id, kind, record, DOT, force=force, now=now)


def test_no_reference_leads_to_a_retired_vehicle(connection: Connection, fleet: Fleet, now: datetime) -> None:
    add_mapping(connection, fleet.company_id, "unit_number", "T-1", fleet.trucks[0], DOT)
    retired(connection, fleet, "vehicle", now=now)

    references = ({"unitNumber": "101"}, {"vin": "1XKAD49X0CJ000101"}, {"unitNumber": "T-1"})
    routes = [route_row(connection, imported(connection, fleet.live, now=now, vehicle=one)) for one in references]
    assert {(route.status, route.pending_reason) for route in routes} == {("pending_mapping", "vehicle_unmapped")}
    feed = post(connection, fleet.live, positions_at(JOLIET, now), now=now)
    assert (feed.accepted, len(feed.rejected)) == (0, 3)
    by_id = positions_at(JOLIET, now, unit_number=None, vehicle_id=fleet.shown_trucks[0])
    assert post(connection, fleet.live, by_id, now=now).accepted == 0
    listed = list_vehicles(connection, fleet.company_id, VehicleQuery())
    assert ([vehicle.id for vehicle in listed.data], listed.total) == ([fleet.shown_trucks[1]], 1)
    assert not {route.id for route in routes}.intersection(routes_that_can_move(connection, now=now))
    with pytest.raises(UnknownTarget):
        add_mapping(connection, fleet.company_id, "unit_number", "T-1", fleet.trucks[0], DOT)


def test_no_reference_leads_to_a_retired_driver(connection: Connection, fleet: Fleet, now: datetime) -> None:
    add_mapping(connection, fleet.company_id, "driver_name", "A. Lee", fleet.drivers[0], DOT)
    retired(connection, fleet, "driver", now=now)

    references = ({"name": "Ann Lee"}, {"externalId": "D-1"}, {"name": "A. Lee"})
    routes = [route_row(connection, imported(connection, fleet.live, now=now, driver=one)) for one in references]
    assert {(route.status, route.pending_reason) for route in routes} == {("pending_mapping", "driver_unmapped")}
    listed = list_drivers(connection, fleet.company_id, DriverQuery())
    assert ([driver.id for driver in listed.data], listed.total) == ([fleet.shown_drivers[1]], 1)
    assert not {route.id for route in routes}.intersection(routes_that_can_move(connection, now=now))


def test_routes_that_have_not_started_are_matched_again(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    draft = imported(connection, fleet.live, now=now)
    waiting = imported(connection, fleet.live, now=now, start=now + timedelta(days=9))
    other = imported(connection, fleet.live, now=now, vehicle={"unitNumber": "102"})
    post(connection, fleet.live, positions_at(JOLIET, now), now=now)
    process_vehicles(connection, Environment.LIVE, fleet.trucks, settings=settings, now=now)
    assert visits_of(connection, draft)

    jobs_of(connection)
    retirement = retire(connection, fleet.company_id, "vehicle", fleet.trucks[0], DOT, force=False, now=now)
    jobs = jobs_of(connection)

    assert retirement == Retirement(matched_again=2, ended=0)
    assert jobs == [import_routes_job([draft, waiting])]
    import_routes(connection, [draft, waiting], now=now)
    for route_id in (draft, waiting):
        route = route_row(connection, route_id)
        assert (route.status, route.vehicle_id) == ("pending_mapping", None)
    assert status_of(connection, other) == "draft"


def test_another_driver_of_the_same_name_gets_the_routes(connection: Connection, fleet: Fleet, now: datetime) -> None:
    draft = imported(connection, fleet.live, now=now)
    connection.execute(
        "INSERT INTO drivers (id, company_id, name) VALUES (%s, %s, 'Ann Lee')",
        (other := new_id(), fleet.company_id),
    )

    retired(connection, fleet, "driver", now=now)
    import_routes(connection, [draft], now=now)

    assert (status_of(connection, draft), route_row(connection, draft).driver_id) == ("draft", other)


@pytest.mark.parametrize("kind", ["vehicle", "driver"])
@pytest.mark.parametrize("status", ["planned", "active"])
def test_a_record_on_the_road_is_retired_only_by_force(
    connection: Connection, fleet: Fleet, now: datetime, kind: Matched, status: str
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    message_id = planned_by_hand(connection, route_id, now=now)
    connection.execute("UPDATE routes SET status = %s WHERE id = %s", (status, route_id))

    with pytest.raises(StillDriving, match=shown_id("rte", route_id)), connection.transaction():
        retired(connection, fleet, kind, now=now)
    assert status_of(connection, route_id) == status

    retirement = retired(connection, fleet, kind, now=now, force=True)

    assert retirement == (Retirement(1, 0) if status == "planned" else Retirement(0, 1))
    assert status_of(connection, route_id) == ("pending" if status == "planned" else "error")
    assert due_messages(connection, now=now + timedelta(hours=1)) == {}
    assert message_id


def test_a_route_of_the_sandbox_stops_no_driver_from_being_retired(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    route_id = imported(connection, fleet.sandbox, now=now)
    connection.execute("UPDATE routes SET status = 'active' WHERE id = %s", (route_id,))

    assert retired(connection, fleet, "vehicle", now=now) == Retirement(0, 1)


def test_history_goes_on_showing_retired_records(connection: Connection, fleet: Fleet, now: datetime) -> None:
    route_id = imported(connection, fleet.live, now=now)
    connection.execute("UPDATE routes SET status = 'completed' WHERE id = %s", (route_id,))

    retired(connection, fleet, "vehicle", now=now)
    retired(connection, fleet, "driver", now=now)

    ((read),) = read_routes([(fleet.live, route_id)]).on(connection)
    assert read is not None
    assert (read.route.vehicle.unit_number, read.route.driver.name) == ("101", "Ann Lee")
    assert (read.route.vehicle.id, read.route.driver.id) == (fleet.shown_trucks[0], fleet.shown_drivers[0])


def test_a_unit_number_of_a_retired_vehicle_is_imported_as_a_new_one(
    connection: Connection, fleet: Fleet, now: datetime, tmp_path: Path
) -> None:
    retired(connection, fleet, "vehicle", now=now)
    held = imported(connection, fleet.live, now=now)
    (tmp_path / "fleet.csv").write_text("unit_number\n101\n")

    report = import_vehicles(connection, fleet.company_id, tmp_path / "fleet.csv")
    jobs = jobs_of(connection)

    assert (report.created, jobs) == (1, [import_routes_job([held])])
    import_routes(connection, [held], now=now)
    assert route_row(connection, held).vehicle_id not in (None, *fleet.trucks)


def test_a_second_retirement_keeps_the_first_time_and_another_company_s_record_is_unknown(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    retired(connection, fleet, "vehicle", now=now)
    retired(connection, fleet, "vehicle", now=now + timedelta(days=1))

    row = named(connection).execute("SELECT retired_at FROM vehicles WHERE id = %s", (fleet.trucks[0],)).fetchone()
    assert row == (now,)
    for company_id, target in ((fleet.company_id, new_id()), (make_fleet(connection).company_id, fleet.trucks[1])):
        with pytest.raises(UnknownTarget):
            retire(connection, company_id, "vehicle", target, DOT, force=True, now=now)


@pytest.mark.parametrize("kind", ["vehicle", "driver"])
def test_an_import_in_flight_while_its_record_is_retired_is_made_again(
    database: Database, now: datetime, kind: Matched
) -> None:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        route_id = imported(connection, fleet.live, now=now)
        connection.execute("UPDATE routes SET status = 'pending' WHERE id = %s", (route_id,))

    with database.transaction() as importing:
        importing.execute("SELECT FROM routes WHERE id = %s FOR UPDATE", (route_id,))  # and matched, as it was
        with database.transaction() as retiring:
            record = {"vehicle": fleet.trucks, "driver": fleet.drivers}[kind][0]
            retiring.execute(f"UPDATE {kind}s SET retired_at = %s WHERE id = %s", (now, record))
        importing.execute("UPDATE routes SET status = 'draft' WHERE id = %s", (route_id,))

    with database.transaction() as connection:
        assert route_id in match_again_lately_retired(connection, now=now)
        assert match_again_lately_retired(connection, now=now) == []
        import_routes(connection, [route_id], now=now)
        assert status_of(connection, route_id) == "pending_mapping"


def test_a_retired_company_has_no_keys_and_no_routes_that_move(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    key = create_key(
        connection, fleet.company_id, DOT, name="k", environment=Environment.LIVE, scopes=["routes:read"]
    ).key
    draft, other = imported(connection, fleet.live, now=now), imported(connection, fleet.sandbox, now=now)
    active, planned = (imported(connection, fleet.live, now=now) for _ in range(2))
    planned_by_hand(connection, planned, now=now)
    connection.execute("UPDATE routes SET status = 'active' WHERE id = %s", (active,))
    stranger = imported(connection, make_fleet(connection).live, now=now)

    retire_company(connection, fleet.company_id, DOT, now=now)
    assert find_callers([PresentedKey.of(key)]).on(connection) == [None]
    late = pushed(connection, fleet.live, now=now, start=now)  # by a request in flight
    assert import_routes(connection, [late], now=now) == {}
    assert fleet.company_id in lately_retired_companies(connection, now=now)
    assert close_routes(connection, fleet.company_id, now=now) == 5
    assert close_routes(connection, fleet.company_id, now=now) == 0

    assert {status_of(connection, route_id) for route_id in (draft, other, planned, late)} == {"canceled"}
    assert status_of(connection, active) == "error"
    assert route_row(connection, draft).closed_reason == "The company was retired"
    (message,) = list_messages(connection, fleet.company_id)
    assert message.id not in due_messages(connection, now=now + timedelta(hours=1))
    assert status_of(connection, stranger) == "draft"


def test_nothing_is_added_to_a_retired_company(
    connection: Connection, fleet: Fleet, now: datetime, tmp_path: Path
) -> None:
    (tmp_path / "fleet.csv").write_text("unit_number\n201\n")
    retire_company(connection, fleet.company_id, DOT, now=now)

    for add in (
        lambda: import_vehicles(connection, fleet.company_id, tmp_path / "fleet.csv"),
        lambda: add_mapping(connection, fleet.company_id, "unit_number", "T", fleet.trucks[0], DOT),
        lambda: require_company(connection, fleet.company_id),
    ):
        with pytest.raises(RetiredCompany):
            add()
    require_company(connection, fleet.company_id, even_retired=True)
