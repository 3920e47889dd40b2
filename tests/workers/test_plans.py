"""The plans worker around the rule: what fails is tried later and later, not for ever, and what counts as failed."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from dramatiq.brokers.stub import StubBroker
from psycopg.errors import DeadlockDetected, DiskFull, LockNotAvailable

from deploy.clients.python.fuelroute_client import check_certificate
from domain.database import fence
from domain.database.connections import Connection, Database
from domain.ids import new_id, shown_id
from domain.planning import explanation as explanations
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import review_plan_job
from domain.roads import Point, Road
from domain.roads.truck_dimensions import ANY_TRUCK, TruckDimensions
from domain.routes.plans import review_requests
from domain.routes.progress.tracking import process_vehicles
from domain.routes.reading.explanations import read_certificate, read_route_explanation
from domain.settings import Settings
from domain.stations.price_sets import begin_price_set, due_price_changes
from domain.stations.stations import store_station_rows
from tests.conftest import own_database
from tests.domain.helpers import imported, planned_by_hand, positions_at, post, route_row
from tests.factories import JOLIET, PERRYSBURG, Fleet, make_fleet
from tests.jobs import jobs_of
from tests.rows import named
from workers import plans
from workers.context import Context


class NoRoads:
    """Roads with a bug."""

    asked = 0

    def through(self, points: Sequence[Point], truck: TruckDimensions = ANY_TRUCK) -> Road:
        self.asked += 1
        raise ZeroDivisionError


@pytest.fixture
def context(settings: Settings, database: Database, jobs: JobQueue) -> Context:
    return Context(settings.model_copy(update={"step_attempts": 3}), database, jobs)


def test_a_review_that_always_fails_ends_and_the_plan_stays(context: Context, now: datetime) -> None:
    with context.database.transaction() as connection:
        fleet = make_fleet(connection)
        route_id = waiting(connection, fleet, now)
        connection.execute(
            "INSERT INTO price_sets (kind, company_id, imported_at) VALUES ('deals', %s, %s)", (fleet.company_id, now)
        )
        review_requests.after_new_prices(connection, fleet.company_id, now=now)
        assert jobs_of(connection) == [review_plan_job(route_id)]
    roads = NoRoads()
    context.__dict__["roads"] = roads
    broker = StubBroker()
    plans.register(broker, context)
    review: Any = broker.get_actor("plans.review")

    routes = []
    for _ in range(4):
        review.fn(route_id.hex)
        with context.database.transaction() as connection:
            routes.append(route_row(connection, route_id))

    assert roads.asked == 3
    assert [route.attempts for route in routes] == [1, 2, 0, 0]
    assert [route.review_at is None for route in routes] == [False, False, True, True]
    assert {(route.status, route.plan_id) for route in routes} == {("active", routes[0].plan_id)}
    with context.database.transaction() as connection:
        review_requests.after_new_prices(connection, fleet.company_id, now=now)
        assert jobs_of(connection) == [review_plan_job(route_id)]


@pytest.mark.parametrize("is_shared", [False, True])
def test_new_prices_have_the_plans_of_those_who_see_them_reviewed_once(
    context: Context, now: datetime, is_shared: bool
) -> None:
    broker = StubBroker()
    plans.register(broker, context)
    after_prices: Any = broker.get_actor("plans.after_prices")
    with context.database.transaction() as connection:
        fleet, other = make_fleet(connection), make_fleet(connection)
        routes = [waiting(connection, one, now) for one in (fleet, other)]
        begin_price_set(connection, "deals", None if is_shared else fleet.company_id, now=now)
        (job,) = jobs_of(connection)
    company_id = job.payload["company_id"]

    for _ in range(2):
        after_prices.fn(company_id.hex if company_id is not None else None)

    with context.database.transaction() as connection:
        assert [route_row(connection, one).review_requests for one in routes] == [1, int(is_shared)]
        assert company_id not in due_price_changes(connection, now=now + timedelta(hours=1))


def test_prices_of_a_company_that_is_paused_wait_for_it(context: Context, now: datetime) -> None:
    with context.database.transaction() as connection:
        fleet = make_fleet(connection)
        route_id = waiting(connection, fleet, now)
        begin_price_set(connection, "deals", fleet.company_id, now=now)
        fence.begin_copying(connection, fleet.company_id, to_cell=2)
        fence.pause_company(connection, fleet.company_id, holds=timedelta(minutes=1))

    plans.ask_for_reviews(context, fleet.company_id)
    with context.database.transaction() as connection:
        assert fleet.company_id not in due_price_changes(connection, now=now + timedelta(hours=1))
        assert route_row(connection, route_id).review_requests == 0
        fence.resume_company(connection, fleet.company_id)
        assert fleet.company_id in due_price_changes(connection, now=now + timedelta(hours=1))

    plans.ask_for_reviews(context, fleet.company_id)
    with context.database.transaction() as connection:
        assert route_row(connection, route_id).review_requests == 1


def waiting(connection: Connection, fleet: Fleet, now: datetime) -> UUID:
    """A planned route whose truck waits at its first stop."""
    route_id = imported(connection, fleet.live, now=now)
    planned_by_hand(connection, route_id, now=now)
    connection.execute("UPDATE routes SET status = 'active', arrived_at = %s WHERE id = %s", (now, route_id))
    jobs_of(connection)
    return route_id


@pytest.fixture
def one_station(context: Context, now: datetime, tmp_path: Path) -> Iterator[Context]:
    """A database in which there is one station only: at Joliet, 20 miles off the road."""
    file = tmp_path / "stations.csv"
    file.write_text(
        "station_id,name,brand,address,city,state,latitude,longitude,retail_price\n"
        f"LONELY,Lonely Fuel,,,Wilton,IL,{JOLIET['latitude'] - 0.15},{JOLIET['longitude'] - 0.15},3.999\n"
    )
    with own_database("lonely") as database:
        with database.transaction() as connection:
            store_station_rows(connection, file, now=now)
        yield Context(context.settings, database, context.jobs)


def arrived(context: Context, *, fuel_percent: float, now: datetime) -> UUID:
    """A route from Joliet to Perrysburg whose truck stands at its first stop."""
    with context.database.transaction() as connection:
        fleet = make_fleet(connection)
        route_id = imported(connection, fleet.live, now=now, stops=[JOLIET, PERRYSBURG])
        fixes = positions_at(JOLIET, now - timedelta(minutes=5), fuel_percent=fuel_percent)
        post(connection, fleet.live, fixes, now=now)
        process_vehicles(connection, "live", fleet.trucks, settings=context.settings, now=now)
    return route_id


def test_a_truck_below_its_reserve_is_sent_to_the_only_station_there_is(one_station: Context, now: datetime) -> None:
    """Off the road by more than the policy allows, with less in the tank than the policy's reserve."""
    broker, context = StubBroker(), one_station
    plans.register(broker, context)
    route_id = arrived(context, fuel_percent=12, now=now)

    broker.get_actor("plans.build").fn(route_id.hex)

    with context.database.transaction() as connection:
        explanation = read_route_explanation(connection, route_id)
        certificate = read_certificate(connection, route_id)
        foreign = read_certificate(connection, route_id, company_id=new_id())
        external_id = route_row(connection, route_id).external_id
        message = named(connection).execute("SELECT text FROM messages WHERE route_id = %s", (route_id,)).fetchone()
    assert explanation is not None
    policy = {one["limit"]: one["policy"] for one in explanation["relaxed"]}
    used = {one["limit"]: one["used"] or 0.0 for one in explanation["relaxed"]}
    assert policy == {"max_detour_miles": 5.0, "reserve_gallons": 30.0}
    assert 5.0 < used["max_detour_miles"] < 25.0
    assert 20.0 < used["reserve_gallons"] < 24.0
    assert [one["station_id"] for one in explanation["candidates"]] == ["LONELY"]
    assert certificate is not None
    assert "that passes these 1 truck stops" in check_certificate(certificate)
    about = json.loads(certificate)["about"]
    assert (about["route"], about["external_id"]) == (shown_id("rte", route_id), external_id)
    assert foreign is None
    assert message is not None
    assert message.text.startswith("LOW FUEL: drive to Lonely Fuel, mile 0, before anything else.")


@pytest.mark.parametrize("error", [LockNotAvailable, DeadlockDetected, DiskFull])
def test_a_route_has_not_failed_where_it_is_locked_or_the_disk_is_full(
    context: Context, now: datetime, monkeypatch: pytest.MonkeyPatch, error: type[psycopg.Error]
) -> None:
    def waits_in_vain(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("domain.routes.plans.first_plan.finish_plan", waits_in_vain)
    broker = StubBroker()
    plans.register(broker, context)
    with context.database.transaction() as connection:
        fleet = make_fleet(connection)
        route_id = imported(connection, fleet.live, now=now)
        post(connection, fleet.live, positions_at(JOLIET, now - timedelta(minutes=5)), now=now)
        process_vehicles(connection, "live", fleet.trucks, settings=context.settings, now=now)

    with pytest.raises(error):
        broker.get_actor("plans.build").fn(route_id.hex)

    with context.database.transaction() as connection:
        row = route_row(connection, route_id)
    assert (row.status, row.attempts) == ("draft", 0)


def test_a_plan_ends_at_the_horizon_and_is_packed_outside_of_transactions(
    one_station: Context, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancel of the route meanwhile does not wait for it."""
    near = one_station.settings.model_copy(update={"plan_horizon_miles": 100.0})
    broker, context = StubBroker(), Context(near, one_station.database, one_station.jobs)
    plans.register(broker, context)
    route_id = arrived(context, fuel_percent=90, now=now)
    open_transactions: list[int] = []

    def packed(explanation: Any) -> bytes:
        with context.database.transaction() as connection:
            (count,) = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND xact_start IS NOT NULL"
            ).fetchall()
        open_transactions.append(count[0])
        return explanations.pack_explanation(explanation)

    monkeypatch.setattr("domain.planning.fuel_plan.pack_explanation", packed)
    broker.get_actor("plans.build").fn(route_id.hex)

    assert open_transactions == [0]
    with context.database.transaction() as connection:
        route, explanation = route_row(connection, route_id), read_route_explanation(connection, route_id)
    assert route.status == "planned"
    assert route.distance_miles > 200
    assert explanation is not None
    assert explanation["inputs"]["distance_miles"] == 100.0
    assert explanation["ends_early"] is not None
