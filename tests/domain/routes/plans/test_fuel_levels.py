"""The fuel level that a plan is made with: a level that nothing explains waits for a second reading, and a truck that
has not moved keeps its last one."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from domain.burn.figures import DEFAULT_MPG
from domain.database.connections import Connection
from domain.planning.plan_tasks import load_plan_task
from domain.queue.jobs import Job, build_plan_job, review_plan_job
from domain.routes.plans import first_plan
from domain.routes.reading.explanations import read_route_explanation
from domain.settings import Settings
from tests.domain.helpers import positions_at, post, route_row
from tests.domain.routes.trip import SENT, Trip
from tests.factories import JOLIET, Fleet

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads

GAUGE = json.loads((Path(__file__).parents[3] / "cases" / "telematics_rules" / "gauge.json").read_text())
"""Minutes before now, miles to the stop, mph, fuelPercent."""

WAIT = timedelta(minutes=5)
Told = Sequence[float | None]


class Gauge(Trip):
    """Truck 101 sends levels on its way to the first stop of a route without a plan."""

    def __init__(self, connection: Connection, fleet: Fleet, settings: Settings, now: datetime) -> None:
        super().__init__(connection, fleet, settings, now, fleet.live, planned=False)
        connection.execute("DELETE FROM visits")
        connection.execute("DELETE FROM positions")
        connection.execute("DELETE FROM tracks")
        connection.execute("UPDATE routes SET arrived_at = NULL, retry_at = NULL")
        self.started = self.now

    def tells(self, *told: Told) -> list[Job]:
        """Each fix comes in when it is recorded, so many minutes before the trip's start."""
        jobs: list[Job] = []
        for minutes, miles, mph, percent in told:
            self.now = self.started - timedelta(minutes=minutes or 0)
            place = {**JOLIET, "latitude": JOLIET["latitude"] + (miles or 0) / 69.09}
            post(
                self.connection,
                self.tenant,
                positions_at(place, self.now, count=1, speed_mph=mph, fuel_percent=percent),
                now=self.now,
            )
            jobs = self.process()
        return jobs

    def begin(self, after: timedelta = timedelta()) -> bool:
        """The worker's job, so much later: True if it made the plan."""
        self.now += after
        task = first_plan.begin_plan(self.connection, self.route_id, wait=WAIT, now=self.now)
        if task is None:
            return False
        first_plan.finish_plan(self.connection, task, *self.made(task), now=self.now)
        return True

    @property
    def document(self) -> dict[str, Any]:
        row = self.connection.execute(
            "SELECT p.document FROM routes r JOIN plans p ON p.id = r.plan_id WHERE r.id = %s", (self.route_id,)
        ).fetchone()
        assert row is not None
        return dict(row[0])

    @property
    def told(self) -> dict[str, Any]:
        explanation = read_route_explanation(self.connection, self.route_id)
        assert explanation is not None
        return dict(explanation["sources"]["fuel"])


@pytest.fixture
def gauge(connection: Connection, fleet: Fleet, settings: Settings, now: datetime) -> Gauge:
    return Gauge(connection, fleet, settings, now)


def test_a_zero_after_a_restart_of_the_tracker_ends_no_route(gauge: Gauge) -> None:
    gauge.tells(*GAUGE["one_zero"])

    assert not gauge.begin(), "the plan waits for the next level"
    assert route_row(gauge.connection, gauge.route_id).retry_at == gauge.now + WAIT
    assert gauge.begin(WAIT)

    assert gauge.start_gallons == 122
    assert route_row(gauge.connection, gauge.route_id).status == "planned"
    assert (gauge.told["percent"], gauge.told["doubted_percent"]) == (61, 0)


def test_the_next_level_ends_the_wait_at_once(gauge: Gauge) -> None:
    *first, before, _ = GAUGE["one_twelve"]
    gauge.tells(*first)
    assert not gauge.begin()

    assert gauge.tells(before) == [build_plan_job(gauge.route_id, gauge.fleet.company_id)]
    assert gauge.begin()

    assert gauge.start_gallons == 122
    assert "doubted_percent" not in gauge.told
    gauge.send()
    assert [message.text.split(" plan")[0] for message in gauge.messages(*SENT)] == ["Fuel"]


@pytest.mark.parametrize("odd", [(0,), (0.5,), (12, 90), (30, 0)])
def test_a_plan_waits_once_for_readings_that_never_agree(gauge: Gauge, odd: Sequence[float]) -> None:
    """The engine is off, and the tracker sends a value that is none each minute; or two trackers disagree."""
    gauge.tells(*GAUGE["one_zero"][:3])
    waited = 0
    while gauge.tells((5 - waited, 0, 0, odd[waited % len(odd)])) is not None and not gauge.begin():
        waited += 1
        assert waited <= 5

    assert waited == 5
    assert gauge.start_gallons == 122


def test_a_fall_that_is_read_again_counts_before_the_plan(gauge: Gauge) -> None:
    gauge.tells(*GAUGE["one_zero"][:3], (5, 0, 0, 30), (4, 0, 0, 30))
    assert gauge.begin()
    assert gauge.start_gallons == 60


def test_a_fall_that_is_read_again_corrects_the_plan_that_did_not_wait_for_ever(gauge: Gauge) -> None:
    gauge.tells(*GAUGE["one_zero"][:3], (5, 0, 0, 30))
    assert gauge.begin(WAIT)
    gauge.send()
    gauge.started = gauge.now

    assert gauge.tells((-10, 0, 0, 30)) == [review_plan_job(gauge.route_id, gauge.fleet.company_id)]
    assert gauge.review() == "corrected"
    gauge.send()
    assert gauge.start_gallons == 60


def test_readings_behind_a_first_wrong_one_correct_a_purchase_at_mile_zero(gauge: Gauge) -> None:
    """Nothing was known before the tracker said 20 %, twice: the first purchase is beside the first stop."""
    gauge.connection.execute(
        "INSERT INTO stations (station_id, name, latitude, longitude, retail_price, priced_at)"
        " VALUES ('near', 'Near', %s, %s, 2.1, %s)",
        (JOLIET["latitude"], JOLIET["longitude"] + 0.002, gauge.now),
    )
    gauge.connection.execute("INSERT INTO price_sets (kind, imported_at) VALUES ('stations', %s)", (gauge.now,))
    gauge.tells((6, 0, 0, 20), (5, 0, 0, 20))
    assert gauge.begin()
    gauge.send()
    bought = next(stop for stop in gauge.document["stops"] if stop["milesFromOrigin"] < 0.5)

    after_purchase = 20 + bought["gallonsToFill"] / 2
    gauge.tells((1, 0, 0, after_purchase), (0, 0, 0, after_purchase))
    assert gauge.review() is None, "the driver has bought what the plan says"
    assert gauge.tells((-1, 0, 0, 61), (-2, 0, 0, 61)) == [review_plan_job(gauge.route_id, gauge.fleet.company_id)]
    assert gauge.review() == "corrected"


def test_no_route_ends_in_error_on_a_level_that_one_reading_alone_says(gauge: Gauge) -> None:
    gauge.tells((6, 0, 0, None), (5, 0, 0, 2))
    task = load_plan_task(gauge.connection, gauge.route_id, now=gauge.now)
    assert task is not None

    assert first_plan.without_disputed_level(gauge.connection, task, wait=WAIT, now=gauge.now) == "waits"
    other = first_plan.without_disputed_level(gauge.connection, task, wait=WAIT, now=gauge.now + WAIT)

    assert not isinstance(other, str)
    assert (other.fuel, other.read_percent) == (None, 50)
    gauge.tells((4, 0, 0, 2))
    certain = load_plan_task(gauge.connection, gauge.route_id, now=gauge.now)
    assert certain is not None
    assert first_plan.without_disputed_level(gauge.connection, certain, wait=WAIT, now=gauge.now) == "certain"


def test_a_parked_truck_keeps_its_last_level(gauge: Gauge) -> None:
    gauge.tells(*GAUGE["parked"])
    assert gauge.begin()
    assert gauge.start_gallons == 24
    assert (gauge.told["source"], gauge.told["percent"]) == ("the truck's reading", 12)


@pytest.mark.parametrize(
    ("level", "nothing", "gallons"), [(22, 0, 44), (22, 255, 44), (22, 102, 44), (22, 0.6, 44), (1.4, 0, 0)]
)
@pytest.mark.parametrize("hours", [6, 30])
def test_a_parked_truck_keeps_its_level_however_often_its_tracker_says_nothing(
    gauge: Gauge, level: float, nothing: float, gallons: float, hours: int
) -> None:
    """The tracker of a truck whose engine is off sends a value that is none each minute."""
    minutes = 60 * hours
    gauge.tells((minutes + 2, 0, 0, level), (minutes + 1, 0, 0, level))
    night = positions_at(
        JOLIET, gauge.started - timedelta(minutes=minutes), count=minutes, seconds_apart=60, fuel_percent=nothing
    )
    post(gauge.connection, gauge.tenant, night, now=gauge.started)
    gauge.tells((0, 0, 0, nothing))

    assert gauge.begin()
    assert gauge.start_gallons == gallons
    assert gauge.told["source"] == "the truck's reading"


def test_a_parked_truck_whose_place_is_not_known_any_more_keeps_none(gauge: Gauge) -> None:
    gauge.tells((24 * 60 * 15, 0, 0, 12), (3, 0, 0, None), (1, 0, 0, None))
    assert gauge.begin()
    assert gauge.told["source"] == "the company's policy"


@pytest.mark.parametrize("hours", [20, 40])
def test_a_truck_that_drove_since_its_last_level_has_what_the_miles_left(gauge: Gauge, hours: int) -> None:
    """130 miles at 6.5 mpg burn 20 gallons of 200."""
    way = [(hours * 60 - 10 * number, 130 - 10 * number, 60, None) for number in range(1, 14)]
    gauge.tells((hours * 60, 130, 0, 62), (hours * 60 - 1, 130, 0, 62), *way, (3, 0, 0, None), (1, 0, 0, None))
    assert gauge.begin()
    assert gauge.start_gallons == pytest.approx(2 * 62 - 130 / DEFAULT_MPG, abs=0.5)
    assert gauge.told["burned_miles"] == pytest.approx(130, abs=1)
    assert gauge.told["source"] == "the truck's last reading, less the fuel burned since"


def test_one_wrong_place_on_the_way_leaves_its_miles_known(gauge: Gauge) -> None:
    way = [(200 - 10 * number, 130 - 10 * number, 60, None) for number in range(1, 14)]
    gauge.tells((200, 130, 0, 62), (199, 130, 0, 62), *way[:6], (135, 700, 0, 9), *way[6:])
    gauge.tells((3, 0, 0, None), (1, 0, 0, None))
    assert gauge.begin()
    assert gauge.start_gallons == pytest.approx(2 * 62 - 130 / DEFAULT_MPG, abs=0.5)


def test_a_truck_that_drove_nobody_knows_how_far_has_the_assumed_level(gauge: Gauge) -> None:
    gauge.tells((1800, 130, 0, 62), (1799, 130, 0, 62), (3, 0, 0, None), (1, 0, 0, None))
    assert gauge.begin()
    assert gauge.start_gallons == 100


def test_an_error_of_a_gauge_costs_a_company_no_message(gauge: Gauge) -> None:
    gauge.tells(*GAUGE["one_zero"][:3], (5, 0, 0, 61))
    assert gauge.begin()
    gauge.send()
    gauge.tells((4, 0, 0, 100), (3, 0, 0, 61), (2, 0, 0, 0), (1, 0, 0, 60), (0, 0, 0, 255), (-1, 0, 0, 60))
    gauge.tells((-2, 0, 0, 0), (-3, 0, 0, 0), (-4, 0, 0, 0))
    assert gauge.review() is None
    assert len(gauge.messages(*SENT)) == 1
