"""Plans of stored routes: what goes into one, what becomes of it, and whose prices it sees."""

import functools
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from domain.database import Connection, Tenant
from domain.jobs import send_message
from domain.lifecycle import RouteStatus
from domain.planning import plans
from domain.planning.plan import FuelPlan, NoPlan, Offer
from domain.planning.plans import Task, load_task
from domain.roads import Point
from domain.roads.highways import HighwayRoads
from domain.roads.sphere import densified, miles_of_chords, unit_vectors
from domain.settings import Settings
from domain.stations.candidates import Corridor, Network, offers_along
from domain.stations.stations import UnknownStation, import_deals, import_stations, import_taxes, retire_stations
from domain.telematics.feed import store_positions
from domain.telematics.tracking import process_vehicles
from tests.domain.helpers import imported, planned_by_hand, positions_at, pushed, route_row, status_of
from tests.factories import JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet

STATIONS = Path(__file__).parents[3] / "deploy" / "demo" / "stations.csv"
STOPS = [JOLIET, PERRYSBURG, NEWARK]


@pytest.fixture(autouse=True)
def _no_stations(connection: Connection) -> None:
    """Stations belong to no company: what other tests have stored must not be seen in this one's transaction."""
    connection.execute("DELETE FROM stations")


@pytest.fixture
def prices(connection: Connection, _no_stations: None, now: datetime) -> None:
    import_stations(connection, STATIONS, now=now)


def arrived(
    connection: Connection,
    fleet: Fleet,
    settings: Settings,
    now: datetime,
    *,
    tenant: Tenant | None = None,
    stops: Sequence[dict[str, Any]] = STOPS,
    **fix: Any,
) -> str:
    """A route whose truck has just arrived at the first stop."""
    tenant = tenant or fleet.live
    route_id = imported(connection, tenant, now=now, stops=list(stops))
    fixes = list(enumerate(positions_at(stops[0], now, **fix)))
    store_positions(connection, tenant, fixes, now=now + timedelta(minutes=1))
    process_vehicles(connection, tenant.environment, fleet.trucks, settings=settings, now=now + timedelta(minutes=1))
    return route_id


def build(connection: Connection, task: Task, *, now: datetime) -> tuple[Corridor, FuelPlan | NoPlan]:
    road = plans.road_ahead(task, HighwayRoads())
    limit = task.route.max_detour_miles
    corridor = offers_along(connection, task.route.company_id, road, limit, Network(), now=now)
    return corridor, plans.compute(task, road, corridor, now=now)


def task_of(connection: Connection, route_id: str, now: datetime) -> Task:
    task = load_task(connection, route_id, now=now)
    assert task is not None
    return task


@pytest.mark.usefixtures("prices")
def test_a_retired_station_is_offered_to_no_plan_until_an_import_names_it_again(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    task = task_of(connection, arrived(connection, fleet, settings, now), now)
    road = plans.road_ahead(task, HighwayRoads())
    network = Network()

    def offered() -> set[str]:
        corridor = offers_along(connection, fleet.company_id, road, 5.0, network, now=now)
        return {offer.station.station_id for offer in corridor.offers}

    before = offered()
    gone = min(before)
    retire_stations(connection, [gone], now=now)
    assert offered() == before - {gone}

    report = import_stations(connection, STATIONS, now=now)
    assert (report.created, report.updated) == (0, 1)
    assert offered() == before


def test_an_unknown_station_cannot_be_retired(connection: Connection, now: datetime) -> None:
    with pytest.raises(UnknownStation, match="nowhere"):
        retire_stations(connection, ["nowhere"], now=now)


@pytest.mark.usefixtures("prices")
def test_a_plan_moves_the_route_on_and_queues_its_message(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = arrived(connection, fleet, settings, now, fuel_percent=40)
    task = task_of(connection, route_id, now + timedelta(minutes=1))

    outcome, jobs = plans.store(connection, task, *build(connection, task, now=now), now=now)

    assert outcome == "planned"
    row = route_row(connection, route_id)
    assert (row.status, row.retry_at) == ("planned", None)
    message = connection.execute("SELECT * FROM messages WHERE route_id = %s", (route_id,)).fetchone()
    assert message is not None
    assert jobs == [send_message(message.id)]
    explanation = plans.read_explanation(connection, route_id)
    assert explanation is not None
    assert explanation["inputs"]["start_gallons"] == 80.0
    assert explanation["inputs"]["roads"] == "highway-graph"


@pytest.mark.parametrize(
    ("fuel", "gallons"), [({"fuel_percent": 62.5}, 125.0), ({}, 100.0), ({"fuel_percent": 140}, 190.0)]
)
def test_start_fuel_is_the_newest_reading_else_what_the_policy_assumes(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, fuel: dict[str, Any], gallons: float
) -> None:
    route_id = arrived(connection, fleet, settings, now, stops=[JOLIET, PERRYSBURG], **fuel)

    _, plan = build(connection, task_of(connection, route_id, now + timedelta(minutes=1)), now=now)

    assert isinstance(plan, FuelPlan)
    assert plan.trip.start_gallons == gallons


def test_a_reading_from_the_day_before_yesterday_is_none(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = arrived(connection, fleet, settings, now, fuel_percent=60)

    assert task_of(connection, route_id, now + timedelta(hours=23)).fuel is not None
    assert task_of(connection, route_id, now + timedelta(hours=25)).fuel is None


def test_a_live_plan_starts_where_the_truck_is_now_and_a_sandbox_plan_where_it_arrived(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    routes = {
        tenant: arrived(connection, fleet, settings, now, tenant=tenant) for tenant in (fleet.live, fleet.sandbox)
    }
    later = now + timedelta(hours=6)
    for tenant in routes:
        store_positions(connection, tenant, list(enumerate(positions_at(PERRYSBURG, later))), now=later)
        process_vehicles(connection, tenant.environment, fleet.trucks, settings=settings, now=later)

    live, sandbox = (task_of(connection, route_id, later + timedelta(minutes=5)) for route_id in routes.values())

    assert (live.position, live.stops_left) == (Point(PERRYSBURG["latitude"], PERRYSBURG["longitude"]), (2,))
    assert (sandbox.position, sandbox.stops_left) == (Point(JOLIET["latitude"], JOLIET["longitude"]), (1, 2))


def test_no_plan_is_due_before_the_arrival_or_twice(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    waiting = imported(connection, fleet.live, now=now, vehicle={"unitNumber": "102"})
    assert load_task(connection, waiting, now=now) is None

    route_id = arrived(connection, fleet, settings, now, stops=[JOLIET, PERRYSBURG], fuel_percent=90)
    task = task_of(connection, route_id, now)
    plans.store(connection, task, *build(connection, task, now=now), now=now)
    assert load_task(connection, route_id, now=now) is None


def test_a_plan_for_input_that_has_changed_is_not_stored(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = arrived(connection, fleet, settings, now, stops=[JOLIET, PERRYSBURG], fuel_percent=90)
    task = task_of(connection, route_id, now)
    plan = build(connection, task, now=now)
    pushed(connection, fleet.live, now=now, start=now, stops=[JOLIET, NEWARK], externalId=task.route.external_id)

    assert plans.store(connection, task, *plan, now=now) == ("outdated", [])
    assert connection.execute("SELECT FROM plans WHERE route_id = %s", (route_id,)).fetchone() is None


def test_an_infeasible_trip_is_an_error_that_says_which_leg(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = arrived(connection, fleet, settings, now, fuel_percent=40)  # and no station has a price
    task = task_of(connection, route_id, now)

    outcome, jobs = plans.store(connection, task, *build(connection, task, now=now), now=now)

    assert (outcome, jobs) == ("infeasible", [])
    row = route_row(connection, route_id)
    assert row.status == "error"
    assert "from mile 0.0" in row.closed_reason
    explanation = plans.read_explanation(connection, route_id)
    assert explanation is not None
    assert explanation["infeasible"]["from_mile"] == 0.0


def test_planning_that_fails_is_retried_later_and_later_and_then_an_error(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = arrived(connection, fleet, settings, now)
    delays = []
    for _ in range(3):
        assert status_of(connection, route_id) is RouteStatus.DRAFT
        plans.record_failure(connection, route_id, most_attempts=4, now=now)
        delays.append(route_row(connection, route_id).retry_at - now)

    plans.record_failure(connection, route_id, most_attempts=4, now=now)

    assert delays == [timedelta(seconds=10), timedelta(seconds=20), timedelta(seconds=40)]
    assert status_of(connection, route_id) is RouteStatus.ERROR


def test_a_plan_is_due_until_it_is_made(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = arrived(connection, fleet, settings, now)
    due = functools.partial(plans.due_plans, connection)

    assert route_id not in due(now=now + timedelta(seconds=30))
    assert route_id in due(now=now + timedelta(minutes=2))
    assert route_id in due(now=now + timedelta(minutes=2, seconds=1))
    planned_by_hand(connection, route_id, now=now)
    assert route_id not in due(now=now + timedelta(minutes=2))


# --- Prices ----------------------------------------------------------------------------------------------------

ROAD = HighwayRoads().through([Point(41.462, -88.125), Point(40.695, -74.155)])


def corridor_of(connection: Connection, fleet: Fleet, now: datetime, network: Network | None = None) -> Corridor:
    return offers_along(connection, fleet.company_id, ROAD, 5.0, network or Network(), now=now)


def prices_near(connection: Connection, fleet: Fleet, now: datetime) -> dict[str, float]:
    return {offer.station.station_id: offer.net_price for offer in corridor_of(connection, fleet, now).offers}


@pytest.mark.usefixtures("prices")
def test_every_station_within_the_limit_is_found_and_no_other(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    found = prices_near(connection, fleet, now)

    dense, _ = densified(ROAD.line, ROAD.line_miles, 0.1)
    vectors = unit_vectors(dense)
    for station in connection.execute("SELECT station_id, latitude, longitude FROM stations").fetchall():
        chords = np.linalg.norm(vectors - unit_vectors(np.array([(station.latitude, station.longitude)])), axis=1)
        nearest = miles_of_chords(chords).min()
        assert (station.station_id in found) == (nearest <= 5.0) or abs(nearest - 5.0) < 0.01


def first_three(connection: Connection, fleet: Fleet, now: datetime) -> list[Offer]:
    """Offers of three stations of three brands."""
    by_brand = {offer.station.brand: offer for offer in reversed(corridor_of(connection, fleet, now).offers)}
    return list(by_brand.values())[:3]


@pytest.mark.usefixtures("prices")
def test_old_prices_are_none_and_deals_are_the_company_s_own(
    connection: Connection, fleet: Fleet, now: datetime, tmp_path: Path
) -> None:
    one, branded, named = first_three(connection, fleet, now)
    deals = tmp_path / "deals.csv"
    deals.write_text(
        f"station_id,brand,discount_per_gallon,net_price\n{one.station.station_id},,0.30,\n"
        f"{named.station.station_id},,,1.999\n,{branded.station.brand},0.05,\n"
    )
    import_deals(connection, fleet.company_id, deals, now=now)
    other = make_fleet(connection)

    mine, theirs = prices_near(connection, fleet, now), prices_near(connection, other, now)

    assert mine[one.station.station_id] == pytest.approx(one.net_price - 0.30)
    assert mine[branded.station.station_id] == pytest.approx(branded.net_price - 0.05)
    assert mine[named.station.station_id] == 1.999
    assert theirs[one.station.station_id] == one.net_price
    assert prices_near(connection, fleet, now + timedelta(days=8)) == {named.station.station_id: 1.999}


@pytest.mark.usefixtures("prices")
def test_a_deal_holds_on_its_days_in_the_company_s_time_zone(
    connection: Connection, now: datetime, tmp_path: Path
) -> None:
    fleet = make_fleet(connection, time_zone="America/Chicago")
    now = now.replace(hour=2)  # the day before, in Chicago
    today = (now - timedelta(days=1)).date()
    offer = first_three(connection, fleet, now)[0]
    station_id, price = offer.station.station_id, offer.net_price

    def with_days(valid_from: date | None, valid_to: date | None) -> float:
        connection.execute("DELETE FROM deals WHERE company_id = %s", (fleet.company_id,))
        deals = tmp_path / "deals.csv"
        deals.write_text(
            "station_id,net_price,valid_from,valid_to\n"
            f"{station_id},1.999,{valid_from or ''},{valid_to or ''}\n{station_id},1.5,2020-01-01,2020-12-31\n"
        )
        import_deals(connection, fleet.company_id, deals, now=now)
        return prices_near(connection, fleet, now)[station_id]

    day = timedelta(days=1)
    assert with_days(None, None) == with_days(today, today) == with_days(today, None) == with_days(None, today) == 1.999
    assert with_days(today + day, None) == with_days(None, today - day) == price


@pytest.mark.usefixtures("prices")
def test_a_state_s_tax_is_the_newest_that_has_begun(
    connection: Connection, fleet: Fleet, now: datetime, tmp_path: Path
) -> None:
    connection.execute("DELETE FROM fuel_taxes")
    today, tomorrow = now.date(), now.date() + timedelta(days=1)
    taxes = tmp_path / "taxes.csv"
    taxes.write_text(
        f"state,rate_per_gallon,valid_from\nIN,0.5,2020-01-01\nIN,0.6,{today}\nIN,0.7,{tomorrow}\nOH,0.4,{tomorrow}\n"
    )
    import_taxes(connection, taxes, now=now)

    corridor = corridor_of(connection, fleet, now)

    rates = {offer.station.state: offer.tax_per_gallon for offer in corridor.offers}
    assert (rates["IN"], rates["OH"]) == (0.6, None)
    without = {offer.station.station_id for offer in corridor.offers if offer.station.state != "IN"}
    assert corridor.sources["stations_without_tax_rate"] == len(without)


@pytest.mark.usefixtures("prices")
def test_a_surcharge_is_not_in_the_price_and_not_credited(
    connection: Connection, fleet: Fleet, now: datetime, tmp_path: Path
) -> None:
    connection.execute("DELETE FROM fuel_taxes")
    taxes = tmp_path / "taxes.csv"
    taxes.write_text("state,rate_per_gallon,surcharge_per_gallon,valid_from\nIN,0.5,0.2,2020-01-01\n")
    import_taxes(connection, taxes, now=now)

    offers = [offer for offer in corridor_of(connection, fleet, now).offers if offer.station.state == "IN"]

    assert offers
    assert all(offer.adjusted_price == pytest.approx(offer.net_price - 0.5) for offer in offers)


@pytest.mark.usefixtures("prices")
def test_stations_left_out_are_counted(connection: Connection, fleet: Fleet, now: datetime) -> None:
    first, second, _ = first_three(connection, fleet, now)
    connection.execute(
        "UPDATE stations SET retail_price = NULL, priced_at = NULL WHERE station_id = %s", (first.station.station_id,)
    )
    connection.execute(
        "UPDATE stations SET priced_at = %s WHERE station_id = %s", (now - timedelta(days=9), second.station.station_id)
    )

    corridor = corridor_of(connection, fleet, now)

    assert corridor.sources["stations_left_out"] == {"without_price": 1, "price_too_old": 1}
    assert not {first.station.station_id, second.station.station_id} & {
        offer.station.station_id for offer in corridor.offers
    }


def test_the_index_is_shared_until_stations_are_imported(
    connection: Connection, fleet: Fleet, now: datetime, tmp_path: Path
) -> None:
    network = Network()
    header = "station_id,name,latitude,longitude,retail_price\n"
    stations = tmp_path / "stations.csv"

    def store(*rows: str) -> list[str]:
        stations.write_text(header + "\n".join(rows) + "\n")
        import_stations(connection, stations, now=now)
        return [offer.station.station_id for offer in corridor_of(connection, fleet, now, network).offers]

    joliet, elsewhere = "A,Joliet,41.462,-88.125,3.5", "B,Denver,39.7,-105.0,3.5"
    assert store(joliet, elsewhere) == ["A"]
    index = network.index(connection)
    assert network.index(connection) is index
    assert store(joliet, "B,Newark,40.695,-74.155,3.5") == ["A", "B"]
    assert network.index(connection) is not index
