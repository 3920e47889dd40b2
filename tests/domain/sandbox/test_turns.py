"""Turns of a drive: whatever the rhythm of the passes, the truck makes the same fixes."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.contract.shapes import Position
from domain.documents import TimelineEntry
from domain.encoding import write
from domain.lifecycle import RouteStatus
from domain.magic_values import drive_wish
from domain.planning.deviations import OFF_ROAD_MILES, OFF_ROAD_TIME
from domain.planning.explanation import pack_explanation
from domain.roads import Point, Road, great_circle_miles
from domain.roads.implausible_fixes import FASTEST_TRUCK_MPH
from domain.sandbox.detours import with_detour
from domain.sandbox.simulated_truck import FIX_SECONDS
from domain.sandbox.turns import MOST_FIXES, RouteToDrive, StoredTruck, Turn, first_fuel_percent, take_turn
from tests.factories import PLAN
from tests.repeatable import examples

START = datetime(2026, 11, 24, 8, tzinfo=UTC)
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
MILES = 150.0
STOPS = [
    {"name": "A", "latitude": 41.0, "longitude": -88.0},
    {"name": "B", "latitude": 41.0, "longitude": -87.0},
    {"name": "C", "latitude": 41.0, "longitude": -85.0},
]
LINE = [[41.0, -88.0 + 0.1 * step] for step in range(31)]
LINE_MILES = [MILES * step / 30 for step in range(31)]
EXPLANATION = pack_explanation({"line": LINE, "line_miles": LINE_MILES})  # type: ignore[typeddict-item]
PLAN_ID, OTHER_PLAN = UUID(int=1), UUID(int=2)
FUEL_STOP = {**PLAN["stops"][0], "latitude": 41.0, "longitude": -86.0, "milesFromOrigin": 100.0, "gallonsToFill": 100}


def route(status: RouteStatus = RouteStatus.ACTIVE, **changes: Any) -> RouteToDrive:
    values: dict[str, Any] = {
        "id": UUID(int=7),
        "vehicle_id": UUID(int=8),
        "stops": STOPS,
        "status": status,
        "has_arrived": True,
        "plan_id": PLAN_ID,
        "fuel_stops": [FUEL_STOP],
        "road_plan_id": PLAN_ID,
        "timeline": [
            TimelineEntry(stop=0, mile=None, plannedArrival=None),
            TimelineEntry(stop=1, mile=50.0, plannedArrival=None),
            TimelineEntry(stop=2, mile=MILES, plannedArrival=None),
        ],
        "explanation": EXPLANATION,
        "leaves_road": False,
        "mpg": 6.5,
        "capacity_gallons": 200.0,
    }
    return RouteToDrive(**values | changes)


@dataclass
class Drive:
    """A drive as the table keeps it: each turn starts from what the one before has stored, as JSON."""

    truck: bytes
    simulated_at: datetime = START
    moves_at: datetime = NOW
    plan_id: UUID | None = None
    has_ended: bool = False

    def turn(self, now: datetime, speedup: int = 60, **changes: Any) -> list[Position]:
        if now < self.moves_at or self.has_ended:
            return []
        truck = msgspec.json.decode(self.truck, type=StoredTruck)
        one = route(**{"road_plan_id": self.plan_id, **changes})
        turn: Turn = take_turn(one, truck, self.simulated_at, self.moves_at, speedup=speedup, now=now)
        self.truck, self.simulated_at, self.moves_at = write(turn.truck), turn.simulated_at, turn.moves_at
        self.plan_id, self.has_ended = turn.plan_id, turn.has_ended
        return turn.positions


def started() -> Drive:
    return Drive(write(StoredTruck(fuel_percent=25.0, stood_at=NOW)))


def whole(drive: Drive, waits: Sequence[float], speedup: int = 60, **changes: Any) -> list[Position]:
    """All fixes of a drive whose passes come after these seconds, again and again."""
    now, fixes = NOW, list[Position]()
    for number in range(20_000):
        fixes += drive.turn(now, speedup, **changes)
        if drive.has_ended:
            return fixes
        now += timedelta(seconds=waits[number % len(waits)])
    raise AssertionError("it never ends")


def in_order(fixes: Sequence[Position]) -> list[tuple[datetime, float, float, float]]:
    """Once each, in order of time: as the feed stores them."""
    return sorted({(fix.recorded_at, fix.latitude, fix.longitude, fix.fuel_percent or 0.0) for fix in fixes})


@pytest.mark.slow
@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.floats(12, 1800), min_size=1, max_size=5), st.sampled_from([1, 7, 60, 300]))
def test_any_rhythm_of_passes_gives_the_same_fixes(simulated_waits: list[float], speedup: int) -> None:
    waits = [wait / speedup for wait in simulated_waits]
    assert in_order(whole(started(), waits, speedup)) == in_order(whole(started(), [2.0], 60))


def test_fixes_are_half_a_minute_apart_and_plausible() -> None:
    fixes = in_order(whole(started(), [2.0]))
    for (sooner, *place, _), (later, *other, _) in itertools.pairwise(fixes):
        assert later - sooner == timedelta(seconds=FIX_SECONDS)
        hours = (later - sooner) / timedelta(hours=1)
        assert great_circle_miles(Point(*place), Point(*other)) < FASTEST_TRUCK_MPH * hours + 2


def test_some_fixes_come_late_and_some_twice() -> None:
    fixes = whole(started(), [2.0])
    times = [fix.recorded_at for fix in fixes]
    assert times != sorted(times), "one comes late"
    assert len(set(times)) < len(times), "one comes twice"


def test_the_tank_is_filled_where_the_plan_says() -> None:
    fixes = in_order(whole(started(), [2.0]))
    rises = [
        (after[1:3], after[3] - before[3]) for before, after in itertools.pairwise(fixes) if after[3] > before[3] + 5
    ]
    ((place, rise),) = rises
    assert great_circle_miles(Point(*place), Point(41.0, -86.0)) < 0.1
    assert rise == pytest.approx(50, abs=0.2)


def test_a_new_plan_changes_where_it_fuels() -> None:
    drive = started()
    drive.turn(NOW)
    fixes = whole(drive, [2.0], plan_id=OTHER_PLAN, fuel_stops=[{**FUEL_STOP, "longitude": -86.5}])
    fueled = [(fix.latitude, fix.longitude) for fix in fixes if fix.speed_mph == 0 and (fix.fuel_percent or 0) > 50]
    assert great_circle_miles(Point(*fueled[0]), Point(41.0, -86.5)) < 0.1


@pytest.mark.parametrize("status", [RouteStatus.PENDING, RouteStatus.DRAFT, RouteStatus.PLANNED])
def test_simulated_time_waits_at_the_first_stop_until_the_driver_has_the_plan(status: RouteStatus) -> None:
    drive = Drive(write(StoredTruck(fuel_percent=25.0)))
    stood = drive.turn(NOW, 3600, status=status, plan_id=None, explanation=None)
    assert {
        (fix.speed_mph, great_circle_miles(Point(fix.latitude, fix.longitude), Point(41, -88)) < 0.05) for fix in stood
    } == {(0, True)}
    came = drive.simulated_at
    assert drive.turn(NOW + timedelta(hours=1), 3600, status=status, plan_id=None, explanation=None) == []
    assert drive.simulated_at == came == START + timedelta(minutes=5)


def test_a_truck_that_nobody_has_seen_stands_again() -> None:
    drive = Drive(write(StoredTruck(fuel_percent=25.0)))
    unseen: dict[str, Any] = {"status": RouteStatus.DRAFT, "plan_id": None, "explanation": None, "has_arrived": False}
    assert len(drive.turn(NOW, **unseen)) == 10
    assert drive.turn(NOW + timedelta(seconds=5), **unseen) == []
    assert len(drive.turn(NOW + timedelta(seconds=36), **unseen)) == 10


@pytest.mark.parametrize(
    "status", [RouteStatus.COMPLETED, RouteStatus.ERROR, RouteStatus.CANCELED, None, RouteStatus.PENDING_MAPPING]
)
def test_a_drive_ends_with_its_route_and_with_its_truck(status: RouteStatus | None) -> None:
    drive = started()
    drive.turn(NOW + timedelta(seconds=1), status=status)
    assert drive.has_ended


def test_a_drive_that_is_days_late_goes_on_from_where_it_is() -> None:
    drive = started()
    drive.turn(NOW)
    fixes = drive.turn(NOW + timedelta(days=300), 3600)
    assert len(fixes) <= MOST_FIXES + 50


def test_a_detour_goes_as_far_and_as_long_off_the_road_as_deviations_need() -> None:
    fixes = in_order(whole(started(), [2.0], leaves_road=True))
    line = [Point(*place) for place in LINE]
    off = [
        at
        for at, *place, _ in fixes
        if min(great_circle_miles(Point(*place), one) for one in line) > OFF_ROAD_MILES + 3
    ]
    assert off[-1] - off[0] > OFF_ROAD_TIME
    assert len(fixes) > len(in_order(whole(started(), [2.0])))
    assert great_circle_miles(Point(*fixes[-1][1:3]), Point(41.0, -85.0)) < 0.05


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(-89, 89), st.floats(-180, 180)), min_size=2, max_size=6),
    st.floats(0, 500),
)
def test_any_road_can_have_a_detour(places: list[tuple[float, float]], first_leg: float) -> None:
    line = np.array(places)
    miles = np.linspace(0, 500, len(places))
    longer, far = with_detour(Road(500.0, line, miles, (), (), ""), first_leg)
    assert np.isfinite(longer.line).all()
    assert (np.abs(longer.line[:, 0]) <= 90).all()
    assert (np.diff(longer.line_miles) >= 0).all()
    assert 0 <= far <= longer.distance_miles == 550


def test_the_fuel_at_the_start_is_as_asked_for() -> None:
    assert first_fuel_percent(None, 15) == 25
    assert first_fuel_percent(None, 100) == 95
    assert first_fuel_percent(drive_wish("SANDBOX-LOWFUEL", "x"), 15) == 10
    assert first_fuel_percent(drive_wish("SANDBOX-LOWFUEL", "x"), 0) == 2
    assert first_fuel_percent(drive_wish("SANDBOX-EMPTY", "x"), 15) == 0
