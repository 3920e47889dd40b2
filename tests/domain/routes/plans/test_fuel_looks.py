"""The fuel of trucks on their way is looked at: a truck that burns more than its plan gets a new one in time, whatever
else the company wants, and few looks tell it."""

import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import msgspec
import pytest

from domain.accounts.companies import set_policy
from domain.accounts.policy import Policy
from domain.burn.shortfalls import ANY_PERCENT, NextLook
from domain.contract.shapes import Position
from domain.database.connections import Connection
from domain.documents import PlanCause
from domain.lifecycle import Environment
from domain.needs.company_needs import find_needs
from domain.needs.route_needs import NamedRoute, RoutesInNeed
from domain.planning.explanation import unpack_explanation
from domain.routes.plans import fuel_looks, replans, review_requests, reviews
from domain.routes.plans.fuel_looks import Looked, Shortfall, TruckToLookAt
from domain.routes.plans.fuel_outlooks import beginning_of, fuel_of_trips
from domain.routes.plans.replans import ask_for_replans
from domain.routes.progress import tracking
from domain.settings import Settings
from domain.telematics.due_trucks import MAY_WAIT
from tests.domain.helpers import corrected_by_hand, positions_at, post
from tests.domain.routes.journey import PERCENT_PER_MILE, Journey, Leg
from tests.factories import DOT, NEWARK, Fleet, put_demo_stations
from tests.jobs import jobs_after, jobs_of
from tests.rows import named

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


@pytest.fixture
def stations(connection: Connection, now: datetime) -> None:
    put_demo_stations(connection, now=now)


@pytest.fixture
def journey(
    request: Any, connection: Connection, fleet: Fleet, stations: None, settings: Settings, now: datetime
) -> Journey:
    """A live journey where the test does not say `in_both`."""
    return Journey(connection, fleet, settings, now, live=getattr(request, "param", "live") == "live", percent=36.0)


in_both = pytest.mark.parametrize("journey", ["live", "sandbox"], indirect=True)
"""Both environments, for tests of the looks: other fixes are looked at in the sandbox than in live traffic. What a look
leads to is the same."""


class Truck:
    """Truck 101 drives as the newest message says, and burns so many times what its plan says."""

    def __init__(
        self, journey: Journey, burns: float, *, bias: float = 0.0, noise: random.Random | None = None
    ) -> None:
        self.journey, self.burns, self.bias, self.noise = journey, burns, bias, noise
        self.percent = journey.percent - bias
        self.lowest = self.percent
        self.told: list[float] = []
        """The level in the tank at each new message."""

    def positions(self, fixes: Sequence[Position]) -> Iterator[Position]:
        """The fixes with the levels of its gauge."""
        for fix in fixes:
            self.percent -= self.burns * PERCENT_PER_MILE * 5
            self.lowest = min(self.lowest, self.percent)
            shown = self.percent + self.bias + (self.noise.gauss(0, 1.5) if self.noise is not None else 0.0)
            yield msgspec.structs.replace(fix, fuel_percent=max(round(shown), 0))

    def drive(self, to_mile: float, *, fuels: bool = True) -> None:
        journey = self.journey
        messages, stops = len(journey.messages()), journey.fuel_stops
        bought = set[tuple[float, float]]()
        for position in self.positions(journey.fixes(Leg(0, to_mile), minutes_apart=5.0)):
            if jobs := journey.report([position]):
                journey.run(jobs)
                stops = journey.fuel_stops
                if len(journey.messages()) > messages:
                    messages = len(journey.messages())
                    self.told.append(self.percent)
            for stop in stops if fuels else ():
                place = (stop["latitude"], stop["longitude"])
                near = abs(position.latitude - place[0]) + abs(position.longitude - place[1]) < 0.12
                if near and place not in bought:
                    bought.add(place)
                    self.percent = min(self.percent + stop["gallonsToFill"] / 2, 95.0)


@in_both
def test_a_truck_that_burns_more_gets_a_plan_from_where_it_is(journey: Journey) -> None:
    (stop,) = journey.fuel_stops
    assert stop["arrivalFuelPercent"] == 16
    truck = Truck(journey, 1.4)
    truck.drive(stop["milesFromOrigin"] - 10)

    _, second = journey.versions()
    assert second.cause["kind"] == "burn"
    assert second.cause["text"].startswith("burns 4.")
    assert "mpg instead of 6.5" in second.cause["text"]
    assert f"would be left at {stop['name']}" in second.cause["text"]
    (level,) = truck.told
    assert level > 15
    _, corrected = journey.messages()
    assert corrected.text.startswith("CORRECTED fuel plan")
    assert "\nWhy: burns 4." in corrected.text
    inputs = unpack_explanation(second.explanation)["inputs"]
    assert inputs["burn"]["kind"] == "measured"
    assert inputs["mpg"] == pytest.approx(6.5 / 1.4, abs=0.3)
    assert journey.route.plan_id == second.id


def test_a_driver_is_told_a_higher_level_at_the_stop_that_he_has_anyway(
    connection: Connection, fleet: Fleet, stations: None, settings: Settings, now: datetime
) -> None:
    set_policy(connection, fleet.company_id, Policy(end_fuel_percent=15), DOT)
    journey = Journey(connection, fleet, settings, now, live=False, percent=38.0)
    (stop,) = journey.fuel_stops
    truck = Truck(journey, 1.1)
    truck.drive(stop["milesFromOrigin"] + 20)

    _, second = journey.versions()
    assert second.cause["kind"] == "level"
    assert second.cause["text"].startswith("burns ")
    assert f"behind {stop['name']} would leave" in second.cause["text"]
    (raised,) = journey.fuel_stops
    assert raised["name"] == stop["name"]
    assert raised["fillToPercent"] >= stop["fillToPercent"] + 3
    assert "\nWhy: burns " in journey.messages()[1].text
    burn = unpack_explanation(second.explanation)["inputs"]["burn"]
    assert burn["kind"] == "measured"
    assert burn["spread_percent"] > 0
    assert truck.lowest > 15


def test_a_driver_who_would_use_some_of_the_reserve_is_told_an_earlier_stop_that_costs_little_more(
    journey: Journey,
) -> None:
    (stop,) = journey.fuel_stops
    truck = Truck(journey, 1.16)
    truck.drive(stop["milesFromOrigin"] + 20)

    _, second = journey.versions()
    assert second.cause["kind"] == "level"
    assert second.cause["text"].endswith(f"13 % would be left at {stop['name']}")
    earlier = journey.fuel_stops[0]
    assert earlier["name"] != stop["name"]
    assert earlier["milesFromOrigin"] < 100
    assert "\nWhy: burns 5." in journey.messages()[1].text
    assert truck.lowest > 15


@pytest.mark.parametrize(("kind", "least_percent"), [("level", 15), ("burn", 11)])
def test_a_stop_that_a_plan_for_another_level_keeps_is_reached_with_the_reserve(
    journey: Journey, kind: str, least_percent: float
) -> None:
    """Before it others are in reach, which were only dearer. Where the fuel did not last, none was."""
    journey.connection.execute(
        "UPDATE plans SET cause = jsonb_build_object('kind', %s::text),"
        " document = jsonb_set(document, '{stops,0,arrivalFuelPercent}', '11') WHERE route_id = %s",
        (kind, journey.route_id),
    )
    begins = beginning_of(fuel_of_trips(journey.connection, [journey.route_id])[journey.route_id])
    assert begins is not None
    assert begins[1].percent == least_percent


@in_both
@pytest.mark.parametrize("burns", [1.15, 1.2])
def test_such_a_truck_stays_above_the_floor(journey: Journey, burns: float) -> None:
    truck = Truck(journey, burns)
    truck.drive(750)
    assert truck.lowest > 10
    assert len(journey.messages()) <= 3


@pytest.mark.parametrize(("journey", "seed"), [("live", 0), ("sandbox", 1), ("live", 2)], indirect=["journey"])
def test_a_truck_that_burns_what_its_plan_says_is_told_nothing(journey: Journey, seed: int) -> None:
    truck = Truck(journey, 1.0, bias=3.0 * (seed - 1), noise=random.Random(seed))
    truck.drive(750)
    assert journey.causes() == [None]
    assert journey.track.low_since is None


@in_both
def test_few_fixes_have_the_fuel_looked_at(journey: Journey) -> None:
    truck, jobs = Truck(journey, 1.0), 0
    for position in truck.positions(journey.fixes(Leg(20, 240), minutes_apart=5.0)):
        posted = journey.report([position])
        jobs += bool(posted)
        journey.run(posted)
    assert jobs <= 4  # of 44


def times_stored(journey: Journey) -> int:
    """The number of times that this transaction has stored a track."""
    (row,) = named(journey.connection).execute(
        "SELECT n_tup_upd::int AS times FROM pg_stat_xact_user_tables WHERE relname = 'tracks'"
    )
    times: int = row.times
    return times


@in_both
def test_live_trucks_wait_for_the_sweep_which_has_many_looked_at_at_once(journey: Journey) -> None:
    is_live = journey.tenant.environment == Environment.LIVE
    Truck(journey, 1.0).drive(30)
    late, first, *further = journey.fixes(Leg(28, 29.25), minutes_apart=0.25)
    journey.connection.execute(
        "UPDATE tracks SET look_from = %(at)s, look_by = %(at)s WHERE vehicle_id = %(vehicle)s",
        {"at": late.recorded_at, "vehicle": journey.fleet.trucks[0]},
    )
    stored = [times_stored(journey)]
    for fix in (first, *further):
        journey.now = fix.recorded_at
        post(journey.connection, journey.tenant, [fix], now=journey.now)
        assert len(jobs_of(journey.connection)) == (0 if is_live else 1)
        stored.append(times_stored(journey))
    assert [after - before for before, after in pairwise(stored)] == [2] + [1 if is_live else 2] * len(further)
    waits_until = journey.track.unprocessed_since
    assert not is_live or waits_until == first.recorded_at.replace(second=0, microsecond=0) + MAY_WAIT
    post(journey.connection, journey.tenant, [late], now=journey.now)
    assert journey.track.unprocessed_from == late.recorded_at
    (job,) = journey.swept()
    journey.run([job])
    assert journey.track.look_by > fix.recorded_at


def test_a_truck_at_a_stop_is_looked_at_only_where_its_fixes_make_it_due(
    journey: Journey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A truck at a stop has a job for each fix, which loads its fixes anyway."""
    looks = Mock(wraps=fuel_of_trips)
    monkeypatch.setattr(fuel_looks, "fuel_of_trips", looks)
    Truck(journey, 1.0).drive(30)
    journey.connection.execute(
        "UPDATE tracks SET look_from = %s, look_below_percent = 20, look_by = %s WHERE vehicle_id = %s",
        (journey.now, journey.now + timedelta(days=9), journey.fleet.trucks[0]),
    )
    for level, looked_at in ((50.0, 0), (19.0, 1)):
        looks.reset_mock()
        journey.now += timedelta(hours=12)
        journey.run(journey.report(positions_at(NEWARK, journey.now, count=1, fuel_percent=level)))
        assert looks.call_count == looked_at


@in_both
def test_a_trip_that_ends_with_the_fixes_of_a_look_gets_no_plan(
    journey: Journey, monkeypatch: pytest.MonkeyPatch
) -> None:
    Truck(journey, 1.0).drive(30)

    def falls_short(_: Connection, __: str, trucks: Sequence[TruckToLookAt]) -> dict[UUID, Looked]:
        look = NextLook(journey.now, ANY_PERCENT, journey.now)
        shortfalls = {one.track.vehicle_id: Shortfall("burn", one.route_id, journey.now, "", 0) for one in trucks}
        return {vehicle_id: Looked(look, journey.now, short) for vehicle_id, short in shortfalls.items()}

    looks = Mock(side_effect=falls_short)
    monkeypatch.setattr(tracking, "look_at_trucks", looks)
    journey.connection.execute("UPDATE tracks SET look_from = newest_at, look_by = newest_at, look_below_percent = 50")
    journey.now += timedelta(hours=24)
    journey.report(positions_at(NEWARK, journey.now, fuel_percent=40.0))
    jobs = journey.process()
    assert len(looks.call_args_list[0].args[2]) == 1
    assert "plans.review" not in {job.name for job in jobs}
    journey.run(jobs)
    assert (journey.route.status, journey.route.replan) == ("completed", None)
    assert (journey.track.look_by, journey.track.low_since) == (None, None)
    assert journey.causes() == [None]


def test_after_a_message_a_truck_is_processed_where_its_fixes_may_show_something(journey: Journey) -> None:
    look_from = journey.track.look_from
    for newest_at, is_processed in ((look_from - timedelta(seconds=1), False), (look_from, True)):
        journey.connection.execute(
            "UPDATE tracks SET newest_at = %s WHERE vehicle_id = %s", (newest_at, journey.fleet.trucks[0])
        )
        watched = partial(replans.watch_again, journey.connection, journey.route_id, delivered=True, now=journey.now)
        assert len(jobs_after(journey.connection, watched)) == is_processed
        assert (journey.track.unprocessed_from is not None) is is_processed


@in_both
def test_a_truck_that_passes_its_stop_is_told_before_it_is_empty_though_no_replans_are_wanted(
    journey: Journey,
) -> None:
    (stop,) = journey.fuel_stops
    truck = Truck(journey, 1.0)
    truck.drive(stop["milesFromOrigin"] + 60, fuels=False)
    assert journey.causes() == [None, "burn"]
    assert "% in the tank; " in journey.versions()[1].cause["text"]
    assert truck.told[0] > 10


def test_nothing_is_looked_at_where_the_policy_says_so(
    connection: Connection, fleet: Fleet, stations: None, settings: Settings, now: datetime
) -> None:
    set_policy(connection, fleet.company_id, Policy(watch_burn=False), DOT)
    journey = Journey(connection, fleet, settings, now, live=True, percent=60.0)
    Truck(journey, 1.3).drive(300, fuels=False)
    assert journey.causes() == [None]
    assert journey.track.look_by is None


def test_the_policy_may_be_switched_off_on_the_way(journey: Journey) -> None:
    set_policy(journey.connection, journey.fleet.company_id, Policy(watch_burn=False), DOT)
    Truck(journey, 1.3).drive(300, fuels=False)
    assert journey.causes() == [None]
    assert journey.track.look_by is None


def named_need(journey: Journey) -> NamedRoute:
    need = find_needs(journey.connection, journey.tenant, kinds=["gets_low"], now=journey.now)["gets_low"]
    assert isinstance(need, RoutesInNeed)
    return need.named[0]


def test_two_plans_are_made_at_most_and_the_need_stays(journey: Journey) -> None:
    truck = Truck(journey, 1.4)
    truck.drive(520, fuels=False)
    assert journey.causes().count("burn") == 2
    assert journey.track.low_since is not None
    assert named_need(journey).detail == "101", "the reason of an earlier shortfall is not its reason"
    cause = journey.versions()[-1].cause
    journey.connection.execute(
        "UPDATE tracks SET low_since = %s WHERE vehicle_id = %s", (cause["at"], journey.fleet.trucks[0])
    )
    assert named_need(journey).detail == f"101: {cause['text']}"
    made = [version.as_of for version in journey.versions()]
    assert all(after - before >= timedelta(minutes=30) for before, after in pairwise(made))


def test_a_truck_that_sends_zeros_is_told_nothing(journey: Journey) -> None:
    truck = Truck(journey, 1.0)
    fixes = [
        msgspec.structs.replace(one, fuel_percent=0.0) if number % 4 == 3 else one
        for number, one in enumerate(truck.positions(journey.fixes(Leg(0, 240), minutes_apart=5.0)))
    ]
    for position in fixes:
        journey.run(journey.report([position]))
    assert journey.causes() == [None]


def test_a_truck_that_fueled_by_itself_is_told_nothing(journey: Journey) -> None:
    """It burns much more, but somebody filled it up after 100 miles."""
    truck = Truck(journey, 1.25)
    for number, fix in enumerate(journey.fixes(Leg(0, 400), minutes_apart=5.0)):
        if number == 20:
            truck.percent = 95.0
        for position in truck.positions([fix]):
            journey.run(journey.report([position]))
    assert journey.causes() == [None]


def test_no_plan_is_made_while_a_correction_is_being_delivered(journey: Journey) -> None:
    corrected_by_hand(journey.connection, journey.route_id, now=journey.now)
    journey.connection.execute("UPDATE plans SET fuel_percent = 36 WHERE route_id = %s", (journey.route_id,))
    Truck(journey, 1.3).drive(300, fuels=False)
    assert journey.causes() == [None, None]


def test_a_plan_without_its_explanation_is_watched_as_well(journey: Journey) -> None:
    journey.connection.execute("UPDATE plans SET explanation = NULL WHERE route_id = %s", (journey.route_id,))
    line = journey.known_road()
    journey.known_road = lambda: line  # type: ignore[method-assign]
    (stop,) = journey.fuel_stops
    fixes = journey.fixes(Leg(0, stop["milesFromOrigin"] - 10), minutes_apart=5.0)
    for position in Truck(journey, 1.4).positions(fixes):
        journey.run(journey.report([position]))
    assert "burn" in journey.causes()


@pytest.mark.parametrize("miles_on", [0, 150])
def test_the_next_plan_of_a_trip_keeps_the_burn_that_was_measured(journey: Journey, miles_on: int) -> None:
    """Soon after such a plan its levels prove nothing yet, and later they agree with it."""
    (stop,) = journey.fuel_stops
    truck = Truck(journey, 1.4)
    truck.drive(stop["milesFromOrigin"] - 10)
    assert journey.causes() == [None, "burn"]
    measured = journey.versions()[-1]
    told_at = measured.as_of
    truck.percent = 80.0
    fixes = journey.fixes(Leg(stop["milesFromOrigin"] - 10, stop["milesFromOrigin"] + miles_on), minutes_apart=5.0)
    for position in truck.positions(fixes):
        post_alone(journey, position)
    cause = PlanCause(kind="off_road", at=journey.now.isoformat(), text="left its road", fuelStopsPassed=0)
    ask_for_replans(journey.connection, {journey.route_id: cause}, now=journey.now)
    journey.run(jobs_of(journey.connection))

    inputs = [unpack_explanation(one.explanation)["inputs"] for one in journey.versions()]
    assert journey.versions()[-1].as_of > told_at
    assert inputs[-1]["burn"]["kind"] == "measured"
    assert inputs[-1]["mpg"] == pytest.approx(6.5 / 1.4, abs=0.35)


@in_both
def test_a_plan_that_a_dispatcher_asks_for_on_the_way_has_the_burn_of_the_trip(journey: Journey) -> None:
    set_policy(journey.connection, journey.fleet.company_id, Policy(watch_burn=False), DOT)
    Truck(journey, 1.25).drive(200, fuels=False)
    assert journey.causes() == [None]
    assert review_requests.by_dispatcher(journey.connection, journey.tenant, journey.route_id, now=journey.now)
    review = reviews.begin_review(journey.connection, journey.route_id, now=journey.now)
    assert review is not None
    is_there = journey.tenant.environment == "live"  # a review in the sandbox plans as of the departure
    assert review.task.burn.kind == ("measured" if is_there else "declared")


def post_alone(journey: Journey, position: Position) -> None:
    """The truck's fix is stored; nobody looks at it yet."""
    journey.report([position])


def test_plans_that_the_driver_was_not_told_leave_him_both(journey: Journey, monkeypatch: pytest.MonkeyPatch) -> None:
    """He fuels at the same station, for some gallons more: that is no reason to leave him alone later."""
    (stop,) = journey.fuel_stops
    truck = Truck(journey, 1.4)
    with monkeypatch.context() as patched:
        patched.setattr(replans, "_is_told", lambda *_: False)
        truck.drive(stop["milesFromOrigin"] - 60)
    assert journey.causes().count("burn") >= 2
    assert truck.told == []
    for position in truck.positions(
        journey.fixes(Leg(stop["milesFromOrigin"] - 60, stop["milesFromOrigin"] - 5), minutes_apart=5.0)
    ):
        journey.run(journey.report([position]))
    assert len(journey.messages()) > 1


def drive_without_levels(journey: Journey, *legs: Leg, sent: float | None = None) -> None:
    for fix in journey.fixes(*legs, minutes_apart=5.0):
        position = msgspec.structs.replace(fix, fuel_percent=sent)
        journey.run(journey.report([position]))


def test_dispatchers_alone_are_told_of_a_truck_without_levels_that_drove_far_off_its_road(journey: Journey) -> None:
    (stop,) = journey.fuel_stops
    around = Leg(100, 160, north_miles=30), Leg(160, 100, north_miles=30)
    drive_without_levels(journey, Leg(0, 100), *around, Leg(100, stop["milesFromOrigin"] - 10))
    assert journey.track.low_since is not None
    assert named_need(journey).detail == "101: sends no level; by its miles its fuel does not last"
    assert journey.causes() == [None]
    assert len(journey.messages()) == 1
    assert journey.route.replan is None


@pytest.mark.parametrize("sent", [0.0, 102.0, 255.0])
def test_a_truck_without_levels_is_watched_with_the_newest_figure_of_its_burn(
    connection: Connection, fleet: Fleet, stations: None, settings: Settings, now: datetime, sent: float
) -> None:
    """Its plan was made with the level that the policy assumes. By its plan's own figure it arrives as planned."""
    journey = Journey(connection, fleet, settings, now, live=True, percent=0.0)
    assert journey.versions()[0].fuel_at is None
    first = journey.fuel_stops[0]["milesFromOrigin"]
    looked_at = journey.track.look_by
    drive_without_levels(journey, Leg(0, first - 100), sent=sent)
    assert journey.track.look_by > looked_at
    assert (journey.track.look_below_percent, journey.track.low_since) == (0, None)

    connection.execute("UPDATE vehicles SET mpg = 3.9 WHERE id = %s", (fleet.trucks[0],))
    drive_without_levels(journey, Leg(first - 100, first - 10), sent=sent)
    assert named_need(journey).detail == "101: sends no level; by its miles its fuel does not last"
    assert journey.causes() == [None]
    drive_without_levels(journey, Leg(first, first + 150))
    assert named_need(journey).at is not None, "it bought what its plan says, and that is less than it burned"
