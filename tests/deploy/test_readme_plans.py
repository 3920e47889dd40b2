"""The README of planning shows the plans that `explain` prints for the demo's routes."""

import io
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from deploy import demo
from deploy.drive import START_FUEL_PERCENT
from deploy.explain import print_explanation
from domain.accounts.companies import create_company
from domain.accounts.policy import Policy
from domain.database.connections import Connection, Tenant
from domain.lifecycle import Environment, Objective
from domain.planning import stored_plans
from domain.planning.plan_tasks import load_plan_task, road_ahead
from domain.roads.highways import HighwayRoads
from domain.routes.intake.fleet_changes import import_drivers, import_vehicles
from domain.routes.plans import first_plan
from domain.routes.progress.tracking import process_vehicles
from domain.routes.reading.explanations import read_route_explanation
from domain.settings import Settings
from domain.stations.corridor_offers import StationPlaces, offers_along
from domain.stations.deals import store_deal_rows
from domain.stations.stations import store_station_rows
from domain.stations.taxes import store_tax_rows
from domain.telematics.feed import store_positions
from tests.domain.helpers import imported, positions_at
from tests.rows import named

README = Path(__file__).parents[2] / "domain" / "planning" / "README.md"
NOW = datetime(2026, 11, 23, 14, tzinfo=UTC)

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


@pytest.mark.parametrize(
    ("title", "unit_number", "stops", "policy"),
    [
        ("Memphis to Albuquerque", "4106", (demo.MEMPHIS, demo.AMARILLO, demo.ALBUQUERQUE), Policy()),
        ("Dallas to Kansas City", "4105", (demo.DALLAS, demo.WICHITA, demo.KANSAS_CITY), Policy()),
        (
            "Joliet to Newark, tax-adjusted",
            "4103",
            (demo.JOLIET, demo.PERRYSBURG, demo.NEWARK),
            Policy(objective=Objective.TAX_ADJUSTED),
        ),
    ],
)
def test_the_readme_shows_each_plan_of_the_demo_as_explain_prints_it(
    connection: Connection,
    settings: Settings,
    title: str,
    unit_number: str,
    stops: tuple[dict[str, object], ...],
    policy: Policy,
) -> None:
    connection.execute("DELETE FROM stations")
    connection.execute("DELETE FROM fuel_taxes")
    company_id = create_company(connection, Policy(name="Demo", objective=policy.objective))
    import_vehicles(connection, company_id, demo.HERE / "vehicles.csv")
    import_drivers(connection, company_id, demo.HERE / "drivers.csv")
    store_station_rows(connection, demo.HERE / "stations.csv", now=NOW)
    store_tax_rows(connection, demo.HERE / "taxes.csv", now=NOW)
    store_deal_rows(connection, company_id, demo.HERE / "deals.csv", now=NOW)
    tenant = Tenant(company_id, Environment.LIVE)
    route_id = imported(
        connection,
        tenant,
        now=NOW,
        start=NOW + timedelta(hours=1),
        vehicle={"unitNumber": unit_number},
        driver={"name": "Maria Villanueva"},
        stops=list(stops),
    )
    fixes = positions_at(dict(stops[0]), NOW, unit_number=unit_number, fuel_percent=START_FUEL_PERCENT)
    store_positions(connection, tenant, list(enumerate(fixes)), now=NOW)
    truck = named(connection).execute("SELECT vehicle_id FROM routes WHERE id = %s", (route_id,)).fetchone()
    assert truck is not None
    process_vehicles(connection, tenant.environment, [truck.vehicle_id], settings=settings, now=NOW)
    task = load_plan_task(connection, route_id, now=NOW + timedelta(minutes=1))
    assert task is not None
    road = road_ahead(task, HighwayRoads())
    corridor = offers_along(connection, company_id, road, 5.0, StationPlaces(), now=NOW)
    first_plan.finish_plan(
        connection, task, corridor, stored_plans.plan_for_task(task, road, corridor, now=NOW), now=NOW
    )
    explanation = read_route_explanation(connection, route_id)
    assert explanation is not None

    screen = Console(file=io.StringIO(), width=160)
    print_explanation(explanation, screen)
    printed = [line.rstrip() for line in screen.file.getvalue().splitlines()]  # type: ignore[attr-defined]

    shown = re.search(rf"<summary>{re.escape(title)}.*?</summary>\n\n(.*?)\n\n</details>", README.read_text(), re.S)
    assert shown is not None
    assert [line.removeprefix("    ").rstrip() for line in shown[1].splitlines()] == printed, "\n".join(printed)
