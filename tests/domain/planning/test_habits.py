"""Habits of fueling keep the limits of the plan, and see no further than the tank reaches."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.planning.habits import (
    Fueling,
    Habit,
    at_every_need,
    buys_usual_gallons,
    cheapest_in_reach,
    fills_up_below,
    fuel_by_habit,
    habit_dollars,
)
from domain.planning.trips import Purchase, Trip, drive_trip
from tests.domain.planning.trips import coarse_trips, random_trip, trip, with_random_floors, with_random_legs
from tests.repeatable import examples


def habits_of(given_trip: Trip, share: float) -> list[Habit]:
    evens = set(range(0, len(given_trip.candidates), 2))
    gallons = share * given_trip.usable_gallons
    return [at_every_need, cheapest_in_reach, fills_up_below(gallons), buys_usual_gallons(gallons, evens)]


TRIPS = (
    st.integers(0, 10_000).map(random_trip)
    | st.integers(0, 10_000).map(lambda seed: with_random_floors(with_random_legs(random_trip(seed))))
    | coarse_trips()
)


@settings(max_examples=examples(60), deadline=None)
@given(TRIPS, st.floats(0, 1))
def test_a_habit_that_arrives_keeps_every_limit_of_the_trip(any_trip: Trip, share: float) -> None:
    free = replace(any_trip, max_stops=None)
    for habit in habits_of(free, share):
        fueling = fuel_by_habit(free, habit)
        if fueling.arrives:
            drive_trip(free, fueling.purchases)  # raises BrokenPlan


@settings(max_examples=examples(60), deadline=None)
@given(TRIPS, st.floats(0, 1))
def test_a_habit_knows_nothing_of_what_lies_beyond_its_tank(any_trip: Trip, share: float) -> None:
    """Prices beyond the reach of a full tank from the first stop on change nothing before it."""
    free = replace(any_trip, max_stops=None)
    for habit in habits_of(free, share):
        bought = fuel_by_habit(free, habit).purchases
        if not bought:
            continue
        beyond = [
            one._replace(price=one.price - 2) if free.gallons_to(one.mile) > free.start_usable_gallons else one
            for one in free.candidates
        ]
        other = fuel_by_habit(replace(free, candidates=tuple(beyond)), habit).purchases
        assert other[0] == bought[0]


def test_who_fills_up_below_30_percent_stops_there_or_at_the_last_pump_before() -> None:
    road = trip((50, 3.0), (150, 3.5), (230, 4.0), (300, 3.0))
    assert fuel_by_habit(road, fills_up_below(25.0)).purchases[0].candidate_index == 2
    gap = trip((50, 3.0), (150, 3.5), (480, 3.0))
    assert fuel_by_habit(gap, fills_up_below(25.0)).purchases[0].candidate_index == 1


def test_who_buys_as_usual_stops_at_the_first_pump_of_the_chain_with_room_for_it() -> None:
    road = trip((50, 3.0), (150, 3.5), (230, 4.0), (300, 3.0))
    fueling = fuel_by_habit(road, buys_usual_gallons(60.0, {0, 2}))
    assert fueling.purchases[0] == Purchase(2, 60.0)
    assert fuel_by_habit(road, buys_usual_gallons(60.0, ())).purchases[0].candidate_index == 2, "none of the chain"


def test_fuel_that_a_habit_leaves_counts_at_what_it_paid() -> None:
    road = trip((100, 3.0), (300, 4.0))
    fueling = fuel_by_habit(road, cheapest_in_reach)
    *_, left = drive_trip(road, fueling.purchases)
    bought = sum(gallons for _, gallons in fueling.purchases)
    paid = sum(road.candidates[index].price * gallons for index, gallons in fueling.purchases)
    assert dollars(road, fueling, left) == pytest.approx(paid)
    assert dollars(road, fueling, left - 10) == pytest.approx(paid - 10 * paid / bought)
    assert dollars(trip((480, 3.0)), fuel_by_habit(trip((480, 3.0)), at_every_need), 0) is None


def test_fuel_that_a_habit_without_a_stop_lacks_is_not_free() -> None:
    """A plan may fill a tank that lasts, where fuel left at the end is worth more than it costs."""
    road = trip((100, 3.0), start_gallons=100.0, distance_miles=300.0)
    fueling = fuel_by_habit(road, cheapest_in_reach)
    assert (fueling.purchases, fueling.arrives) == ([], True)
    assert dollars(road, fueling, 60.0) == pytest.approx(20 * 3.5)


def dollars(road: Trip, fueling: Fueling, left_gallons: float) -> float | None:
    return habit_dollars(road, fueling, left_gallons=left_gallons, price_without_stop=3.5)
