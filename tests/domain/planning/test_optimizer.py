"""The optimizer is exact: it agrees with a mixed-integer program that states the same problem independently."""

import math
import random
from collections.abc import Callable
from dataclasses import replace

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.planning.optimizer import solve
from domain.planning.rounding import round_and_drive
from domain.planning.trips import (
    PUMP_STEP_GALLONS,
    BrokenPlan,
    Candidate,
    Infeasible,
    Purchase,
    Solution,
    Trip,
    drive_trip,
    objective_of,
)

pytestmark = pytest.mark.slow

DOLLARS_LOST_TO_ROUNDING = 0.50


def milp(trip: Trip, must_stop_at: int | None = None) -> highspy.HighsLp:
    """The trip as a mixed-integer program: fuel on the road before and after each candidate, a stop or not, gallons."""
    columns: list[tuple[float, float, float]] = []
    rows: list[tuple[float, float, dict[int, float]]] = []

    def column(low: float, high: float, cost: float = 0.0) -> int:
        columns.append((low, high, cost))
        return len(columns) - 1

    def row(low: float, high: float, terms: dict[int, float]) -> None:
        rows.append((low, high, terms))

    reserve, usable, inf = trip.reserve_gallons, trip.usable_gallons, highspy.kHighsInf
    start = min(trip.start_gallons, usable)
    fuel, mile = column(start, start), 0.0
    stops: list[int] = []
    margin = trip.margin_gallons
    row(reserve + margin, inf, {fuel: 1})
    for i, candidate in enumerate(trip.candidates):
        burned = (candidate.mile - mile) / trip.mpg
        into, out = candidate.detour_miles_in / trip.mpg, candidate.detour_miles_out / trip.mpg
        arriving, leaving = column(reserve, usable), column(reserve, usable)
        stop = column(float(i == must_stop_at), 1, trip.stop_cost)
        bought = column(0, usable - reserve, candidate.price)
        row(-burned, -burned, {arriving: 1, fuel: -1})
        row(reserve, inf, {arriving: 1, stop: -into})
        if margin:
            row(reserve + margin, inf, {arriving: 1, stop: -into, **dict.fromkeys(stops, margin)})
        row(-inf, usable, {arriving: 1, stop: -into, bought: 1})
        row(0, 0, {leaving: 1, arriving: -1, bought: -1, stop: into + out})
        row(0, inf, {bought: 1, stop: -max(trip.min_purchase_gallons, PUMP_STEP_GALLONS, into + out)})
        row(-inf, 0, {bought: 1, stop: reserve - usable})
        fuel, mile = leaving, candidate.mile
        stops.append(stop)
    burned = (trip.distance_miles - mile) / trip.mpg
    left = column(0, inf, -trip.leftover_value_per_gallon)
    row(burned + trip.end_gallons, burned + trip.end_gallons, {fuel: 1, left: -1})
    row(burned + reserve, inf, {fuel: 1})
    if margin:
        row(burned + reserve + margin, inf, {fuel: 1, **dict.fromkeys(stops, margin)})
    if trip.max_stops is not None:
        row(-inf, trip.max_stops, dict.fromkeys(stops, 1.0))

    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(columns), len(rows)
    lp.col_lower_, lp.col_upper_, lp.col_cost_ = map(np.array, zip(*columns, strict=True))
    lp.row_lower_, lp.row_upper_ = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.cumsum([0, *(len(terms) for _, _, terms in rows)])
    lp.a_matrix_.index_ = np.array([index for _, _, terms in rows for index in terms])
    lp.a_matrix_.value_ = np.array([value for _, _, terms in rows for value in terms.values()])
    kinds = highspy.HighsVarType
    lp.integrality_ = [kinds.kInteger if i in stops else kinds.kContinuous for i in range(len(columns))]
    return lp


def exact_highs() -> highspy.Highs:
    """HiGHS on one thread, told to look for the optimum itself and not for something near it."""
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.silent()
    for option in ("primal_feasibility_tolerance", "mip_feasibility_tolerance", "mip_abs_gap"):
        highs.setOptionValue(option, 1e-9)
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.setOptionValue("threads", 1)
    return highs


def optimum(highs: highspy.Highs) -> float | None:
    """The least cost it found by `run()`; None where it found that there is no solution.

    Integrality holds to a tolerance only: the choice of stops is fixed, and a linear program says what it costs.
    """
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    values = highs.getSolution().col_value
    for column, kind in enumerate(highs.getLp().integrality_):
        if kind == highspy.HighsVarType.kInteger:
            highs.changeColBounds(column, round(values[column]), round(values[column]))
            highs.changeColIntegrality(column, highspy.HighsVarType.kContinuous)
    highs.run()
    return float(highs.getInfo().objective_function_value)


def milp_objective(trip: Trip, must_stop_at: int | None = None) -> float | None:
    highs = exact_highs()
    highs.passModel(milp(trip, must_stop_at))
    highs.run()
    return optimum(highs)


def objective(trip: Trip) -> float:
    solution = solve(trip)
    return solution.objective if isinstance(solution, Solution) else math.inf


def random_trip(seed: int) -> Trip:
    """From short to cross-country, from no candidate to twenty, with each limit tight now and then."""
    rng = random.Random(seed)
    distance = rng.choice([rng.uniform(50, 600), rng.uniform(600, 2800)])
    usable = rng.uniform(80, 250)
    reserve = rng.uniform(0.05, 0.3) * usable
    lowest_price = rng.choice([2.8, 2.8, 2.8, -1.0, -3.0])
    candidates: list[Candidate] = []
    for i in range(rng.randint(0, 20)):
        nearby = rng.choice(candidates).mile + rng.uniform(0, 5) if candidates else distance
        mile = min(rng.choice([rng.uniform(0, distance), rng.uniform(0, distance), nearby]), distance)
        into = rng.choice([0.0, rng.uniform(0, 5), rng.uniform(0, 40)])
        out = rng.choice([into, into, rng.uniform(0, 5)])
        price = round(rng.uniform(lowest_price, lowest_price + 2), rng.choice([1, 3]))
        candidates.append(Candidate(f"S{i}", mile, into, out, price))
    return Trip(
        distance_miles=distance,
        start_gallons=rng.uniform(0.9 * reserve, usable * 1.05),
        end_gallons=rng.choice([0.0, rng.uniform(0, usable), usable * 0.25]),
        reserve_gallons=reserve,
        usable_gallons=usable,
        min_purchase_gallons=rng.choice([0.0, 30.0, rng.uniform(0, 0.8 * usable)]),
        stop_cost=rng.choice([0.0, 20.0, rng.uniform(0, 60)]),
        mpg=rng.uniform(4.5, 9.0),
        max_stops=rng.choice([None, None, rng.randint(0, 5)]),
        candidates=tuple(sorted(candidates, key=lambda candidate: candidate.mile)),
        leftover_value_per_gallon=rng.choice([0.0, 0.0, rng.uniform(2, 5)]),
        margin_gallons=rng.choice([0.0, 0.0, rng.uniform(0, 0.3) * usable]),
    )


def agree(trip: Trip) -> bool:
    """Same feasibility, same cost, and the rounded plan drives. Whether there is one."""
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


@pytest.mark.parametrize("block", range(10))
def test_random_trips_agree_with_the_milp(block: int) -> None:
    feasible = [agree(random_trip(seed)) for seed in range(block * 60, block * 60 + 60)]
    assert 10 < sum(feasible) < 50


def with_each(trip: Trip, change: Callable[[Candidate], Candidate]) -> Trip:
    return replace(trip, candidates=tuple(map(change, trip.candidates)))


VARIANTS: dict[str, Callable[[Trip], Trip]] = {
    "no reserve": lambda trip: replace(trip, reserve_gallons=0.0),
    "half a tank in reserve": lambda trip: replace(trip, reserve_gallons=trip.usable_gallons / 2),
    "a margin until the first stop": lambda trip: replace(trip, margin_gallons=0.2 * trip.usable_gallons),
    "nothing wanted at the end": lambda trip: replace(trip, end_gallons=0.0),
    "most of a tank wanted at the end": lambda trip: replace(trip, end_gallons=0.8 * trip.usable_gallons),
    "no smallest purchase": lambda trip: replace(trip, min_purchase_gallons=0.0),
    "a large smallest purchase": lambda trip: replace(trip, min_purchase_gallons=0.6 * trip.usable_gallons),
    "free stops": lambda trip: replace(trip, stop_cost=0.0),
    "dear stops": lambda trip: replace(trip, stop_cost=80.0),
    "no detours": lambda trip: with_each(trip, lambda one: one._replace(detour_miles_in=0.0, detour_miles_out=0.0)),
    "long detours": lambda trip: with_each(trip, lambda one: one._replace(detour_miles_in=30.0, detour_miles_out=45.0)),
    "any number of stops": lambda trip: replace(trip, max_stops=None),
    "no stops": lambda trip: replace(trip, max_stops=0),
    "one stop": lambda trip: replace(trip, max_stops=1),
    "three stops": lambda trip: replace(trip, max_stops=3),
    "nothing for what is left": lambda trip: replace(trip, leftover_value_per_gallon=0.0),
    "some of the price for what is left": lambda trip: replace(trip, leftover_value_per_gallon=3.0),
    "more than any price for what is left": lambda trip: replace(trip, leftover_value_per_gallon=6.0),
    "positive prices": lambda trip: with_each(trip, lambda one: one._replace(price=one.price % 1 + 3)),
    "negative prices": lambda trip: with_each(trip, lambda one: one._replace(price=one.price % 1 - 3)),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_trips_with_and_without_each_limit_agree_with_the_milp(variant: str) -> None:
    for seed in range(1000, 1030):
        agree(VARIANTS[variant](random_trip(seed)))


@st.composite
def coarse_trips(draw: st.DrawFn) -> Trip:
    """Trips of round numbers, so that limits meet exactly, prices tie and stations share a mile."""
    distance = draw(st.integers(1, 30)) * 40
    candidates = draw(
        st.lists(
            st.builds(
                lambda mile, into, out, price: Candidate(
                    "S", float(mile * 40), float(into * 5), float(out * 5), price / 4
                ),
                st.integers(0, distance // 40),
                st.integers(0, 4),
                st.integers(0, 4),
                st.integers(-8, 20),
            ),
            max_size=8,
        )
    )
    return Trip(
        distance_miles=float(distance),
        start_gallons=float(draw(st.integers(10, 100))),
        end_gallons=float(draw(st.integers(0, 100))),
        reserve_gallons=float(draw(st.integers(0, 4)) * 5),
        usable_gallons=100.0,
        min_purchase_gallons=float(draw(st.integers(0, 8)) * 10),
        stop_cost=float(draw(st.sampled_from([0, 5, 20]))),
        mpg=5.0,
        max_stops=draw(st.none() | st.integers(0, 4)),
        candidates=tuple(sorted(candidates, key=lambda candidate: candidate.mile)),
        leftover_value_per_gallon=draw(st.sampled_from([0, 0, 2, 4])),
        margin_gallons=draw(st.sampled_from([0.0, 0.0, 5.0, 30.0])),
    )


@settings(max_examples=250, deadline=None, derandomize=True)
@given(coarse_trips())
def test_trips_of_round_numbers_agree_with_the_milp(trip: Trip) -> None:
    agree(trip)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(coarse_trips(), st.data())
def test_more_choice_never_costs_more(trip: Trip, data: st.DataObject) -> None:
    most = objective(trip) + 1e-6
    assert objective(replace(trip, usable_gallons=trip.usable_gallons + data.draw(st.integers(1, 80)))) <= most
    assert objective(replace(trip, max_stops=None)) <= most
    assert objective(replace(trip, min_purchase_gallons=trip.min_purchase_gallons / 2)) <= most
    assert objective(replace(trip, reserve_gallons=trip.reserve_gallons / 2)) <= most
    assert objective(replace(trip, margin_gallons=trip.margin_gallons / 2)) <= most
    assert objective(replace(trip, end_gallons=trip.end_gallons / 2)) <= most
    assert objective(replace(trip, stop_cost=trip.stop_cost / 2)) <= most
    assert objective(replace(trip, leftover_value_per_gallon=trip.leftover_value_per_gallon + 1)) <= most
    assert objective(with_each(trip, lambda one: one._replace(price=one.price - 0.5))) <= most


@settings(max_examples=150, deadline=None, derandomize=True)
@given(coarse_trips().filter(lambda trip: trip.candidates), st.data())
def test_another_or_a_cheaper_station_never_costs_more(trip: Trip, data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(trip.candidates))
    without = tuple(candidate for candidate in trip.candidates if candidate is not chosen)
    cheaper = with_each(trip, lambda one: one._replace(price=one.price - 0.5) if one is chosen else one)
    assert objective(replace(trip, candidates=without)) >= objective(trip) - 1e-6
    assert objective(cheaper) <= objective(trip) + 1e-6


@settings(max_examples=150, deadline=None, derandomize=True)
@given(coarse_trips())
def test_of_equal_costs_the_one_with_the_fewest_stops_is_taken(trip: Trip) -> None:
    """A cent a stop is less than any other difference between the costs of these trips."""
    free, for_a_cent = solve(replace(trip, stop_cost=0.0)), solve(replace(trip, stop_cost=0.01))
    if isinstance(free, Solution):
        assert isinstance(for_a_cent, Solution)
        assert len(free.purchases) == len(for_a_cent.purchases)


# --- One limit at a time ---------------------------------------------------------------------------------------


def trip(*candidates: tuple[float, float], **changes: float | int | None) -> Trip:
    """500 miles at 5 mpg from 60 gal of 100 usable, reserve 10; candidates are (mile, price), on the road."""
    given = Trip(
        distance_miles=500.0,
        start_gallons=60.0,
        end_gallons=10.0,
        reserve_gallons=10.0,
        usable_gallons=100.0,
        min_purchase_gallons=0.0,
        stop_cost=0.0,
        mpg=5.0,
        max_stops=None,
        candidates=tuple(
            Candidate(f"S{i}", float(mile), 0.0, 0.0, price) for i, (mile, price) in enumerate(candidates)
        ),
    )
    return replace(given, **changes)  # type: ignore[arg-type]


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


def test_a_fuller_tank_can_be_the_dearer_one() -> None:
    """With 100 gal at the start the 70 gal purchase at $2 fits only after 350 miles; with 60 gal, after 150."""
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


def test_only_what_the_road_takes_is_bought_where_fuel_is_dear_even_after_a_detour() -> None:
    """A gallon for the way back to the road and 0.2 to the cheap station, no more: the tank is at its reserve."""
    stations = (Candidate("dear", 200.0, 0.0, 5.0, 5.0), Candidate("cheap", 201.0, 0.0, 0.0, 2.0))
    assert bought(replace(trip(start_gallons=50.0), candidates=stations)) == [(0, 1.2), (1, 59.8)]


def test_what_is_left_is_bought_only_below_its_worth() -> None:
    assert bought(trip((200, 3.0), leftover_value_per_gallon=2.99)) == [(0, 50.0)]
    assert bought(trip((200, 3.0), leftover_value_per_gallon=3.0)) == [(0, 50.0)]
    assert bought(trip((200, 3.0), leftover_value_per_gallon=3.01)) == [(0, 80.0)]
    assert bought(trip((200, 3.0), (300, 2.0), leftover_value_per_gallon=2.5)) == [(0, 10.0), (1, 90.0)]


def test_a_stop_for_fuel_to_be_left_has_to_pay_for_itself() -> None:
    """80 gallons can be bought at 3 dollars and none is needed."""
    no_need = trip((200, 3.0), distance_miles=250.0, leftover_value_per_gallon=3.5)
    assert bought(replace(no_need, stop_cost=41.0)) == []
    assert bought(replace(no_need, stop_cost=39.0)) == [(0, 80.0)]


def test_the_worth_of_what_is_left_counts_from_the_level_wanted() -> None:
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


def test_ties_go_to_fewer_stops_even_if_the_one_stop_comes_last() -> None:
    """The first and the second, out of reach without it, or only the third: as much fuel for the same price."""
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


# --- Rounding and replay ---------------------------------------------------------------------------------------


def rounded(trip: Trip) -> list[tuple[int, float]]:
    solution = solve(trip)
    assert isinstance(solution, Solution)
    result = round_and_drive(trip, solution)
    assert isinstance(result, Solution)
    return [(index, gallons) for index, gallons in result.purchases]


def test_gallons_are_rounded_up_to_tenths() -> None:
    assert rounded(trip((200, 3.0), distance_miles=501.1)) == [(0, 50.3)]


def test_a_full_tank_is_rounded_down_and_the_rest_bought_later() -> None:
    full_then_more = trip((101.1, 3.0), (300, 4.0), distance_miles=700.0)
    assert rounded(full_then_more) == [(0, 60.2), (1, 29.8)]


def test_a_full_tank_to_be_left_is_rounded_down() -> None:
    assert rounded(trip((101.1, 3.0), leftover_value_per_gallon=4.0)) == [(0, 60.2)]


def test_a_purchase_is_never_rounded_to_less_than_its_detour_burns() -> None:
    """59.95 and 69.96 gal in total, rounded up to 60.0 and 70.0, would leave 10.0 for a detour of 10.01."""
    both = replace(
        trip(distance_miles=550.0, start_gallons=60.05, usable_gallons=120.0),
        candidates=(Candidate("S0", 100.0, 0.0, 0.0, 2.0), Candidate("S1", 400.0, 25.0, 25.05, 3.0)),
    )
    purchases = Purchase(0, 59.95), Purchase(1, 10.01)
    drive_trip(both, purchases)
    plan = round_and_drive(both, Solution(purchases, objective_of(both, purchases)))
    assert isinstance(plan, Solution)
    assert plan.purchases[-1] == (1, 10.1)


def test_the_smallest_purchase_survives_rounding() -> None:
    assert rounded(trip((200, 3.0), min_purchase_gallons=70.01)) == [(0, 70.1)]


def test_hundredths_are_used_where_a_tenth_has_no_room() -> None:
    """450.2 miles are 90.04 gal: with 10 in reserve and 100.05 usable the purchase lies between 60.24 and 60.25."""
    tight = trip((101, 3.0), distance_miles=551.2, usable_gallons=100.05)
    assert rounded(tight) == [(0, 60.24)]


def test_a_trip_without_a_thousandth_to_spare_is_infeasible() -> None:
    exact = trip((100.001, 3.0), distance_miles=550.0003, usable_gallons=99.99987)
    solution = solve(exact)
    assert isinstance(solution, Solution)
    assert isinstance(round_and_drive(exact, solution), Infeasible)


@pytest.mark.parametrize(
    ("purchases", "why"),
    [
        ([Purchase(1, 50.0)], "below the reserve at S1"),
        ([Purchase(0, 5.0), Purchase(1, 50.0)], "too little at S0"),
        ([Purchase(0, 70.0)], "too much at S0"),
        ([Purchase(0, 10.0)], "too little at the destination"),
        ([Purchase(1, 10.0), Purchase(0, 50.0)], "below the reserve at S1"),
        ([Purchase(0, 20.0), Purchase(1, 40.0), Purchase(0, 10.0)], "behind the truck"),
    ],
)
def test_replay_refuses_a_plan_that_breaks_a_limit(purchases: list[Purchase], why: str) -> None:
    with pytest.raises(BrokenPlan, match=why):
        drive_trip(trip((100, 3.0), (300, 3.0), min_purchase_gallons=10.0), purchases)


def test_replay_refuses_a_start_below_the_reserve_and_too_many_stops() -> None:
    with pytest.raises(BrokenPlan, match="the start"):
        drive_trip(trip(start_gallons=5.0), [])
    with pytest.raises(BrokenPlan, match="below the reserve at S0"):
        drive_trip(trip((200, 3.0), margin_gallons=11.0), [Purchase(0, 50.0)])
    with pytest.raises(BrokenPlan, match="more stops"):
        drive_trip(trip((100, 3.0), max_stops=0), [Purchase(0, 50.0)])


def test_replay_tells_the_fuel_at_each_arrival() -> None:
    assert drive_trip(trip((100, 3.0), (300, 3.0)), [Purchase(0, 20.0), Purchase(1, 30.0)]) == (40.0, 20.0, 10.0)
