"""The reasons of a plan, computed again from its stored explanation: why each candidate was or was not chosen, and what
two simple ways of fueling would have cost.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from domain.languages.words import purchase_in_words
from domain.lifecycle import Objective
from domain.planning.each_stop import costs_with_each_stop
from domain.planning.explanation import (
    ExplainedCandidate,
    ExplainedInputs,
    ExplainedWay,
    Explanation,
    FullExplanation,
)
from domain.planning.habits import Habit, at_every_need, cheapest_in_reach, fuel_by_habit
from domain.planning.rounding import MAX_ROUNDING_LOSS_DOLLARS
from domain.planning.trips import (
    DOLLAR_TOLERANCE,
    GALLON_TOLERANCE,
    NUMBERS,
    BurnedBy,
    Candidate,
    Purchase,
    Trip,
    drive_trip,
)
from domain.stations.arrival_prices import PriceChange

CHOSEN = "chosen"
NOT_NEEDED = "not needed"
BELOW_SMALLEST = "below smallest purchase"
BELOW_FLOOR = "below its floor"
CHEAPER_IN_REACH = "cheaper one in reach"
DEARER = "dearer"
NOT_WORTH_A_STOP = "not worth a stop"
"""The station is cheap enough, but a stop there costs more time and detour than the price saves."""
NO_PLAN = "no plan"
CHOSEN_OTHERWISE = "chosen otherwise"
"""A stop there would be cheaper, but the driver has chosen another plan."""


class Reason(NamedTuple):
    """Why a candidate was chosen or not: `why` is one of the constants above, `detail` a sentence. `extra_cost` is how
    many dollars more the best plan with a stop there costs; None where no plan can stop there."""

    why: str
    detail: str
    extra_cost: float | None


def trip_of(explanation: Explanation | FullExplanation) -> Trip:
    """The trip that the optimizer was given."""
    inputs: dict[str, Any] = {**explanation["inputs"]}
    tax_adjusted = inputs["objective"] == Objective.TAX_ADJUSTED
    return Trip(
        **{name: inputs[name] for name in NUMBERS if name in inputs},
        candidates=tuple(
            Candidate(
                one["station_id"],
                one["mile"],
                one["detour_miles_in"],
                one["detour_miles_out"],
                one["adjusted_price"] if tax_adjusted else one["net_price"],
                one.get("floor_gallons", 0.0),
            )
            for one in explanation["candidates"]
        ),
        burned=tuple(BurnedBy(*by) for by in explanation.get("burned", ())),
    )


def with_reasons(explanation: Explanation, *, is_whole: bool = True) -> FullExplanation:
    """Add each candidate's `why`, `detail` and `extra_cost`, where the plan `ends_early`, and the `alternatives`. A
    part of an explanation (`is_whole` is False) has all chosen candidates, so its `why` and `detail` are right; its
    costs are left out, because they need all candidates."""
    trip = trip_of(explanation)
    gallons = [one["gallons"] for one in explanation["candidates"]]
    objective = explanation["objective"]
    costs = costs_with_each_stop(trip) if is_whole and objective is not None else [None] * len(gallons)
    reasons = _reasons(trip, explanation["candidates"], objective, costs, _chosen_extra(explanation))
    return {
        **explanation,
        "candidates": [
            {**one, "why": why, "detail": _with_price_change(detail, one), "extra_cost": extra_cost}
            for one, (why, detail, extra_cost) in zip(explanation["candidates"], reasons, strict=True)
        ],
        "ends_early": _ends_early(explanation["inputs"]),
        "alternatives": ways_of_fueling(trip, gallons, objective) if is_whole else [],
    }


def _chosen_extra(explanation: Explanation) -> float:
    """The dollars that the plan costs more than the cheapest one, because it was chosen."""
    choice = explanation.get("choice")
    return choice["extra_cost"] if choice is not None else 0.0


def _with_price_change(detail: str, one: ExplainedCandidate) -> str:
    """The detail, and how the price changes, where it does."""
    change = one.get("price_change")
    if change is None:
        return detail
    at = datetime.fromisoformat(change["at"])
    return f"{detail}; {PriceChange(at, change['before'], change['after']).in_words()}"


def _ends_early(inputs: ExplainedInputs) -> str | None:
    end, road_miles = inputs["distance_miles"], inputs.get("road_miles", inputs["distance_miles"])
    if road_miles <= end:
        return None
    return f"the plan ends at mile {end:,.1f}: it looks no further ahead (FUELROUTE_PLAN_HORIZON_MILES)"


def ways_of_fueling(trip: Trip, gallons: Sequence[float], objective: float | None) -> list[ExplainedWay]:
    """The costs of the plan and of two rules of thumb: fill up whenever the tank asks for fuel, and fill up at the
    cheapest pump in each range."""
    if objective is None:
        return []
    trip = replace(trip, max_stops=None, first_stops=None)  # the rules of thumb have no such limits
    return [
        _way("this plan", trip, [Purchase(index, amount) for index, amount in enumerate(gallons) if amount]),
        _by_rule("fill up at every need", trip, at_every_need),
        _by_rule("cheapest pump in each range", trip, cheapest_in_reach),
    ]


def _by_rule(name: str, trip: Trip, habit: Habit) -> ExplainedWay:
    fueling = fuel_by_habit(trip, habit)
    if fueling.arrives:
        return _way(name, trip, fueling.purchases)
    return {
        "name": name,
        "objective": None,
        "objective_less_leftover": None,
        "stops": len(fueling.purchases),
        "gallons": _gallons(fueling.purchases),
        "left_gallons": None,
    }


def _way(name: str, trip: Trip, purchases: Sequence[Purchase]) -> ExplainedWay:
    *_, left = drive_trip(trip, purchases)
    fuel = math.fsum(trip.candidates[index].price * gallons for index, gallons in purchases)
    bought, extra = _gallons(purchases), left - trip.end_gallons
    objective = fuel + trip.stop_cost * len(purchases) - trip.leftover_value_per_gallon * extra
    worth = max(fuel / bought - trip.leftover_value_per_gallon, 0) * extra if purchases else 0.0
    return {
        "name": name,
        "objective": round(objective, 6),
        "objective_less_leftover": round(objective - worth, 6),
        "stops": len(purchases),
        "gallons": bought,
        "left_gallons": round(left, 6),
    }


def _gallons(purchases: Sequence[Purchase]) -> float:
    return round(math.fsum(gallons for _, gallons in purchases), 6)


def _reasons(
    trip: Trip,
    explained: Sequence[ExplainedCandidate],
    objective: float | None,
    costs: Sequence[float | None],
    chosen_extra: float,
) -> Iterator[Reason]:
    gallons = [one["gallons"] for one in explained]
    purchases = [Purchase(index, amount) for index, amount in enumerate(gallons) if amount]
    arriving = drive_trip(trip, purchases) if objective is not None else ()
    made = 0
    mile, fuel = 0.0, min(trip.start_gallons, trip.usable_gallons)  # where the road was last rejoined, and with what
    for index, one in enumerate(trip.candidates):
        if objective is None:
            yield Reason(NO_PLAN, "no plan is feasible", None)
        elif gallons[index]:
            mile, fuel = one.mile, arriving[made] + gallons[index] - trip.gallons_back_to_road(one)
            made += 1
            detail = purchase_in_words(gallons[index], explained[index].get("fill_to_percent"))
            yield Reason(CHOSEN, detail, chosen_extra)
        else:
            cost = costs[index]
            extra_cost = None if cost is None else max(0.0, round(cost - objective + chosen_extra, 2))
            if chosen_extra and cost is not None and cost < objective - MAX_ROUNDING_LOSS_DOLLARS:
                yield Reason(CHOSEN_OTHERWISE, "a stop here would be cheaper", extra_cost)
                continue
            before = trip.candidates[purchases[made - 1].candidate_index] if made else None
            after = trip.candidates[purchases[made].candidate_index] if made < len(purchases) else None
            on_arrival = trip.arriving_gallons(one, from_mile=mile, gallons=fuel)
            yield Reason(*_why_not(trip, one, before, after, on_arrival), extra_cost)


def _why_not(
    trip: Trip, one: Candidate, before: Candidate | None, after: Candidate | None, on_arrival: float
) -> tuple[str, str]:
    """Compare a candidate with the plan's purchases `before` and `after` it. `on_arrival` is the fuel in the tank
    there."""
    room = trip.usable_gallons - on_arrival
    if room < trip.min_purchase_gallons - GALLON_TOLERANCE:
        return BELOW_SMALLEST, f"room for {max(room, 0):.1f} gal when passing by"
    if on_arrival < one.floor_gallons - GALLON_TOLERANCE:
        return BELOW_FLOOR, f"{on_arrival:.1f} gal on arrival, {one.floor_gallons:.1f} gal are wanted to buy there"
    if after is not None and after.price < one.price - DOLLAR_TOLERANCE:
        return CHEAPER_IN_REACH, f"{after.station_id} costs {after.price:.3f}"
    if before is not None and before.price <= one.price + DOLLAR_TOLERANCE:
        return DEARER, f"{before.station_id} cost {before.price:.3f}"
    if before is None and after is None:
        return NOT_NEEDED, "the fuel on board is enough"
    return NOT_WORTH_A_STOP, "it saves less than the stop costs"
