"""The rules that tell if a plan made at the first stop no longer fits the fuel or the prices.

They compare only like values: a fuel level at the stop with one at the stop, savings with savings over the same road.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from domain.stations.arrival_prices import NEAR_CHANGE

FUEL_CHANGE_PERCENT = 10.0
"""Percent of capacity. A smaller change moves a purchase by a few gallons, and the driver sees that at the pump."""

SETTLED_PERCENT = 1.0
"""The tank is not being filled while two readings in a row differ by no more than this."""

SAVING_CHANGE_DOLLARS = 10.0
"""Smallest change of a plan's saving for which the driver gets new instructions."""

MAX_BURNED_PERCENT = 30.0
"""Percent of capacity. The fuel that the road burned is estimated. An error of 15 % in this much is 4.5 %, half of a
change."""

STILL_AT_STOP_MILES = 0.5
"""A truck within this distance of where it arrived is still at its first stop, or at a pump beside it."""

SAME_ROAD_MILES = 25.0
"""Longest drive since a plan was made after which its saving still compares: further on, it is another trip."""


def level_on_leaving(
    percent: float, road_miles: float, *, mpg: float, capacity_gallons: float, plan: Mapping[str, Any]
) -> float | None:
    """The level at the first stop in percent, from a reading of `percent` after so many miles.

    The fuel that the road burned is added. For example, of 200 gallons, 55 % after 65 miles at 6.5 mpg: 10 gallons were
    burned, which are 5 %, so the tank held 60 %.

    None where the reading says nothing about the first stop: beyond the plan's first purchase, or too far away. A
    reading at the stop itself counts, even if the first purchase is there, see `percent_bought_at_stop`. `plan` is a
    fuel plan as the API shows it.
    """
    burned_percent = 100 * road_miles / mpg / capacity_gallons
    passed = any(
        road_miles > STILL_AT_STOP_MILES and stop["milesFromOrigin"] <= road_miles for stop in plan["stops"][:1]
    )
    return None if passed or burned_percent > MAX_BURNED_PERCENT else percent + burned_percent


def percent_bought_at_stop(plan: Mapping[str, Any], *, capacity_gallons: float) -> float:
    """The plan's purchases at the first stop itself, in percent of capacity: a truck that made them holds this much
    more than at the plan's start."""
    gallons = sum(stop["gallonsToFill"] for stop in plan["stops"] if stop["milesFromOrigin"] <= STILL_AT_STOP_MILES)
    return float(100 * gallons / capacity_gallons)


def fuel_changed(planned_percent: float, readings: Sequence[float], *, departed: bool) -> bool:
    """Tell if the fuel level has changed since the plan was made. `readings` are in percent, the newest first.

    One odd reading proves nothing: two in a row must be off, to the same side. While the truck stands they must also
    agree, so that the driver is told when the tank is full and not while it fills. For a plan made with 40 %:

        90, 90   changed                       90, 40   one odd reading: not changed
        90, 60   changed once it has departed; at the stop the tank is still being filled
    """
    if len(readings) < 2:
        return False
    newest, before = readings[0], readings[1]
    off = min(newest, before) > planned_percent + FUEL_CHANGE_PERCENT
    off |= max(newest, before) < planned_percent - FUEL_CHANGE_PERCENT
    return off and (departed or abs(newest - before) <= SETTLED_PERCENT)


def is_about(percent: float, readings: Sequence[float]) -> bool:
    """Tell if the newest reading is about this level, so that the driver has bought what the plan says."""
    return abs(readings[0] - min(percent, 100.0)) <= FUEL_CHANGE_PERCENT


def savings_compare(
    before: Mapping[str, Any], *, driven_miles: float, percent_before: float, percent_after: float
) -> bool:
    """Tell if the savings of two plans can be compared: the road is the same, and the fuel is about the same.

    When the truck has gone far, has passed a purchase or is filling its tank, the savings differ whatever the prices
    are. `before` is the older plan as the API shows it, `driven_miles` how much shorter the way is by now.
    """
    bought = any(stop["milesFromOrigin"] <= driven_miles for stop in before["stops"][:1])
    same_fuel = abs(percent_after - percent_before) <= FUEL_CHANGE_PERCENT
    return abs(driven_miles) <= SAME_ROAD_MILES and not bought and same_fuel


def price_rises_first(plan: Mapping[str, Any], *, delay: timedelta) -> bool:
    """Tell if the price of one of the plan's stops rises before a truck comes that leaves so much later, or within an
    hour after it. `plan` is a plan's document."""
    rises = ((stop["estimatedArrival"], stop.get("priceRisesAt")) for stop in plan["stops"])
    return delay > timedelta(0) and any(
        datetime.fromisoformat(arrival) + delay + NEAR_CHANGE >= datetime.fromisoformat(rises_at)
        for arrival, rises_at in rises
        if arrival is not None and rises_at is not None
    )


def saving_changed(before: float | None, after: float | None) -> bool:
    """Tell if new prices change a plan's saving enough to tell the driver. A saving of None, for a plan without
    purchases, counts as 0."""
    return abs((after or 0.0) - (before or 0.0)) > SAVING_CHANGE_DOLLARS


def cost_changed(old: float, new: float) -> bool:
    """Tell if a plan costs enough more than another, both at today's prices, to tell the driver."""
    return old - new > SAVING_CHANGE_DOLLARS
