"""Driven legs lose no planned mile, whatever is left of a plan, and purchases count where they lie."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from domain.burn.figures import DEFAULT_MPG
from domain.ifta.legs import DrivenLeg, DrivenRoute, PlannedPurchase, PlannedRoad, driven_legs
from domain.roads import Point, Road
from domain.roads.highways import HighwayRoads
from domain.roads.states import default_states
from tests.domain.helpers import place_of
from tests.factories import JOLIET, NEWARK, PERRYSBURG
from tests.repeatable import examples

roads = HighwayRoads()
states = default_states()

STOPS: list[Any] = [JOLIET, PERRYSBURG, NEWARK]
START, END = datetime(2026, 10, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)

INDIANA, OHIO, PENNSYLVANIA = Point(41.70, -86.00), Point(41.45, -82.20), Point(41.00, -78.40)


def route(
    *plans: PlannedRoad, reached: Mapping[int, datetime] | Sequence[int] = (0, 1, 2), mpg: float | None = 7.0
) -> DrivenRoute:
    """A route from Joliet over Perrysburg to Newark, with stops reached an hour apart unless other times are given."""
    arrivals = reached if isinstance(reached, Mapping) else {stop: NOON + timedelta(hours=stop) for stop in reached}
    return DrivenRoute(STOPS, arrivals, plans, mpg)


def planned(
    road: Road, purchases: Sequence[PlannedPurchase] = (), *, first: int = 1, line: bool = True, mpg: float | None = 6.0
) -> PlannedRoad:
    """The plan over a road whose second point is the stop `first`."""
    miles = {first + number: round(mile, 2) for number, mile in enumerate(road.stop_miles[1:])}
    return PlannedRoad(miles, purchases, road.line if line else None, road.line_miles if line else None, mpg)


def legs_of(route: DrivenRoute, start: datetime = START, end: datetime = END) -> list[DrivenLeg]:
    return list(driven_legs(route, start, end, lambda: roads, states))


def miles_of(leg: DrivenLeg) -> float:
    return math.fsum(leg.miles.values())


WHOLE = roads.through([place_of(stop) for stop in STOPS])


def test_a_leg_has_the_plan_s_miles_by_state_and_its_mpg() -> None:
    first, second = legs_of(route(planned(WHOLE)))

    assert set(first.miles) == {"IL", "IN", "OH"}
    assert set(second.miles) == {"OH", "PA", "NJ"}
    assert miles_of(first) == pytest.approx(WHOLE.stop_miles[1], abs=0.01)
    assert miles_of(first) + miles_of(second) == pytest.approx(WHOLE.distance_miles, abs=0.01)
    assert (first.mpg, first.planned, first.rebuilt) == (6.0, True, False)


def test_only_legs_to_stops_that_were_reached_count() -> None:
    assert legs_of(route(planned(WHOLE), reached=())) == []
    assert legs_of(route(planned(WHOLE), reached=[0])) == []
    (leg,) = legs_of(route(planned(WHOLE), reached=[0, 1]))
    assert miles_of(leg) == pytest.approx(WHOLE.stop_miles[1], abs=0.01)


def test_a_stop_that_was_missed_is_on_the_way_to_the_next_one() -> None:
    (leg,) = legs_of(route(planned(WHOLE), reached=[0, 2]))
    assert miles_of(leg) == pytest.approx(WHOLE.distance_miles, abs=0.01)
    (without_plan,) = legs_of(route(reached=[0, 2]))
    assert miles_of(without_plan) == pytest.approx(WHOLE.distance_miles)


def test_a_leg_counts_for_the_quarter_in_which_it_ended() -> None:
    first, second = legs_of(route(planned(WHOLE)))
    reached = {0: END - timedelta(hours=6), 1: END - timedelta(microseconds=1), 2: END}

    assert legs_of(route(planned(WHOLE), reached=reached)) == [first]
    assert legs_of(route(planned(WHOLE), reached=reached), END, END + timedelta(days=90)) == [second]


def test_purchases_count_on_the_leg_where_they_lie_by_their_station_s_state() -> None:
    end = round(WHOLE.stop_miles[1], 2)
    purchases = [
        PlannedPurchase(0.0, 10.0, INDIANA, None),
        PlannedPurchase(130.0, 20.0, INDIANA, "mi"),  # as its data say, though it stands in Indiana
        PlannedPurchase(end, 30.0, OHIO, "Ohio"),  # no code: where it stands
        PlannedPurchase(end + 0.01, 40.0, OHIO, "OH"),
        PlannedPurchase(600.0, 50.0, PENNSYLVANIA, None),
    ]

    first, second = legs_of(route(planned(WHOLE, purchases)))

    assert first.purchases == [("IN", 10.0), ("MI", 20.0), ("OH", 30.0)]
    assert second.purchases == [("OH", 40.0), ("PA", 50.0)]
    (only,) = legs_of(route(planned(WHOLE, purchases), reached=[1, 2]))
    assert only.purchases == second.purchases


def test_a_plan_whose_line_is_deleted_keeps_its_miles_and_its_road_is_found_again() -> None:
    longer = PlannedRoad({1: 300.0, 2: 1000.0}, [PlannedPurchase(400.0, 55.0, OHIO, None)])

    first, second = legs_of(route(longer))

    assert [miles_of(first), miles_of(second)] == pytest.approx([300, 700])
    known = legs_of(route(planned(WHOLE)))
    for leg, like in zip((first, second), known, strict=True):
        assert leg.rebuilt
        assert leg.planned
        assert leg.mpg == 7.0  # the vehicle's: the plan's is deleted too
        shares = {state: miles / miles_of(like) for state, miles in like.miles.items()}
        assert {state: miles / miles_of(leg) for state, miles in leg.miles.items()} == pytest.approx(shares, abs=0.01)
    assert second.purchases == [("OH", 55.0)]


def test_a_leg_to_a_stop_beyond_the_end_of_the_plan_keeps_its_miles_and_purchases() -> None:
    end = WHOLE.stop_miles[1] + 100
    purchases = [PlannedPurchase(end - 50, 40.0, OHIO, "OH")]

    first, second = legs_of(route(planned(WHOLE.up_to(end), purchases)))

    assert (first.rebuilt, second.rebuilt, second.planned) == (False, True, True)
    assert miles_of(second) == pytest.approx(WHOLE.distance_miles - WHOLE.stop_miles[1], abs=0.02)
    assert set(second.miles) == {"OH", "PA", "NJ"}
    assert second.purchases == [("OH", 40.0)]


def test_a_deleted_way_between_two_stops_at_one_place_loses_no_mile() -> None:
    twice = DrivenRoute([JOLIET, JOLIET], {0: NOON, 1: NOON}, [PlannedRoad({1: 0.4}, [])], None)  # type: ignore[list-item]
    (leg,) = legs_of(twice)
    assert leg.miles == {"IL": 0.4}


def test_a_leg_without_a_plan_has_the_miles_of_the_road_through_its_stops() -> None:
    first, second = legs_of(route(mpg=None))

    assert miles_of(first) + miles_of(second) == pytest.approx(WHOLE.distance_miles)
    assert (first.planned, first.rebuilt, first.mpg, first.purchases) == (False, True, DEFAULT_MPG, ())


def test_a_plan_made_late_is_joined_to_the_stop_that_the_truck_had_left() -> None:
    late = roads.through([INDIANA, *(place_of(stop) for stop in STOPS[1:])])  # begins 125 miles after Joliet

    first, second = legs_of(route(planned(late)))

    assert miles_of(first) == pytest.approx(WHOLE.stop_miles[1], rel=0.03)
    assert "IL" in first.miles
    assert miles_of(second) == pytest.approx(late.stop_miles[2] - late.stop_miles[1], abs=0.02)


def test_the_newest_plan_that_leads_over_the_leg_counts() -> None:
    old = planned(
        WHOLE, [PlannedPurchase(100.0, 60.0, INDIANA, None), PlannedPurchase(600.0, 70.0, PENNSYLVANIA, None)]
    )
    new = planned(
        roads.through([place_of(stop) for stop in STOPS[1:]]),
        [PlannedPurchase(50.0, 80.0, OHIO, None)],
        first=2,
        mpg=6.5,
    )

    first, second = legs_of(route(new, old))

    assert (first.mpg, first.purchases) == (6.0, [("IN", 60.0)])
    assert (second.mpg, second.purchases) == (6.5, [("OH", 80.0)])


def test_a_plan_replaced_on_the_way_counts_only_with_the_purchases_behind_the_truck() -> None:
    old = replace(
        planned(WHOLE, [PlannedPurchase(100.0, 60.0, INDIANA, None), PlannedPurchase(600.0, 70.0, PENNSYLVANIA, None)]),
        purchases_behind=1,
    )
    anew = planned(
        roads.through([OHIO, place_of(NEWARK)]), [PlannedPurchase(250.0, 80.0, PENNSYLVANIA, None)], first=2, mpg=6.5
    )

    first, second = legs_of(route(anew, old))
    assert (first.purchases, second.purchases) == ([("IN", 60.0)], [("PA", 80.0)])

    (whole,) = legs_of(route(anew, old, reached=(0, 2)))
    assert sorted(whole.purchases) == [("IN", 60.0), ("PA", 80.0)]


points = st.builds(Point, st.floats(26, 48), st.floats(-122, -70))


@pytest.mark.slow
@settings(max_examples=examples(20), deadline=None, derandomize=True)
@example([Point(40, -100), Point(40, -100), Point(40, -100)], [0, 1, 2], True)
@given(st.lists(points, min_size=2, max_size=5), st.lists(st.integers(0, 4), max_size=5), st.booleans())
def test_the_miles_of_the_legs_are_those_of_the_plan_between_the_stops_reached(
    places: list[Point], reached: list[int], line: bool
) -> None:
    stops: list[Any] = [{"name": "A", "latitude": place.latitude, "longitude": place.longitude} for place in places]
    known = sorted({stop for stop in reached if stop < len(stops)})
    road = roads.through(places)
    purchases = [
        PlannedPurchase(round(mile, 2), 1.0, place, None) for mile, place in zip(road.stop_miles, places, strict=True)
    ]
    driven = DrivenRoute(stops, dict.fromkeys(known, NOON), [planned(road, purchases, line=line)], 7.0)

    legs = legs_of(driven)

    miles = road.stop_miles[known[-1]] - road.stop_miles[known[0]] if known else 0.0
    assert math.fsum(map(miles_of, legs)) == pytest.approx(miles, abs=0.03)
    assert all(one >= 0 for leg in legs for one in leg.miles.values())
    assert sum(len(leg.purchases) for leg in legs) <= len(purchases)
    assert all(np.isfinite(one) for leg in legs for one in leg.miles.values())
