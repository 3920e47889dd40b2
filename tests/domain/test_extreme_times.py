"""Any time that the contract accepts goes the whole way: pushed, imported, driven, planned, reviewed, answered."""

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import ValidationError
from rich.console import Console

from deploy.explain import print_explanation
from domain.contract.shapes import RouteQuery, StopType, moment_of
from domain.database.connections import Connection, Database
from domain.encoding import write
from domain.lifecycle import RouteStatus
from domain.planning import stored_plans
from domain.planning.plan_tasks import PlanTask, load_plan_task, road_ahead
from domain.roads.highways import HighwayRoads
from domain.routes.intake.holds import expire_held_routes, routes_that_can_move
from domain.routes.plans import first_plan, reviews
from domain.routes.progress.tracking import process_vehicles
from domain.routes.reading.explanations import read_route_explanation
from domain.routes.reading.lookups import list_routes, read_routes
from domain.routes.transitions import expire_started_routes
from domain.settings import MAX_DAYS, Settings
from domain.stations.corridor_offers import StationPlaces, offers_along
from domain.telematics.position_partitions import maintain_partitions
from tests.conftest import own_database
from tests.domain.helpers import deliver, imported, positions_at, post, route_row, status_of
from tests.factories import JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet
from tests.repeatable import examples
from tests.rows import named

NOW = datetime.now(UTC).replace(microsecond=0)
TODAY = NOW.isoformat()
EXTREMES = [
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00.000001-12:00",
    "0001-01-01T14:00:00+14:00",
    "0999-12-31T23:59:59-00:00",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T11:59:59-12:00",
    "9999-12-31T00:00:00Z",
]
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
ROADS = HighwayRoads()

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads

times = st.sampled_from([TODAY, *EXTREMES])
windows = st.none() | st.fixed_dictionaries({}, optional={"start": times, "end": times})


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with own_database("extreme") as opened:
        yield opened


@given(
    start=times,
    windows=st.tuples(windows, windows, windows),
    arrival=st.sampled_from([NOW, FIRST, FIRST + timedelta(hours=1), LAST - timedelta(hours=1), LAST]),
)
@example(start=TODAY, windows=({"start": EXTREMES[-1]}, None, None), arrival=NOW)
@example(start=TODAY, windows=(None, {"start": EXTREMES[4]}, None), arrival=NOW)
@example(start=EXTREMES[0], windows=(None, {"start": EXTREMES[0]}, None), arrival=FIRST)
@example(start=TODAY, windows=(None, None, None), arrival=LAST)
@hypothesis_settings(max_examples=examples(20), deadline=None)
def test_every_time_passes_through_the_whole_pipeline(
    database: Database, settings: Settings, start: str, windows: tuple[Any, ...], arrival: datetime
) -> None:
    with database.transaction() as connection:
        connection.execute("DELETE FROM stations")
        fleet = make_fleet(connection)
        stops = [
            stop if window is None else {**stop, "arrivalWindow": window}
            for stop, window in zip((JOLIET, PERRYSBURG, NEWARK), windows, strict=True)
        ]
        route_id = imported(connection, fleet.sandbox, now=NOW, scheduledStart=start, stops=stops)
        held = status_of(connection, route_id) is RouteStatus.PENDING_WINDOW
        assert held == start.startswith("9999")
        assert route_id not in routes_that_can_move(connection, now=NOW)
        if held:
            assert expire_held_routes(connection, expiry_days=7, now=NOW) == 0
        else:
            drive(connection, fleet, settings, route_id, arrival)
        (answer,) = read_routes([(fleet.sandbox, route_id)]).on(connection)
        assert answer is not None
        assert write(answer.route)
        for moment in map(moment_of, EXTREMES):
            list_routes(connection, fleet.sandbox, RouteQuery(start_from=moment))
            list_routes(connection, fleet.sandbox, RouteQuery(start_to=moment))
        if not held:
            assert answer.route.status is RouteStatus.ACTIVE
            assert answer.route.stops[-1].type is StopType.DESTINATION
            told = [stop.planned_arrival for stop in answer.route.stops if stop.planned_arrival is not None]
            assert all(before <= after for before, after in pairwise(told))
        raise psycopg.Rollback


def drive(connection: Connection, fleet: Fleet, settings: Settings, route_id: UUID, arrival: datetime) -> None:
    """The truck arrives at the first stop with a full tank, gets its plan and leaves."""
    arrived = min(arrival, LAST - timedelta(minutes=5))
    tenant = fleet.sandbox
    post(connection, tenant, positions_at(JOLIET, arrived, fuel_percent=95), now=NOW)
    process_vehicles(connection, tenant.environment, fleet.trucks, settings=settings, now=NOW)
    task = load_plan_task(connection, route_id, now=NOW)
    if task is None:  # the truck came too early for its start
        assert route_row(connection, route_id).scheduled_start - arrived > timedelta(hours=12)
        arrived = NOW
        post(connection, tenant, positions_at(JOLIET, arrived, fuel_percent=95), now=NOW)
        process_vehicles(connection, tenant.environment, fleet.trucks, settings=settings, now=NOW)
        task = load_plan_task(connection, route_id, now=NOW)
    assert task is not None
    assert first_plan.finish_plan(connection, task, *made(connection, fleet, task), now=NOW) == "planned"
    explanation = read_route_explanation(connection, route_id)
    assert explanation is not None
    print_explanation(explanation, Console(file=io.StringIO()))
    message = named(connection).execute("SELECT id FROM messages WHERE route_id = %s", (route_id,)).fetchone()
    assert message is not None
    deliver(connection, message.id, settings=settings, now=NOW)
    away = {**JOLIET, "latitude": JOLIET["latitude"] + 0.01}
    left = positions_at(away, arrived + timedelta(minutes=3), count=2, speed_mph=40, fuel_percent=60)
    post(connection, tenant, left, now=NOW)
    process_vehicles(connection, tenant.environment, fleet.trucks, settings=settings, now=NOW)
    review = reviews.begin_review(connection, route_id, now=NOW)
    assert review is not None
    reviews.finish_review(connection, review, *made(connection, fleet, review.task), now=NOW)


def made(connection: Connection, fleet: Fleet, task: PlanTask) -> Any:
    road = road_ahead(task, ROADS)
    corridor = offers_along(connection, fleet.company_id, road, 5.0, StationPlaces(), now=NOW)
    return corridor, stored_plans.plan_for_task(task, road, corridor, now=NOW)


def test_settings_in_days_have_a_limit_within_which_no_pass_fails(database: Database, now: datetime) -> None:
    with pytest.raises(ValidationError):
        Settings(position_retention_days=1e6, held_route_expiry_days=1e6, active_route_expiry_days=1e6)
    with database.transaction() as connection:
        assert expire_held_routes(connection, expiry_days=MAX_DAYS, now=now) == 0
        assert expire_started_routes(connection, expiry_days=MAX_DAYS, now=now) == 0
        assert maintain_partitions(connection, retention_days=MAX_DAYS, now=now) == 0
        raise psycopg.Rollback
