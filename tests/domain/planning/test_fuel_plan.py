"""The finished plan shows what it was made from, adds up, and can be driven."""

import random
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from domain.burn.figures import figure_of
from domain.lifecycle import Objective
from domain.planning.fuel_plan import ComputedPlan, NoPlan, compute_plan
from domain.planning.reasons import trip_of
from domain.planning.retrace import faults_of_plan, planned_levels
from domain.planning.trips import BurnedBy
from domain.roads import Leg, Point, Road
from domain.roads.highways import HighwayRoads
from domain.roads.sphere import MILES_PER_DEGREE
from domain.stations.offers import Offer, Station
from tests.domain.planning.plans import NO_HARD_FLOOR, NOW, Priced, drive_shown_plan, feasible, inputs, meridian, priced


def arrivals(plan: ComputedPlan) -> tuple[datetime | None, ...]:
    """The arrivals at the road's points after the first."""
    return tuple(point.arrival for point in plan.points)


def test_a_plan_shows_where_to_buy_how_much() -> None:
    plan = feasible(inputs(meridian(600.0), priced(100, 3.9), priced(300, 3.5, east_miles=2.0), priced(310, 4.1)))
    document = plan.document()
    assert document == {
        "generatedAt": "2026-11-21T14:00:00Z",
        "totalDistanceMiles": 600.0,
        "totalGallons": 70.8,
        "totalCost": 247.8,
        "averagePricePerGallon": 3.5,
        "savingsPerGallon": 0.333333,
        "savingsTotal": 23.6,
        "stops": [
            {
                "sequence": 0,
                "name": "Station 300",
                "address": "I-35 Exit 1, Waco, TX",
                "latitude": pytest.approx(30.0 + 300 / MILES_PER_DEGREE),
                "longitude": pytest.approx(-99.96, abs=0.01),
                "milesFromOrigin": 300.0,
                "gallonsToFill": 70.8,
                "pricePerGallon": 3.5,
                "totalCost": 247.8,
                "arrivalFuelPercent": 19,
                "estimatedArrival": "2026-11-21T20:00:00Z",
                "fillToPercent": 56,
            }
        ],
    }
    drive_shown_plan(document, plan.explanation())


WAY_OUT = {"station_id": None, "name": None, "mile": 400.0}


def test_the_explanation_names_every_input_and_candidate() -> None:
    stations = priced(100, 3.9), priced(300, 3.5, east_miles=2.0, tax=0.2)
    plan = feasible(replace(inputs(meridian(400.0), *stations, max_stops=3), sources={"mpg": {"source": "guessed"}}))
    explanation = plan.explanation()
    assert explanation["inputs"] == {
        "capacity_gallons": 200.0,
        "usable_gallons": 190.0,
        "reserve_gallons": 30.0,
        "margin_gallons": 0.0,
        "start_gallons": 100.0,
        "end_gallons": 50.0,
        "min_purchase_gallons": 30.0,
        "stop_cost": 20.0,
        "leftover_value_per_gallon": 0.0,
        "mpg": 5.0,
        "burn": {"mpg": 5.0, "kind": "declared", "text": "5.0 mpg, from the vehicle"},
        "distance_miles": 400.0,
        "road_miles": 400.0,
        "max_detour_miles": 5.0,
        "hard_floor_gallons": 5.0,
        "max_stops": 3,
        "objective": "pump",
        "roads": "test",
    }
    assert explanation["sources"] == {"mpg": {"source": "guessed"}}
    assert explanation["candidates"] == [
        {
            "station_id": station_id,
            "name": f"Station {station_id[1:]}",
            "state": "TX",
            "mile": mile,
            "detour_miles_in": detour,
            "detour_miles_out": detour,
            "net_price": price,
            "adjusted_price": adjusted,
            "gallons": gallons,
            **level,
        }
        for station_id, mile, detour, price, adjusted, gallons, level in (
            ("S100", 100.0, 0.0, 3.9, 3.9, 0.0, {"floor_gallons": 45.4}),
            ("S300", 300.0, 2.0, 3.5, 3.3, 30.8, {"fill_to_percent": 36, "way_out": WAY_OUT}),
        )
    ]
    assert explanation["objective"] == pytest.approx(30.8 * 3.5 + 20)
    assert explanation["infeasible"] is None
    assert explanation["line"][0] == [30.0, -100.0]
    assert explanation["line"][-1] == [pytest.approx(30.0 + 400 / MILES_PER_DEGREE, abs=1e-6), -100.0]
    assert len(explanation["line_miles"]) == len(explanation["line"])
    assert (explanation["line_miles"][0], explanation["line_miles"][-1]) == (0, 400)


def test_a_truck_whose_burn_differs_by_leg_is_planned_and_driven_with_it() -> None:
    """The 100 gal on board burn down to 30 by mile 200, and 90 more follow in the 300 miles behind it."""
    stations = priced(150, 3.9), priced(200, 3.5), priced(250, 3.4)
    burned = [BurnedBy(0.0, 0.0), BurnedBy(200.0, 70.0), BurnedBy(500.0, 160.0)]
    plan = feasible(replace(inputs(meridian(500.0), *stations), burned=burned))
    assert [(stop.miles_from_origin, stop.gallons_to_fill) for stop in plan.stops] == [(200.0, 110.0)]
    document, explanation = plan.document(), plan.explanation()
    drive_shown_plan(document, explanation)
    assert explanation["burned"] == [[0.0, 0.0], [200.0, 70.0], [500.0, 160.0]]
    assert explanation["inputs"]["mpg"] == pytest.approx(500 / 160)
    assert trip_of(explanation) == plan.trip
    assert faults_of_plan(document, plan.packed_explanation) == []
    assert [one.gallons for one in planned_levels(explanation)] == pytest.approx([100, 30, 140, 50])
    nothing_bought = feasible(replace(inputs(meridian(250.0), fuel_percent=70.0), burned=burned))
    assert planned_levels(nothing_bought.explanation()) == [(0.0, 140.0), (200.0, 70.0), (250.0, pytest.approx(55.0))]


def test_an_explanation_without_a_plan_names_the_leg_that_fails() -> None:
    gap = compute_plan(inputs(meridian(1500.0), priced(300, 3.0), priced(1200, 3.0)))
    assert isinstance(gap, NoPlan)
    explanation = gap.explanation()
    assert explanation["objective"] is None
    failed = explanation["infeasible"]
    assert failed is not None
    assert (failed["from_mile"], failed["to_mile"]) == (300.0, 1200.0)
    assert [one["gallons"] for one in explanation["candidates"]] == [0.0, 0.0]


def test_taxes_choose_the_station_but_the_plan_shows_the_price_paid() -> None:
    taxed = priced(290, 3.9, tax=0.7), priced(300, 3.5, tax=0.2)  # 3.2 and 3.3 without the tax
    pump = feasible(replace(inputs(meridian(600.0), *taxed), hard_floor=NO_HARD_FLOOR))
    adjusted = feasible(
        replace(inputs(meridian(600.0), *taxed, objective=Objective.TAX_ADJUSTED), hard_floor=NO_HARD_FLOOR)
    )
    assert [stop.price_per_gallon for stop in pump.stops] == [3.5]
    assert [stop.price_per_gallon for stop in adjusted.stops] == [3.9]
    assert adjusted.document()["totalCost"] == round(adjusted.total_gallons * 3.9, 2)
    assert adjusted.savings_per_gallon == pytest.approx(3.7 - 3.9)
    assert adjusted.objective == pytest.approx(adjusted.total_gallons * 3.2 + 20)


def test_a_station_in_a_state_without_a_known_tax_counts_with_its_price() -> None:
    known = priced(290, 3.6, tax=0.2), priced(300, 3.5)
    plan = feasible(inputs(meridian(600.0), *known, objective=Objective.TAX_ADJUSTED))
    assert [stop.price_per_gallon for stop in plan.stops] == [3.6]


def test_leftover_fuel_with_a_value_is_bought_where_it_is_cheap() -> None:
    given = inputs(meridian(600.0), priced(300, 3.5))
    assert feasible(given).total_gallons == 70.0
    richer = feasible(replace(given, policy=given.policy._replace(leftover_value_per_gallon=3.6)))
    assert richer.total_gallons == 150.0  # as much as there is room for


def test_enough_fuel_makes_a_plan_without_stops() -> None:
    document = feasible(inputs(meridian(200.0), priced(100, 3.0))).document()
    assert document["stops"] == []
    assert (document["totalGallons"], document["totalCost"], document["averagePricePerGallon"]) == (0.0, 0.0, 0.0)
    assert (document["savingsPerGallon"], document["savingsTotal"]) == (None, None)
    assert document["totalDistanceMiles"] == 200.0


def test_only_a_short_trip_has_a_plan_without_stations() -> None:
    elsewhere = priced(100, 3.0, east_miles=5.1)
    assert feasible(inputs(meridian(200.0), elsewhere)).stops == ()
    too_far = compute_plan(inputs(meridian(400.0), elsewhere))
    assert isinstance(too_far, NoPlan)
    assert (too_far.infeasible.from_mile, too_far.infeasible.to_mile) == (0.0, 400.0)


def test_a_gap_longer_than_the_tank_names_the_leg() -> None:
    gap = compute_plan(inputs(meridian(1500.0), priced(300, 3.0), priced(1200, 3.0)))
    assert isinstance(gap, NoPlan)
    assert (gap.infeasible.from_mile, gap.infeasible.to_mile) == (300.0, 1200.0)


def test_stops_that_coincide_make_a_road_of_no_miles() -> None:
    assert feasible(inputs(meridian(0.0))).document()["totalDistanceMiles"] == 0.0
    low = inputs(meridian(0.0, 0.0), priced(0, 3.0, east_miles=1.0), fuel_percent=20.0)
    plan = feasible(low)
    assert [stop.gallons_to_fill for stop in plan.stops] == [30.0]
    drive_shown_plan(plan.document(), plan.explanation())
    assert isinstance(compute_plan(replace(low, offers=())), NoPlan)


def test_three_miles_across_town_need_no_fuel_stop() -> None:
    road = HighwayRoads().through([Point(34.05, -118.24), Point(34.08, -118.26)])
    plan = feasible(inputs(road))
    assert plan.stops == ()
    assert 2.5 < plan.document()["totalDistanceMiles"] < 4.0


def test_the_plan_starts_with_the_reading_or_with_the_policy_s_assumed_level() -> None:
    assert feasible(inputs(meridian(100.0), fuel_percent=62.0)).trip.start_gallons == 124.0
    assert feasible(inputs(meridian(100.0), fuel_percent=100.0)).trip.start_gallons == 190.0
    assumed = feasible(inputs(meridian(100.0), fuel_percent=None, assumed_fuel_percent=70.0))
    assert assumed.trip.start_gallons == 140.0


def test_an_empty_tank_is_a_reading_too() -> None:
    empty = compute_plan(inputs(meridian(100.0), priced(0, 3.0), fuel_percent=0.0))
    assert isinstance(empty, NoPlan)
    assert "starts with 0.0 gal" in empty.infeasible.reason


def test_a_truck_without_capacity_and_mpg_gets_the_defaults() -> None:
    plan = feasible(replace(inputs(meridian(100.0)), capacity_gallons=None, burn=figure_of(None)))
    assert plan.explanation()["inputs"]["capacity_gallons"] == 200.0
    assert plan.trip.mpg == 6.5
    assert plan.explanation()["inputs"]["burn"] == {
        "mpg": 6.5,
        "kind": "default",
        "text": "6.5 mpg, from the default",
    }


def test_savings_are_compared_with_the_mean_price_of_all_candidates() -> None:
    stations = priced(200, 5.0), priced(250, 4.0), priced(300, 3.0)
    plan = feasible(replace(inputs(meridian(600.0), *stations), hard_floor=NO_HARD_FLOOR))
    assert plan.savings_per_gallon == 1.0
    assert plan.savings_total == plan.total_gallons
    dear = feasible(inputs(meridian(600.0), priced(250, 4.0), priced(599, 3.0)))
    assert dear.savings_per_gallon == -0.5
    assert dear.savings_total == pytest.approx(-0.5 * dear.total_gallons)


def test_each_fuel_stop_and_each_rest_delays_what_comes_after_it() -> None:
    road = meridian(500.0, 1500.0)
    plan = feasible(inputs(road, priced(250, 3.0), priced(1000, 3.0), stop_cost=0.0))
    assert [stop.estimated_arrival for stop in plan.stops] == [
        NOW + timedelta(hours=5),
        NOW + timedelta(hours=20 + 10, minutes=30),
    ]
    assert arrivals(plan) == (NOW + timedelta(hours=10, minutes=30), NOW + timedelta(hours=30 + 2 * 10 + 1))


def test_an_early_truck_waits_for_the_window_of_its_stop() -> None:
    noon = NOW + timedelta(hours=6)
    given = inputs(meridian(100.0, 200.0), fuel_percent=95.0)
    assert arrivals(feasible(given)) == (NOW + timedelta(hours=2), NOW + timedelta(hours=4))
    assert arrivals(feasible(replace(given, opens=(noon, None)))) == (noon, noon + timedelta(hours=2))


def test_arrivals_follow_the_hours_of_each_leg() -> None:
    slow_then_fast = Road.of(
        [
            Leg(np.array([(30.0, -100.0), (31.0, -100.0)]), np.array([0.0, 100.0]), 4.0, "test"),
            Leg(np.array([(31.0, -100.0), (32.0, -100.0)]), np.array([0.0, 100.0]), 2.0, "test"),
        ]
    )
    beside = Offer(priced(0, 3.0).station, 150.0, 0.0, 3.0)
    plan = feasible(replace(inputs(slow_then_fast, fuel_percent=40.0), offers=(beside,)))
    assert [stop.estimated_arrival for stop in plan.stops] == [NOW + timedelta(hours=5)]
    assert arrivals(plan) == (NOW + timedelta(hours=4), NOW + timedelta(hours=6, minutes=30))


def test_a_plan_is_generated_at_its_departure_unless_another_time_is_given() -> None:
    assert feasible(inputs(meridian(10.0))).generated_at == NOW
    later = compute_plan(inputs(meridian(10.0)), now=NOW + timedelta(hours=1))
    assert isinstance(later, ComputedPlan)
    assert later.document()["generatedAt"] == "2026-11-21T15:00:00Z"


def test_the_arrival_percent_is_rounded_down_but_not_by_an_error_of_sums() -> None:
    """7 mpg: 490 miles burn exactly 70 of 100 gal, and 30 gal are 15 percent, not 14."""
    at_reserve = replace(inputs(meridian(600.0), priced(490, 3.0)), burn=figure_of(7.0))
    assert feasible(at_reserve).stops[0].arrival_fuel_percent == 15


def test_half_cents_are_rounded_up() -> None:
    plan = feasible(inputs(meridian(600.0), priced(300, 3.9875)))
    [stop] = plan.stops
    assert (stop.gallons_to_fill, str(stop.total_cost)) == (70.0, "279.13")  # 279.125, in binary a little less


def test_an_address_has_the_parts_that_are_known() -> None:
    def shown(**details: Any) -> Any:
        return feasible(inputs(meridian(600.0), priced(300, 3.5, **details))).document()["stops"][0]["address"]

    assert shown(address=None) == "Waco, TX"
    assert shown(address=None, city=None, state=None) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_a_plan_can_be_driven_by_what_it_shows(seed: int) -> None:
    """Capacities, mpg and prices are odd. The plan is driven from its JSON alone."""
    rng = random.Random(seed)
    distance = rng.uniform(300, 2800)
    stations = [
        priced(
            rng.uniform(0, distance), round(rng.uniform(3.0, 4.6), rng.choice([3, 4])), east_miles=rng.uniform(-6, 6)
        )
        for _ in range(int(distance / rng.uniform(20, 150)))
    ]
    plan = compute_plan(
        replace(
            inputs(
                meridian(distance / 3, distance),
                *stations,
                fuel_percent=rng.choice([None, rng.uniform(30, 100)]),
                reserve_percent=rng.choice([15.0, rng.uniform(5, 25)]),
                end_fuel_percent=rng.choice([25.0, rng.uniform(0, 90)]),
                min_purchase_gallons=rng.choice([30.0, 0.0, rng.uniform(0, 80)]),
                stop_cost=rng.choice([20.0, 0.0]),
                max_stops=rng.choice([None, 4]),
            ),
            capacity_gallons=rng.uniform(150, 300),
            burn=figure_of(rng.uniform(5, 9)),
        )
    )
    if isinstance(plan, ComputedPlan):
        drive_shown_plan(plan.document(), plan.explanation())
        assert all(stop.gallons_to_fill == round(stop.gallons_to_fill, 3) for stop in plan.stops)


@pytest.mark.slow
def test_a_route_of_fifty_stops_across_the_country_has_a_plan() -> None:
    rng = random.Random(7)
    cities = [Point(rng.uniform(31, 45), rng.uniform(-118, -80)) for _ in range(50)]
    road = HighwayRoads().through(cities)
    beside = [road.line[rng.randrange(len(road.line))] for _ in range(3000)]
    stations = [
        Priced(Station(f"S{i}", f"S{i}", None, None, None, None, float(place[0]), float(place[1])), rng.uniform(3, 4.5))
        for i, place in enumerate(beside)
    ]
    plan = feasible(inputs(road, *stations))
    assert len(plan.stops) > 10
    drive_shown_plan(plan.document(), plan.explanation())
