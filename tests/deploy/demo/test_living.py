"""The demo's history is made once, leaves the rows that real days leave, and is removed with one command."""

import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from rich.console import Console

from deploy.demo import HERE, removal, run_demo
from deploy.demo.fleet import LivingFleet
from deploy.demo.living import make_history
from deploy.demo.office import make_statements
from deploy.demo.removal import NoDemo, demo_company, remove_demo
from domain.accounts.companies import create_company
from domain.accounts.policy import Policy
from domain.accounts.users import create_user
from domain.database.connections import Connection, Database
from domain.driven_lanes.learning import waiting_roads
from domain.lifecycle import Environment, Role
from domain.routes.progress.tracking import process_vehicles
from domain.routes.reading.lookups import read_any_route
from domain.sandbox.demo_fleet import read_demo_fleet, set_fleet_speed
from domain.savings.statements import list_statements
from domain.settings import Settings
from domain.stations.stations import store_station_rows
from domain.stations.taxes import store_tax_rows
from tests.conftest import own_database
from tests.factories import DOT
from tests.rows import named

NOW = datetime(2027, 1, 1, 0, 30, tzinfo=UTC)
"""The first hour of a year and of a quarter."""


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with own_database("demo") as opened:
        yield opened


class Recorder:
    """Keeps what the fleet posts."""

    def __init__(self) -> None:
        self.fixes: list[Any] = []
        self.routes: list[Any] = []

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None: ...

    def positions(self, fixes: Any) -> None:
        self.fixes += fixes

    def route(self, body: Any) -> None:
        self.routes.append(body)


def test_a_database_that_others_use_gets_no_demo_and_says_why(tmp_path: Path) -> None:
    def said(database: Database) -> str:
        screen = io.StringIO()
        run_demo(Settings(data=tmp_path, database_url=database.url), Console(file=screen))
        return screen.getvalue()

    with own_database("demo-left-out") as database:
        with database.transaction() as connection:
            company_id = create_company(connection, Policy(name="Own Freight", time_zone="America/Chicago"))
        assert "1 company is in the database already, so the demo is left out" in said(database)
        with database.transaction() as connection:
            create_user(connection, DOT, email="demo@example.com", role=Role.OWNER, company_id=company_id)
        assert "the demo of another data folder is in this database" in said(database)
    assert not list(tmp_path.iterdir())


def assert_halts_fit(connection: Connection) -> None:
    """The times of past trips are in the order of the stops, and each purchase at a fuel stop lies within the halt
    there. Some fuel stops have no halt: their drivers fueled elsewhere."""
    ids = connection.execute("SELECT id FROM routes WHERE status = 'completed'").fetchall()
    routes = {}
    for (route_id,) in ids:
        found = read_any_route(connection, route_id)
        assert found is not None
        stops = routes[route_id] = found[1].stops
        times = [at for stop in stops for at in (stop.actual_arrival, stop.actual_departure) if at is not None]
        assert times == sorted(times)
        assert stops[0].actual_departure is not None
        assert stops[-1].actual_arrival is not None
    fuel_stops = {route_id: [one for one in stops if one.type == "fuel_stop"] for route_id, stops in routes.items()}
    halts = [one.actual_departure is not None for stops in fuel_stops.values() for one in stops]
    assert 0.8 < halts.count(True) / len(halts) < 1
    paid = connection.execute(
        "SELECT f.route_id, f.stop_number, f.bought_at FROM fills f JOIN stop_verdicts v ON v.route_id = f.route_id"
        " AND v.number = f.stop_number WHERE v.verdict IN ('followed', 'partly')"
    ).fetchall()
    assert len(paid) > 10
    for route_id, number, bought_at in paid:
        stop = fuel_stops[route_id][number - 1]
        assert stop.actual_arrival is not None
        assert stop.actual_departure is not None
        assert stop.actual_arrival < bought_at < stop.actual_departure


def test_the_demo_lives_and_is_removed(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(data=tmp_path, database_url=database.url)
    with database.transaction() as connection:
        company_id = create_company(connection, Policy(name="Prairie Demo Freight", time_zone="America/Chicago"))
        store_station_rows(connection, HERE / "stations.csv", now=NOW)
        store_tax_rows(connection, HERE / "taxes.csv", now=NOW)

    made = make_history(database, company_id, settings, now=NOW, span=timedelta(days=6))
    assert made is not None
    assert made.trips > 20
    assert make_history(database, company_id, settings, now=NOW) is None, "it is there already"

    with database.transaction() as connection:
        rows = named(connection)
        counted = dict(rows.execute("SELECT status, count(*) FROM routes GROUP BY 1").fetchall())
        assert counted == {"completed": made.trips, "active": 23, "pending_mapping": 1}
        told = "SELECT count(*) FROM messages WHERE status = 'sent' AND channel = 'outbox' AND created_at < now()"
        assert rows.execute("SELECT count(*) FROM messages WHERE channel <> 'outbox'").fetchone() == (0,)
        assert rows.execute(told.replace(" AND created_at < now()", "")).fetchone() == (made.trips + 23,)
        late = (
            "SELECT count(*) FROM messages m JOIN routes r ON r.id = m.route_id WHERE m.created_at > r.scheduled_start"
        )
        assert rows.execute(late).fetchone() == (0,), "each driver was told before the start"
        assert rows.execute("SELECT count(*) FROM trip_burns WHERE measured_at IS NULL").fetchone() == (0,)
        assert rows.execute("SELECT count(*) FROM learned_burns WHERE mpg > 4").fetchone() == (24,)
        assert read_demo_fleet(connection, company_id) is not None
        assert len(waiting_roads(connection, now=NOW, limit=1000)) > 10, "the first minute learns roads"
        make_statements(connection, company_id, settings, now=NOW + timedelta(days=5))
        (statement,) = list_statements(connection, company_id, limit=5)
        assert (statement.month, statement.made_at.date()) == (date(2026, 12, 1), date(2027, 1, 5))
        assert statement.sums.figures.plans > 10

    with database.transaction() as connection:
        assert_halts_fit(connection)
        trucks = [vehicle_id for (vehicle_id,) in connection.execute("SELECT vehicle_id FROM tracks").fetchall()]
        process_vehicles(connection, Environment.LIVE, trucks, settings=settings, now=NOW)
        left = "SELECT id FROM routes WHERE status = 'active' AND fuel_visits->0->>'departedAt' IS NOT NULL"
        halted = connection.execute(left).fetchall()
        assert len(halted) >= 5, "trucks on their way have been at pumps"

    fleet, recorder = LivingFleet(database, company_id, recorder := Recorder(), settings), recorder  # type: ignore[arg-type]
    for minute in range(3):
        fleet.take_turn(1, now=NOW + timedelta(minutes=minute))
    assert len(recorder.fixes) == 23, "one truck is silent"
    assert len([fix for fix in recorder.fixes if fix.speed_mph > 50]) >= 15
    with database.transaction() as connection:
        assert set_fleet_speed(connection, company_id, 60, DOT, now=NOW)
        found = read_demo_fleet(connection, company_id)
        assert found is not None
        assert (found.speed_at(NOW), found.speed_at(NOW + timedelta(hours=1))) == (60, 1)
        assert demo_company(connection, settings) == company_id
        rows = named(connection)
        assert rows.execute("SELECT count(*) FROM connectors WHERE paused_at IS NULL").fetchone() == (0,)
        assert rows.execute("SELECT count(*) FROM webhook_endpoints WHERE disabled_at IS NULL").fetchone() == (0,)
        assert rows.execute("SELECT count(*) FROM notice_subscriptions WHERE disabled_at IS NULL").fetchone() == (0,)
        for table in ("webhook_deliveries", "notices"):
            waiting = f"SELECT count(*) FROM {table} WHERE status = 'pending'"
            assert rows.execute(waiting).fetchone() == (0,), "nothing leaves the machine"
    fleet.tidy(now=NOW + timedelta(days=2))
    with database.transaction() as connection:
        priced = "SELECT count(*) FROM stations WHERE priced_at = %s"
        assert named(connection).execute(priced, (NOW + timedelta(days=2),)).fetchone() == (760,)

    monkeypatch.setattr(removal, "erase_company", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        remove_demo(database.transaction, company_id, settings, now=NOW)
    monkeypatch.undo()
    with database.transaction() as connection:
        in_service = "SELECT count(*) FROM stations WHERE retired_at IS NULL"
        assert named(connection).execute(in_service).fetchone() == (0,), "without the company nobody would go on"
        assert demo_company(connection, settings) == company_id
    remove_demo(database.transaction, company_id, settings, now=NOW)
    assert json.loads((tmp_path / "demo.json").read_text())["removed_at"] == "2027-01-01T00:30:00Z"
    with database.transaction() as connection:
        for table in (
            "companies",
            "routes",
            "vehicles",
            "fills",
            "positions",
            "demo_fleets",
            "trip_burns",
            "savings_statements",
        ):
            assert named(connection).execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table
        with pytest.raises(NoDemo):
            demo_company(connection, settings)
