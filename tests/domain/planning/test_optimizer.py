"""The optimizer is exact: it agrees with a mixed-integer program that states the same problem independently."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.planning import optimizer
from domain.planning.optimizer import solve
from domain.planning.rounding import round_and_drive
from domain.planning.trips import BurnedBy, Candidate, Infeasible, Solution, Trip, drive_trip
from tests.benchmarks.optimizer import truck_trip
from tests.domain.planning.oracle import DOLLARS_LOST_TO_ROUNDING, milp_objective
from tests.domain.planning.trips import VARIANTS, coarse_trips, random_trip, trip, with_each, with_random_floors
from tests.repeatable import examples

pytestmark = pytest.mark.slow


def objective(trip: Trip) -> float:
    solution = solve(trip)
    return solution.objective if isinstance(solution, Solution) else math.inf


def agree(trip: Trip) -> bool:
    """Check that the optimizer agrees with the oracle and that the rounded plan can be driven. Returns whether there is
    a plan."""
    solution, expected = solve(trip), milp_objective(trip)
    if isinstance(solution, Infeasible):
        assert expected is None
        assert 0 <= solution.from_mile <= solution.to_mile <= trip.distance_miles
        return False
    assert expected is not None
    assert solution.objective == pytest.approx(expected, abs=1e-6)
    drive_trip(trip, solution.purchases)
    rounded = round_and_drive(trip, solution)
    assert isinstance(rounded, Solution)
    drive_trip(trip, rounded.purchases)
    assert solution.objective - 1e-6 <= rounded.objective <= solution.objective + DOLLARS_LOST_TO_ROUNDING
    return True


@pytest.mark.parametrize("block", [0, 1, 2, 3, 8])
def test_random_trips_agree_with_the_milp(block: int) -> None:
    """Block 8 alone, of the first ten, finds a fault in the merging of cost functions."""
    feasible = [agree(random_trip(seed)) for seed in range(block * 60, block * 60 + 60)]
    assert 10 < sum(feasible) < 50


@pytest.mark.parametrize("block", range(2))
def test_random_trips_with_floors_agree_with_the_milp(block: int) -> None:
    feasible = [agree(with_random_floors(random_trip(seed))) for seed in range(3000 + block * 40, 3040 + block * 40)]
    assert sum(feasible) > 5


@pytest.mark.parametrize("variant", VARIANTS)
def test_trips_with_and_without_each_limit_agree_with_the_milp(variant: str) -> None:
    for seed in range(1000, 1022):
        agree(VARIANTS[variant](random_trip(seed)))


@settings(max_examples=examples(125), deadline=None, derandomize=True)
@given(coarse_trips())
def test_trips_of_round_numbers_agree_with_the_milp(trip: Trip) -> None:
    agree(trip)


@settings(max_examples=examples(75), deadline=None, derandomize=True)
@given(coarse_trips(), st.data())
def test_more_choice_never_costs_more(trip: Trip, data: st.DataObject) -> None:
    most = objective(trip) + 1e-6
    assert objective(replace(trip, usable_gallons=trip.usable_gallons + data.draw(st.integers(1, 80)))) <= most
    assert objective(replace(trip, max_stops=None)) <= most
    assert objective(replace(trip, min_purchase_gallons=trip.min_purchase_gallons / 2)) <= most
    assert objective(replace(trip, reserve_gallons=trip.reserve_gallons / 2)) <= most
    assert objective(replace(trip, margin_gallons=trip.margin_gallons - abs(trip.margin_gallons) / 2)) <= most
    assert objective(replace(trip, end_gallons=trip.end_gallons / 2)) <= most
    assert objective(replace(trip, stop_cost=trip.stop_cost / 2)) <= most
    assert objective(replace(trip, leftover_value_per_gallon=trip.leftover_value_per_gallon + 1)) <= most
    assert objective(with_each(trip, lambda one: one._replace(price=one.price - 0.5))) <= most
    assert objective(with_each(trip, lambda one: one._replace(floor_gallons=one.floor_gallons / 2))) <= most


@settings(max_examples=examples(75), deadline=None, derandomize=True)
@given(coarse_trips().filter(lambda trip: trip.candidates), st.data())
def test_another_or_a_cheaper_station_never_costs_more(trip: Trip, data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(trip.candidates))
    without = tuple(candidate for candidate in trip.candidates if candidate is not chosen)
    cheaper = with_each(trip, lambda one: one._replace(price=one.price - 0.5) if one is chosen else one)
    assert objective(replace(trip, candidates=without)) >= objective(trip) - 1e-6
    assert objective(cheaper) <= objective(trip) + 1e-6


@settings(max_examples=examples(30), deadline=None, derandomize=True)
@given(coarse_trips(), st.lists(st.integers(1, 29), max_size=4, unique=True))
def test_legs_that_burn_the_same_are_one_leg(trip: Trip, cuts: list[int]) -> None:
    miles = sorted({0.0, trip.distance_miles, *(40.0 * cut for cut in cuts if 40 * cut < trip.distance_miles)})
    legs = replace(trip, burned=tuple(BurnedBy(mile, mile / trip.mpg) for mile in miles))
    assert objective(legs) == pytest.approx(objective(trip), abs=1e-6)


@settings(max_examples=examples(75), deadline=None, derandomize=True)
@given(coarse_trips())
def test_the_fewest_stops_win_where_costs_are_equal(trip: Trip) -> None:
    """A cent a stop is less than any other difference between the costs of these trips."""
    free, for_a_cent = solve(replace(trip, stop_cost=0.0)), solve(replace(trip, stop_cost=0.01))
    if isinstance(free, Solution):
        assert isinstance(for_a_cent, Solution)
        assert len(free.purchases) == len(for_a_cent.purchases)


@settings(max_examples=examples(75), deadline=None, derandomize=True)
@given(coarse_trips(), st.data())
def test_what_is_known_before_changes_no_solution(trip: Trip, data: st.DataObject) -> None:
    """Known are the purchases of the same trip with other prices; they may break a limit, or be no plan at all."""
    prices = data.draw(st.lists(st.integers(2, 6), min_size=len(trip.candidates), max_size=len(trip.candidates)))
    other = replace(trip, candidates=tuple(map(with_price, trip.candidates, prices)))
    other = replace(other, usable_gallons=trip.usable_gallons + data.draw(st.sampled_from([0, 20])))
    found, expected = solve(other), solve(trip)
    known = found.purchases if isinstance(found, Solution) else ()
    assert solve(trip, known) == expected
    if isinstance(expected, Solution):
        assert solve(trip, expected.purchases) == expected


@settings(max_examples=examples(75), deadline=None, derandomize=True)
@given(coarse_trips())
def test_the_stops_without_a_limit_change_no_solution_with_fewer(trip: Trip) -> None:
    cheapest = solve(replace(trip, max_stops=None))
    if isinstance(cheapest, Solution) and cheapest.purchases:
        stops = len(cheapest.purchases)
        fewer = replace(trip, max_stops=stops - 1)
        assert solve(fewer, stops_without_limit=stops) == solve(fewer)


def with_price(one: Candidate, price: float) -> Candidate:
    return one._replace(price=float(price))


@pytest.mark.parametrize("seed", range(6))
def test_past_many_stations_the_solution_is_the_one_without_a_plan_of_few(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    trip = truck_trip(200, seed)
    found = solve(trip)
    monkeypatch.setattr(optimizer, "_MANY", 1_000)
    assert solve(trip) == found


# --- One limit at a time ---------------------------------------------------------------------------------------


def bought(trip: Trip) -> list[tuple[int, float]]:
    solution = solve(trip)
    assert isinstance(solution, Solution), solution
    return [(index, round(gallons, 6)) for index, gallons in solution.purchases]


def infeasible(trip: Trip) -> Infeasible:
    solution = solve(trip)
    assert isinstance(solution, Infeasible), solution
    return solution


def test_enough_fuel_buys_nothing() -> None:
    assert bought(trip((100, 3.0), distance_miles=250.0)) == []


def test_the_cheap_station_fills_the_rest_of_the_way() -> None:
    assert bought(trip((100, 4.0), (200, 3.0))) == [(1, 50.0)]


def test_the_reserve_binds_before_a_cheaper_station() -> None:
    assert bought(trip((100, 4.0), (300, 3.0))) == [(0, 10.0), (1, 40.0)]


def test_the_margin_binds_until_the_first_stop_and_not_after_it() -> None:
    """60 gal last for 250 miles down to the reserve of 10, and for 200 down to 20. From mile 150 the reserve counts."""
    cheap_later = [(150, 4.0), (230, 3.0)]
    assert bought(trip(*cheap_later, margin_gallons=0.0)) == [(1, 50.0)]
    assert bought(trip(*cheap_later, margin_gallons=10.0, min_purchase_gallons=1.0)) == [(0, 1.0), (1, 49.0)]


def test_the_margin_holds_at_the_destination_where_nothing_is_bought() -> None:
    short = trip((100, 3.0), distance_miles=200.0)
    assert bought(replace(short, margin_gallons=10.0)) == []
    assert bought(replace(short, margin_gallons=11.0, min_purchase_gallons=5.0)) == [(0, 5.0)]
    assert "the margin of 55.0 gal" in infeasible(replace(short, margin_gallons=55.0)).reason


def with_floor(trip: Trip, station: int, gallons: float) -> Trip:
    return with_each(
        trip, lambda one: one._replace(floor_gallons=gallons if one is trip.candidates[station] else one.floor_gallons)
    )


def test_a_floor_binds_where_the_truck_buys_and_nowhere_else() -> None:
    """The truck passes mile 200 with 20 gal. To buy there with 35 gal on arrival, it buys 15 before."""
    two = trip((100, 4.0), (200, 3.0))
    assert bought(with_floor(two, 1, 35.0)) == [(0, 15.0), (1, 35.0)]
    assert bought(with_floor(two, 0, 35.0)) == [(1, 50.0)]
    assert bought(with_floor(replace(two, stop_cost=36.0), 1, 35.0)) == [(0, 50.0)]


def test_a_floor_below_the_reserve_changes_nothing() -> None:
    assert bought(with_floor(trip((100, 4.0), (300, 3.0)), 1, 9.0)) == [(0, 10.0), (1, 40.0)]


def test_a_floor_counts_at_the_first_stop_where_it_exceeds_the_margin() -> None:
    """The truck arrives at mile 100 with 40 gal, at mile 200 with 20."""
    first = trip((100, 4.0), (200, 3.0), margin_gallons=5.0, min_purchase_gallons=1.0)
    assert bought(with_floor(first, 1, 12.0)) == [(1, 50.0)]
    assert bought(with_floor(first, 1, 20.0)) == [(1, 50.0)]
    assert bought(with_floor(first, 1, 21.0)) == [(0, 1.0), (1, 49.0)]


def test_a_floor_counts_on_arriving_at_the_pump() -> None:
    """The way from the road to the pump takes 1 gal, so 19 of 20 gal are left there."""
    off_road = replace(trip(), candidates=(Candidate("S", 200.0, 5.0, 0.0, 3.0, 19.0),))
    assert bought(off_road) == [(0, 51.0)]
    assert "arrives with less than 19.5 gal" in infeasible(with_floor(off_road, 0, 19.5)).reason


def test_the_tank_binds_at_a_cheap_station() -> None:
    assert bought(trip((100, 3.0), (300, 4.0), distance_miles=700.0)) == [(0, 60.0), (1, 30.0)]


def test_the_level_at_the_destination_binds() -> None:
    assert bought(trip((200, 3.0), end_gallons=40.0)) == [(0, 80.0)]


def test_the_reserve_holds_at_the_destination_even_if_less_is_wanted() -> None:
    assert bought(trip((200, 3.0), end_gallons=0.0)) == [(0, 50.0)]


def test_the_smallest_purchase_binds() -> None:
    assert bought(trip((200, 3.0), min_purchase_gallons=70.0)) == [(0, 70.0)]


def test_the_cost_of_a_stop_outweighs_a_small_saving() -> None:
    two_stops = trip((100, 3.5), (250, 3.0))
    assert bought(two_stops) == [(1, 50.0)]
    far_apart = trip((100, 3.5), (300, 3.0))
    assert bought(far_apart) == [(0, 10.0), (1, 40.0)]
    assert bought(replace(far_apart, stop_cost=30.0)) == [(0, 50.0)]


def test_the_limit_on_stops_binds() -> None:
    assert bought(trip((100, 3.5), (300, 3.0), max_stops=1)) == [(0, 50.0)]


def test_a_detour_burns_what_has_to_be_bought() -> None:
    off_road = replace(trip((200, 3.0)), candidates=(Candidate("S", 200.0, 5.0, 10.0, 3.0),))
    assert bought(off_road) == [(0, 53.0)]


def test_a_station_whose_detour_would_touch_the_reserve_is_out_of_reach() -> None:
    at_the_edge = replace(trip(), candidates=(Candidate("S", 245.0, 5.0, 5.0, 3.0),))
    assert bought(at_the_edge) == [(0, 52.0)]
    beyond = replace(trip(), candidates=(Candidate("S", 246.0, 5.0, 5.0, 3.0),))
    assert infeasible(beyond).to_mile == 500.0


def test_a_fuller_tank_can_lead_to_a_dearer_plan() -> None:
    """The purchase of 70 gal at $2 fits after 350 miles with 100 gal at the start, and after 150 miles with 60 gal."""
    stations = ((150.0, 2.0), (420.0, 6.0))
    less = trip(*stations, start_gallons=60.0, min_purchase_gallons=70.0, distance_miles=600.0)
    more = replace(less, start_gallons=100.0)
    assert objective(less) < objective(more)


def test_buying_less_early_leaves_room_for_the_smallest_purchase_later() -> None:
    """Filling up at the first station would leave no room for 60 gal at the second."""
    assert bought(trip((50, 3.0), (200, 2.0), start_gallons=40.0, min_purchase_gallons=30.0, distance_miles=450.0)) == [
        (0, 30.0),
        (1, 30.0),
    ]


def test_only_the_fuel_to_the_cheap_station_is_bought_where_fuel_is_dear() -> None:
    """A gallon for the way back to the road and 0.2 to the cheap station, no more: the tank is at its reserve."""
    stations = (Candidate("dear", 200.0, 0.0, 5.0, 5.0), Candidate("cheap", 201.0, 0.0, 0.0, 2.0))
    assert bought(replace(trip(start_gallons=50.0), candidates=stations)) == [(0, 1.2), (1, 59.8)]


def test_fuel_to_be_left_is_bought_only_below_its_worth() -> None:
    assert bought(trip((200, 3.0), leftover_value_per_gallon=2.99)) == [(0, 50.0)]
    assert bought(trip((200, 3.0), leftover_value_per_gallon=3.0)) == [(0, 50.0)]
    assert bought(trip((200, 3.0), leftover_value_per_gallon=3.01)) == [(0, 80.0)]
    assert bought(trip((200, 3.0), (300, 2.0), leftover_value_per_gallon=2.5)) == [(0, 10.0), (1, 90.0)]


def test_a_stop_for_fuel_to_be_left_has_to_pay_for_itself() -> None:
    """80 gallons can be bought at 3 dollars and none is needed."""
    no_need = trip((200, 3.0), distance_miles=250.0, leftover_value_per_gallon=3.5)
    assert bought(replace(no_need, stop_cost=41.0)) == []
    assert bought(replace(no_need, stop_cost=39.0)) == [(0, 80.0)]


def test_the_worth_of_the_fuel_left_counts_from_the_level_wanted() -> None:
    assert objective(trip(distance_miles=200.0, leftover_value_per_gallon=3.0)) == pytest.approx(-30.0)
    assert objective(trip((200, 3.0), end_gallons=0.0, leftover_value_per_gallon=2.0)) == pytest.approx(150.0 - 20.0)


def test_a_negative_price_fills_the_tank_again_and_again() -> None:
    paid = trip((100, -2.0), (300, -1.0))
    assert bought(paid) == [(0, 60.0), (1, 40.0)]
    assert bought(replace(paid, stop_cost=50.0)) == [(0, 60.0)]


def test_a_purchase_that_never_fits_is_infeasible() -> None:
    assert infeasible(trip((10, 3.0), (20, 3.0), min_purchase_gallons=60.0)).from_mile == 0.0


def test_two_stations_at_one_mile_may_both_be_used() -> None:
    both = trip((250, 3.0), (250, 3.0), distance_miles=690.0, end_gallons=12.0)
    assert sum(gallons for _, gallons in bought(both)) == 90.0


def test_ties_go_to_fewer_stops_then_to_the_earlier_station() -> None:
    assert bought(trip((100, 3.0), (150, 3.0), (200, 3.0))) == [(0, 50.0)]
    assert bought(trip((100, 3.0), (200, 3.0), distance_miles=550.0)) == [(0, 60.0)]
    assert len(bought(trip((50, 3.0), (100, 3.0), (200, 3.0), distance_miles=600.0))) == 1
    assert bought(trip((100, 3.0), (100, 3.0), (100, 3.0))) == [(0, 50.0)]


def test_ties_go_to_fewer_stops_even_if_the_one_stop_comes_last() -> None:
    """Either the first and the second station, or only the third, sell as much fuel for the same price. The second is
    out of reach without the first."""
    stations = (
        Candidate("first", 100.0, 0.0, 0.0, 3.0),
        Candidate("second", 200.0, 55.0, 0.0, 3.0),
        Candidate("third", 220.0, 5.0, 50.0, 3.0),
    )
    assert bought(replace(trip(distance_miles=600.0), candidates=stations)) == [(2, 81.0)]
    assert len(bought(replace(trip(distance_miles=600.0), candidates=stations[:2]))) == 2


def test_a_leg_of_exactly_the_range_can_be_driven() -> None:
    """32.3 gal are exactly 203.49 miles, though not in floating point."""
    assert bought(trip(start_gallons=54.1, reserve_gallons=21.8, mpg=6.3, distance_miles=203.49)) == []


def test_fuel_above_usable_does_not_count() -> None:
    assert bought(trip((300, 3.0), start_gallons=150.0, distance_miles=500.0)) == [(0, 10.0)]


# --- Infeasible says why ---------------------------------------------------------------------------------------


def test_a_gap_longer_than_the_tank_is_named() -> None:
    gap = infeasible(trip((200, 3.0), (700, 3.0), distance_miles=800.0))
    assert (gap.from_mile, gap.to_mile) == (200.0, 700.0)
    assert "from mile 200.0 to mile 700.0" in gap.reason


def test_a_floor_that_keeps_the_truck_from_a_station_is_named() -> None:
    """The truck would arrive at mile 200 with 20 gal. The station at mile 600 is out of reach in any case."""
    kept_out = infeasible(with_floor(trip((200, 3.0), (600, 3.0), distance_miles=700.0), 0, 25.0))
    assert (kept_out.from_mile, kept_out.to_mile) == (0.0, 600.0)
    assert kept_out.reason == (
        "the truck cannot get from mile 0.0 to mile 600.0 without touching its reserve, "
        "and no station between them can be used by a truck that arrives with less than 25.0 gal"
    )


def test_a_start_below_the_reserve_is_named() -> None:
    short = infeasible(trip((0, 3.0), start_gallons=9.0))
    assert (short.from_mile, short.to_mile) == (0.0, 0.0)
    assert "less than the reserve" in short.reason


def test_a_destination_level_above_the_tank_is_named() -> None:
    assert "wanted at the destination" in infeasible(trip((400, 3.0), end_gallons=101.0)).reason


def test_a_destination_level_out_of_reach_is_named() -> None:
    far = infeasible(trip((200, 3.0), end_gallons=60.0))
    assert (far.from_mile, far.to_mile) == (200.0, 500.0)
    assert "with 60.0 gal left" in far.reason


def test_too_few_stops_are_named() -> None:
    two_needed = trip((200, 3.0), (500, 3.0), distance_miles=900.0)
    too_few = infeasible(replace(two_needed, max_stops=1))
    assert (too_few.from_mile, too_few.to_mile) == (0.0, 900.0)
    assert "more than 1 fuel stops" in too_few.reason
