"""A plan made at the first stop is looked at again when fuel or prices change there: the driver hears of it once."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from domain import plans, reviews
from domain.contract import Position
from domain.database import Connection, Tenant
from domain.jobs import Job, review_plan
from domain.lifecycle import Environment
from domain.messaging import deliver
from domain.offers import Network, offers_along
from domain.plans import ReviewOutcome
from domain.roads.freeways import FreewayRoads
from domain.settings import Settings
from domain.stations import import_stations
from domain.tracking import judge_vehicles
from tests.domain.helpers import imported, positions_at, post, route_row
from tests.factories import JOLIET, NEWARK, Fleet

STATIONS = Path(__file__).parents[2] / "deploy" / "demo" / "stations.csv"
ROADS = FreewayRoads()
OUT_OF_TOWN = {"name": "on the road", "latitude": JOLIET["latitude"] + 0.008, "longitude": JOLIET["longitude"]}

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


class Trip:
    """Truck 101 at the first stop of a route, 40 % full, with a plan: every step of the workers by hand."""

    def __init__(self, connection: Connection, fleet: Fleet, settings: Settings, now: datetime, tenant: Tenant) -> None:
        self.connection, self.fleet, self.settings, self.tenant = connection, fleet, settings, tenant
        self.now = now
        connection.execute("DELETE FROM stations")
        import_stations(connection, STATIONS, now=now)
        self.route_id = imported(connection, tenant, now=now, stops=[JOLIET, NEWARK])
        self.report(JOLIET, 40, 40, 40)
        task = plans.load_task(connection, self.route_id, now=self.now)
        assert task is not None
        plans.store(connection, task, *self._made(task), now=self.now)

    def report(self, stop: dict[str, Any], *fuel_percents: float | None, speed_mph: float = 0) -> list[Job]:
        """A fix for each reading, half a minute apart; returns the jobs that follow."""
        positions: list[Position] = []
        for percent in fuel_percents:
            positions += positions_at(stop, self.now, count=1, speed_mph=speed_mph, fuel_percent=percent)
            self.now += timedelta(seconds=30)
        post(self.connection, self.tenant, positions, now=self.now)
        return judge_vehicles(
            self.connection, self.tenant.environment, self.fleet.trucks, settings=self.settings, now=self.now
        )

    def depart(self, fuel_percent: float | None = 40) -> list[Job]:
        return self.report(OUT_OF_TOWN, fuel_percent, fuel_percent, speed_mph=40)

    def new_prices(self, change: float) -> list[Job]:
        """All prices of Ohio change by so many dollars a gallon."""
        import_stations(self.connection, STATIONS, now=self.now)
        self.connection.execute("UPDATE stations SET retail_price = retail_price + %s WHERE state = 'OH'", (change,))
        jobs = reviews.after_new_prices(self.connection, None, now=self.now)
        return [job for job in jobs if job.payload == {"route_id": self.route_id}]

    def send(self) -> None:
        for message in self.messages("pending"):
            deliver(self.connection, message.id, settings=self.settings, now=self.now)

    def review(self) -> ReviewOutcome | None:
        task = plans.load_review(self.connection, self.route_id, now=self.now)
        if task is None:
            return None
        return plans.store_review(self.connection, task, *self._made(task), now=self.now)[0]

    def _made(self, task: plans.Task) -> Any:
        road = plans.road_ahead(task, ROADS)
        corridor = offers_along(self.connection, self.fleet.company_id, road, 5.0, Network(), now=self.now)
        return corridor, plans.compute(task, road, corridor, now=self.now)

    def messages(self, *statuses: str) -> Sequence[Any]:
        return self.connection.execute(
            "SELECT * FROM messages WHERE route_id = %s AND status = ANY(%s) ORDER BY created_at, id",
            (self.route_id, list(statuses)),
        ).fetchall()

    @property
    def start_gallons(self) -> float:
        explanation = plans.read_explanation(self.connection, self.route_id)
        assert explanation is not None
        gallons: float = explanation["inputs"]["start_gallons"]
        return gallons


@pytest.fixture(params=list(Environment))
def trip(request: Any, connection: Connection, fleet: Fleet, settings: Settings, now: datetime) -> Trip:
    return Trip(connection, fleet, settings, now, Tenant(fleet.company_id, request.param))


SENT = ("sent", "suppressed")


def test_fuel_taken_at_the_first_stop_corrects_the_plan_once(trip: Trip) -> None:
    trip.send()
    (sent,) = trip.messages(*SENT)

    assert trip.report(JOLIET, 90, 90) == [review_plan(trip.route_id)]
    assert trip.review() == "corrected"
    trip.send()

    route = route_row(trip.connection, trip.route_id)
    assert (route.status, route.review_at) == ("active", None)
    assert trip.start_gallons == 180
    first, second = trip.messages(*SENT)
    assert first.id == sent.id
    assert second.plan_id == route.plan_id
    assert second.text.startswith("CORRECTED fuel plan")
    assert trip.report(JOLIET, 20, 20) == []
    assert trip.new_prices(-1) == []
    assert trip.depart(20) == []
    assert trip.review() is None


def test_one_odd_reading_and_a_tank_that_is_being_filled_change_nothing(trip: Trip) -> None:
    trip.send()
    assert trip.report(JOLIET, 40, 95, 40) == []
    assert trip.report(JOLIET, 5, None, 41) == []
    assert trip.report(JOLIET, 55, 65, 75) == []
    assert trip.report(JOLIET, 85, 85) == [review_plan(trip.route_id)]


def test_a_plan_not_yet_sent_is_replaced_quietly_and_as_often_as_need_be(trip: Trip) -> None:
    for percent in (70, 90):
        assert trip.report(JOLIET, percent, percent) == [review_plan(trip.route_id)]
        assert trip.review() == "replaced"
    trip.send()

    (sent,) = trip.messages(*SENT)
    assert sent.text.startswith("Fuel plan")
    assert len(trip.messages("failed")) == 2
    assert route_row(trip.connection, trip.route_id).status == "active"
    assert trip.report(JOLIET, 60, 60) == [review_plan(trip.route_id)]
    assert trip.review() == "corrected"


def test_leaving_is_the_last_look_and_usually_finds_nothing(trip: Trip) -> None:
    trip.send()
    assert trip.depart(38) == [review_plan(trip.route_id)]
    assert trip.review() is None
    assert route_row(trip.connection, trip.route_id).review_at is None
    assert trip.report(OUT_OF_TOWN, 90, 90, speed_mph=40) == []


def test_fuel_seen_only_on_leaving_counts(trip: Trip) -> None:
    trip.send()
    assert trip.depart(85) == [review_plan(trip.route_id)]
    assert trip.review() == "corrected"


@pytest.mark.parametrize(("change", "outcome"), [(-0.6, "corrected"), (0.0, "confirmed"), (0.0005, "confirmed")])
def test_new_prices_correct_the_plan_where_they_matter(trip: Trip, change: float, outcome: str) -> None:
    trip.send()
    assert trip.new_prices(change) == [review_plan(trip.route_id)]
    assert trip.review() == outcome
    assert len(trip.messages("pending")) == (outcome == "corrected")

    trip.connection.execute("UPDATE routes SET review_at = %s WHERE id = %s", (trip.now, trip.route_id))
    assert trip.review() is None  # it has been looked at with these prices


def test_small_changes_do_not_add_up_unseen(trip: Trip) -> None:
    trip.send()
    trip.report(JOLIET, 48, 48)
    trip.new_prices(0)
    assert trip.review() == "confirmed"
    assert trip.report(JOLIET, 56, 56) == [review_plan(trip.route_id)]


def test_prices_of_another_company_or_after_leaving_are_no_reason(trip: Trip) -> None:
    trip.send()
    assert reviews.after_new_prices(trip.connection, "cmp_other", now=trip.now) == []
    assert reviews.after_new_prices(trip.connection, trip.fleet.company_id, now=trip.now) != []
    trip.depart()
    assert trip.new_prices(-1) == []


def test_a_plan_that_became_infeasible_stays_as_it_is(trip: Trip) -> None:
    trip.send()
    plan_id = route_row(trip.connection, trip.route_id).plan_id
    trip.report(JOLIET, 5, 5)
    assert trip.review() == "confirmed"
    assert route_row(trip.connection, trip.route_id).plan_id == plan_id
    assert trip.report(JOLIET, 5, 5) == []


def test_a_lost_look_is_claimed_once_a_minute(trip: Trip) -> None:
    trip.report(JOLIET, 90, 90)

    def claimed(seconds: float) -> bool:
        lost = reviews.claim_lost_reviews(trip.connection, now=trip.now + timedelta(seconds=seconds))
        return trip.route_id in lost

    assert [claimed(seconds) for seconds in (5, 11, 70, 72)] == [False, True, False, True]
