"""The menu: each choice is the cheapest plan under its condition, by the oracle, and costs what it says."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache

import pytest

from domain.lifecycle import ChoiceKind
from domain.planning.fuel_plan import ComputedPlan, NoPlan, compute_plan
from domain.planning.menu import MOST_CHOICES, Choice, Wanted, find_choices, plan_as_chosen
from domain.planning.retrace import faults_of_plan
from domain.planning.trips import Trip, drive_trip
from domain.stations.offers import Offer
from tests.benchmarks.exact import SAME_DOLLARS, everything
from tests.domain.planning.oracle import DOLLARS_LOST_TO_ROUNDING, milp_objective
from tests.domain.planning.plans import Priced, feasible, inputs, meridian, priced

CHAINS = ("Love's", "Pilot", "TA", "Kwik Trip")
MPH = 50.0
"""The speed on the roads of these plans."""


@cache
def plan_of(seed: int) -> ComputedPlan | None:
    """A plan with everything in play, past stations of chains, some with parking and showers."""
    rng = random.Random(f"menu {seed}")

    def with_chain(offer: Offer) -> Offer:
        parking, showers = rng.choice([None, 0, 80]), rng.choice([None, 0, 6])
        station = offer.station._replace(brand=rng.choice(CHAINS), parking_spaces=parking, showers=showers)
        return offer._replace(station=station)

    given, _ = everything(seed)
    plan = compute_plan(replace(given, offers=[with_chain(one) for one in given.offers]))
    return plan if isinstance(plan, ComputedPlan) else None


def conditions(plan: ComputedPlan) -> dict[ChoiceKind, Trip]:
    """The trip of each kind of choice, written down a second time."""
    offers, trip = plan.inputs.offers, plan.trip
    if not plan.purchases:
        return {}
    planned = plan.purchases[0].candidate_index
    stop = offers[planned].station

    def hours(index: int) -> float:
        return (trip.candidates[index].mile - trip.candidates[planned].mile) / MPH

    def only(stations: Sequence[bool]) -> Trip:
        return replace(trip, first_stops=frozenset(index for index, is_one in enumerate(stations) if is_one))

    near = [abs(hours(index)) <= 1.5 for index in range(len(offers))]
    lacks_parking, lacks_showers = not stop.parking_spaces, not stop.showers
    return {
        ChoiceKind.EARLIER: only([-1.5 <= hours(index) < -0.5 for index in range(len(offers))]),
        ChoiceKind.LATER: only([0.5 < hours(index) <= 1.5 for index in range(len(offers))]),
        ChoiceKind.FEWER_STOPS: replace(trip, max_stops=len(plan.purchases) - 1),
        ChoiceKind.OTHER_CHAIN: only(
            [
                abs(hours(index)) <= 1.0
                and None not in (one.station.brand, stop.brand)
                and one.station.brand != stop.brand
                for index, one in enumerate(offers)
            ]
        ),
        ChoiceKind.AMENITIES: only(
            [
                is_near
                and bool((lacks_parking and one.station.parking_spaces) or (lacks_showers and one.station.showers))
                for one, is_near in zip(offers, near, strict=True)
            ]
        ),
    }


def keeps(plan: ComputedPlan, trip: Trip) -> bool:
    """True if a plan meets the condition of this trip."""
    indexes = [purchase.candidate_index for purchase in plan.purchases]
    is_first = trip.first_stops is None or bool(trip.first_stops.intersection(indexes[:1]))
    return is_first and (trip.max_stops is None or len(indexes) <= trip.max_stops)


def extra_as_shown(plan: ComputedPlan, choice: Choice) -> float:
    """The extra cost from what both plans show: gallons and prices, the number of stops, the fuel at the end."""
    trip = plan.trip

    def dollars(one: ComputedPlan) -> float:
        fuel = sum(gallons * trip.candidates[index].price for index, gallons in one.purchases)
        left = drive_trip(trip, one.purchases)[-1] - trip.end_gallons
        return fuel + trip.stop_cost * len(one.stops) - trip.leftover_value_per_gallon * left

    return dollars(choice.plan) - dollars(plan)


def check(plan: ComputedPlan) -> Counter[str]:
    """Check all choices of a plan against the oracle. Returns the number of each kind."""
    choices = find_choices(plan, most=None)
    plans = [plan, *(one.plan for one in choices)]
    assert len({tuple(one.candidate_index for one in each.purchases) for each in plans}) == len(plans)
    by_kind = {one.kind: one for one in choices}
    for kind, trip in conditions(plan).items():
        least = milp_objective(trip) if trip.first_stops is None or trip.first_stops else None
        found = by_kind.pop(kind, None)
        assert found is None or (least is not None and keeps(found.plan, trip))
        if least is not None:
            cost = found.plan.objective if found else min(one.objective for one in plans if keeps(one, trip))
            assert least - SAME_DOLLARS <= cost <= least + DOLLARS_LOST_TO_ROUNDING
    assert not by_kind
    for one in choices:
        assert faults_of_plan(one.plan.document(), one.plan.packed_explanation) == []
        assert float(one.extra) == pytest.approx(extra_as_shown(plan, one), abs=0.005 * (len(plans[0].stops) + 10))
        assert one.extra_at_pumps == Decimal(str(one.plan.total_cost)) - Decimal(str(plan.total_cost))
    return Counter(one.kind for one in choices)


@pytest.mark.slow
def test_each_choice_is_the_cheapest_plan_under_its_condition() -> None:
    plans = [plan for seed in range(45) if (plan := plan_of(seed)) is not None]
    found = sum(map(check, plans), Counter[str]())
    assert min(found[kind] for kind in ChoiceKind if kind is not ChoiceKind.CHEAPEST) >= 2, found


def test_a_menu_has_three_choices_at_most_and_the_cheapest_first() -> None:
    menus = [find_choices(plan) for seed in range(40) if (plan := plan_of(seed)) is not None]
    assert max(map(len, menus)) == MOST_CHOICES
    assert all(menu == sorted(menu, key=lambda one: one.extra) for menu in menus)


# --- By example --------------------------------------------------------------------------------------------------


def at(mile: float, price: float, brand: str, **details: int) -> Priced:
    return priced(mile, price, brand=brand, **details)


def menu(*stations: Priced, fuel_percent: float = 50.0, road_miles: float = 600.0) -> list[tuple[str, str, Decimal]]:
    """The choices of a truck of 200 gal and 5 mpg, which is paid $20 a stop: kind, first stop, extra cost."""
    plan = feasible(inputs(meridian(road_miles), *stations, fuel_percent=fuel_percent))
    return [
        (one.kind, one.plan.stops[0].station.name if one.plan.stops else "", one.extra) for one in find_choices(plan)
    ]


def test_another_chain_costs_what_its_gallons_cost_more() -> None:
    """70 gal are bought at either place."""
    assert menu(at(300, 3.50, "Pilot"), at(305, 3.60, "Love's"), at(306, 3.55, "Pilot")) == [
        (ChoiceKind.OTHER_CHAIN, "Station 305", Decimal("7.00"))
    ]


def test_a_stop_an_hour_before_and_one_an_hour_behind() -> None:
    assert menu(at(240, 3.60, "Pilot"), at(290, 3.50, "Pilot"), at(340, 3.70, "Pilot")) == [
        (ChoiceKind.EARLIER, "Station 240", Decimal("7.00")),
        (ChoiceKind.LATER, "Station 340", Decimal("14.00")),
    ]


def test_one_stop_fewer_costs_the_dearer_gallons_less_the_stop_that_is_saved() -> None:
    """130 gal are bought: 30 at 3.50 and 100 at 2.50, or all of them at 3.50."""
    assert menu(at(240, 3.50, "Pilot"), at(430, 2.50, "Pilot"), road_miles=900.0) == [
        (ChoiceKind.FEWER_STOPS, "Station 240", Decimal("80.00"))
    ]


def test_a_stop_further_away_than_an_hour_and_a_half_is_no_choice() -> None:
    assert menu(at(200, 3.60, "Pilot"), at(290, 3.50, "Pilot")) == []


def test_a_place_with_parking_where_the_planned_one_has_none() -> None:
    stations = at(300, 3.50, "Pilot", parking_spaces=0), at(310, 3.55, "Pilot", parking_spaces=90)
    assert menu(*stations) == [(ChoiceKind.AMENITIES, "Station 310", Decimal("3.50"))]
    assert menu(at(300, 3.50, "Pilot", parking_spaces=5), stations[1]) == []


def test_showers_where_no_file_tells_of_any_at_the_planned_place() -> None:
    assert menu(at(300, 3.50, "Pilot"), at(310, 3.55, "Pilot", showers=4)) == [
        (ChoiceKind.AMENITIES, "Station 310", Decimal("3.50"))
    ]


def test_one_place_is_one_choice() -> None:
    assert [kind for kind, *_ in menu(at(300, 3.50, "Pilot"), at(330, 3.60, "Love's", showers=4))] == [
        ChoiceKind.OTHER_CHAIN
    ]


def test_a_plan_without_a_stop_has_no_menu() -> None:
    assert menu(at(300, 3.50, "Pilot"), at(305, 3.60, "Love's"), fuel_percent=95.0, road_miles=200.0) == []


# --- A choice that was taken -------------------------------------------------------------------------------------


def taken(plan: ComputedPlan, wanted: Wanted) -> ComputedPlan:
    found = plan_as_chosen(plan, wanted)
    assert isinstance(found, ComputedPlan)
    return found


def extra(plan: ComputedPlan) -> float:
    assert plan.chosen is not None
    return plan.chosen.explained["extra_cost"]


def test_a_taken_choice_costs_what_the_menu_said_and_leads_back() -> None:
    plan = feasible(inputs(meridian(600.0), at(300, 3.50, "Pilot"), at(305, 3.60, "Love's")))
    (offered,) = find_choices(plan)
    chosen = taken(plan, Wanted(offered.kind, station_id="S305", instead_of="S300"))
    assert (chosen.stops, extra(chosen)) == (offered.plan.stops, float(offered.extra))
    (back,) = find_choices(chosen)
    assert (back.kind, back.plan.stops, back.extra) == (ChoiceKind.CHEAPEST, plan.stops, Decimal("0.00"))
    assert taken(plan, Wanted(back.kind, instead_of="S300")).stops == plan.stops


def test_a_truck_that_could_do_without_the_stop_by_now_pays_for_the_difference_of_the_two_stops() -> None:
    """The fuel on board is enough, and 30 gal are bought at either place."""
    stations = at(300, 3.50, "Pilot"), at(305, 3.60, "Love's")
    now = feasible(inputs(meridian(600.0), *stations, fuel_percent=95.0, end_fuel_percent=20.0))
    assert not now.stops
    assert extra(taken(now, Wanted(ChoiceKind.OTHER_CHAIN, station_id="S305", instead_of="S300"))) == 3.0


def test_a_choice_whose_station_is_not_ahead_is_not_made() -> None:
    plan = feasible(inputs(meridian(600.0), at(300, 3.50, "Pilot")))
    refused = plan_as_chosen(plan, Wanted(ChoiceKind.EARLIER, station_id="S240", instead_of="S300"))
    assert isinstance(refused, NoPlan)
    assert "not ahead any more" in refused.infeasible.reason
