"""Prices that change by the clock alone have the plans of waiting trucks looked at again, as imported prices have."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from domain.database import fence
from domain.database.connections import Connection
from domain.queue.jobs import Job, review_plan_job
from domain.routes.plans.review_requests import after_new_prices, after_price_changes, apply_due_prices
from domain.routes.transitions import expire_started_routes
from domain.settings import Settings
from domain.stations.price_sets import begin_price_set
from domain.stations.stations import set_stations_retired
from tests.domain.helpers import route_row, status_of
from tests.domain.routes.trip import SENT, Trip
from tests.factories import DOT, Fleet
from tests.jobs import jobs_after
from tests.rows import named

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
WEEK = timedelta(days=7)


@pytest.fixture
def trip(connection: Connection, fleet: Fleet, settings: Settings, now: datetime) -> Trip:
    made = Trip(connection, fleet, settings, now, fleet.live)
    made.send()
    return made


def quote(trip: Trip, price: float, *, begins: timedelta) -> None:
    """A net price of the company at every station of Ohio."""
    trip.connection.execute(
        "INSERT INTO quotes (company_id, station_id, effective_at, net_price, profile)"
        " SELECT %s, station_id, %s, %s, 'loves' FROM stations WHERE state = 'OH'",
        (trip.fleet.company_id, trip.now + begins, price),
    )


def plan_of(trip: Trip) -> dict[str, Any]:
    row = (
        named(trip.connection)
        .execute("SELECT p.document FROM routes r JOIN plans p ON p.id = r.plan_id WHERE r.id = %s", (trip.route_id,))
        .fetchone()
    )
    assert row is not None
    return dict(row.document)


def later(trip: Trip, span: timedelta) -> list[Job]:
    """The company's jobs of the scheduler's pass so much later; the truck stands there still."""
    trip.now += span
    since = trip.now - timedelta(minutes=2)
    return reviews_after(trip, lambda: apply_due_prices(trip.connection, since=since, now=trip.now))


def own_jobs_after(trip: Trip, work: Callable[[], object]) -> list[Job]:
    """The jobs that the work collects, without those of companies that other tests have left."""
    return [job for job in jobs_after(trip.connection, work) if job.company_id == trip.fleet.company_id]


def reviews_after(trip: Trip, work: Callable[[], object]) -> list[Job]:
    """The company's reviews that follow from the price sets that the work adds, once their jobs have run."""
    priced = jobs_after(trip.connection, work)
    assert {job.name for job in priced} <= {"plans.after_prices"}
    return [
        review
        for job in priced
        for review in own_jobs_after(
            trip, partial(after_price_changes, trip.connection, job.payload["company_id"], now=trip.now)
        )
    ]


def reviewed(trip: Trip, jobs: list[Job]) -> str | None:
    assert jobs == [review_plan_job(trip.route_id, trip.fleet.company_id)]
    return trip.review()


def test_net_prices_of_tomorrow_become_a_new_plan_when_they_begin(trip: Trip) -> None:
    before = plan_of(trip)["totalCost"]
    quote(trip, 1.8, begins=HOUR)
    assert later(trip, 59 * HOUR / 60) == []

    assert reviewed(trip, later(trip, HOUR / 60)) == "corrected"
    trip.send()

    assert plan_of(trip)["totalCost"] < before - 100
    assert [one.text.split(" plan")[0] for one in trip.messages(*SENT)] == ["Fuel", "CORRECTED fuel"]
    assert later(trip, HOUR) == [], "a moment is seen once"


def test_net_prices_of_tomorrow_are_planned_with_as_soon_as_they_are_stored(trip: Trip) -> None:
    """The truck reaches Ohio hours after they begin. When they begin, the plan stays as it is."""
    before = plan_of(trip)["totalCost"]
    trip.connection.execute("UPDATE routes SET status = 'planned' WHERE id = %s", (trip.route_id,))
    quote(trip, 1.8, begins=HOUR)
    begin_price_set(trip.connection, "deals", trip.fleet.company_id, now=trip.now)
    stored = own_jobs_after(trip, lambda: after_new_prices(trip.connection, trip.fleet.company_id, now=trip.now))

    assert reviewed(trip, stored) == "replaced"
    planned = plan_of(trip)

    assert planned["totalCost"] < before - 100
    assert reviewed(trip, later(trip, HOUR)) == "confirmed"
    assert plan_of(trip) == planned
    assert "Price before " in trip.messages("pending")[0].text


@pytest.mark.parametrize("late", [timedelta(0), 9 * HOUR])
def test_a_truck_that_leaves_late_gets_a_plan_with_the_prices_of_then(trip: Trip, late: timedelta) -> None:
    """All prices of Ohio rise by a dollar some hours after the truck was to come there. A truck that leaves on time
    keeps its plan; one that leaves too late is told once."""
    trip.connection.execute("UPDATE routes SET status = 'planned' WHERE id = %s", (trip.route_id,))
    quote(trip, 1.8, begins=-HOUR)
    quote(trip, 2.9, begins=12 * HOUR)
    begin_price_set(trip.connection, "deals", trip.fleet.company_id, now=trip.now)
    trip.connection.execute("UPDATE routes SET review_at = %s WHERE id = %s", (trip.now, trip.route_id))
    assert trip.review() == "replaced"
    planned = plan_of(trip)
    assert [stop["pricePerGallon"] for stop in planned["stops"]] == [1.8]
    assert "priceRisesAt" in planned["stops"][0]

    trip.now += late
    jobs = [job for job in trip.depart() if job == review_plan_job(trip.route_id, trip.fleet.company_id)]

    assert jobs != []
    assert trip.review() == ("replaced" if late else None)
    assert (plan_of(trip) == planned) is not bool(late)
    assert trip.review() is None


def test_a_moment_is_not_missed_while_the_scheduler_was_away(trip: Trip) -> None:
    quote(trip, 1.8, begins=HOUR)
    assert reviewed(trip, later(trip, 5 * HOUR)) == "corrected"


def test_a_net_price_that_is_not_worth_it_changes_no_plan_and_is_looked_at_once(trip: Trip) -> None:
    quote(trip, 9.5, begins=HOUR)
    assert reviewed(trip, later(trip, HOUR)) == "confirmed"
    assert later(trip, HOUR) == []


def test_cheap_net_prices_that_end_become_a_new_plan(trip: Trip) -> None:
    quote(trip, 1.8, begins=HOUR - WEEK)
    assert own_jobs_after(trip, lambda: after_new_prices(trip.connection, trip.fleet.company_id, now=trip.now)) != []
    trip.connection.execute("INSERT INTO price_sets (kind, imported_at) VALUES ('deals', %s)", (trip.now,))
    trip.connection.execute("UPDATE routes SET status = 'planned' WHERE id = %s", (trip.route_id,))
    assert trip.review() == "replaced"
    cheap = plan_of(trip)["totalCost"]

    jobs = later(trip, HOUR + timedelta(seconds=1))

    assert reviewed(trip, jobs) == "replaced"
    assert plan_of(trip)["totalCost"] > cheap + 50


@pytest.mark.parametrize(("first", "last"), [(1, None), (None, 0)])
def test_a_deal_counts_from_its_first_day_on_and_to_its_last(trip: Trip, first: int | None, last: int | None) -> None:
    today = trip.now.date()
    trip.connection.execute(
        "INSERT INTO deals (company_id, brand, discount_per_gallon, valid_from, valid_to)"
        " SELECT %s, min(brand), 1.5, %s, %s FROM stations WHERE name = %s",
        (
            trip.fleet.company_id,
            today + DAY * first if first is not None else None,
            today + DAY * last if last is not None else None,
            plan_of(trip)["stops"][0]["name"],
        ),
    )
    assert later(trip, timedelta(minutes=1)) == []
    assert len(later(trip, DAY + HOUR)) == 1


def test_a_tax_that_begins_has_the_plans_looked_at(trip: Trip) -> None:
    trip.connection.execute(
        "INSERT INTO fuel_taxes (state, valid_from, rate_per_gallon) VALUES ('OH', %s, 0.9)"
        " ON CONFLICT (state, valid_from) DO NOTHING",
        (trip.now.date() + DAY,),
    )
    assert len(later(trip, DAY + HOUR)) == 1


def test_a_retail_price_that_is_too_old_has_the_plans_looked_at(trip: Trip) -> None:
    trip.connection.execute("UPDATE stations SET priced_at = %s WHERE state = 'OH'", (trip.now + HOUR - WEEK,))
    assert later(trip, HOUR) == []
    assert reviewed(trip, later(trip, timedelta(seconds=1))) == "corrected"


def test_a_planned_station_that_is_retired_becomes_a_new_plan(trip: Trip) -> None:
    name = plan_of(trip)["stops"][0]["name"]
    (row,) = trip.connection.execute("SELECT station_id FROM stations WHERE name = %s", (name,)).fetchall()

    jobs = reviews_after(trip, lambda: set_stations_retired(trip.connection, [row[0]], DOT, now=trip.now))

    assert reviewed(trip, jobs) == "corrected"
    trip.send()
    assert name not in [stop["name"] for stop in plan_of(trip)["stops"]]


@pytest.mark.parametrize("stage", ["pausing", "fenced"])
def test_nothing_of_a_company_on_its_way_to_another_cell_is_changed(trip: Trip, stage: str) -> None:
    quote(trip, 1.8, begins=HOUR)
    company_id = trip.fleet.company_id
    fence.begin_copying(trip.connection, company_id, to_cell=2)
    fence.pause_company(trip.connection, company_id, holds=DAY)
    if stage == "fenced":
        fence.close_fence(trip.connection, company_id)
    before = route_row(trip.connection, trip.route_id)

    assert later(trip, HOUR) == []
    assert own_jobs_after(trip, lambda: after_new_prices(trip.connection, None, now=trip.now)) == []
    later_on = trip.now + DAY
    expired = own_jobs_after(trip, lambda: expire_started_routes(trip.connection, expiry_days=0.0001, now=later_on))
    assert expired == []
    assert route_row(trip.connection, trip.route_id) == before
    assert status_of(trip.connection, trip.route_id) == "active"

    fence.resume_company(trip.connection, company_id)
    assert reviewed(trip, later(trip, HOUR)) == "corrected", "the moment waits for the company"
