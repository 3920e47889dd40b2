"""When a plan made at the first stop no longer fits what is known on leaving it. Rules only.

Like is compared with like: levels at the stop with levels at the stop, savings with savings over the same road.
"""

from collections.abc import Mapping, Sequence
from typing import Any

FUEL_CHANGE_PERCENT = 10.0
"""Of capacity. A smaller change moves a purchase by some gallons, and the driver sees that at the pump."""

SETTLED_PERCENT = 1.0
"""Two readings in a row nearer than this: nobody is pumping at the moment."""

SAVING_CHANGE = 10.0
"""Dollars. For less nobody is bothered with new instructions."""


MAX_BURNED_PERCENT = 30.0
"""Of capacity. What the road has burned is an estimate, and an error of 15 % in this much is half of a change."""

SAME_ROAD_MILES = 25.0
"""A truck that has driven further than this since its plan was made is on another trip, as far as savings go."""


def level_on_leaving(
    percent: float, road_miles: float, *, mpg: float, capacity_gallons: float, plan: Mapping[str, Any]
) -> float | None:
    """What the tank held at the first stop, from a reading so many miles on: what the road burned is put back.

    None where it says nothing about that: beyond the plan's first purchase, or too far away. `plan` is the contract's.
    """
    burned_percent = 100 * road_miles / mpg / capacity_gallons
    if burned_percent > MAX_BURNED_PERCENT or any(stop["milesFromOrigin"] <= road_miles for stop in plan["stops"][:1]):
        return None
    return percent + burned_percent


def fuel_changed(planned_percent: float, readings: Sequence[float], *, departed: bool) -> bool:
    """Whether the tank no longer holds what the plan was made with; `readings` in percent, the newest first.

    One odd reading proves nothing: two in a row must be off, to the same side. As long as the truck stands they must
    also agree, so that the driver is told once the tank is full and not while it fills.
    """
    if len(readings) < 2:
        return False
    newest, before = readings[0], readings[1]
    off = min(newest, before) > planned_percent + FUEL_CHANGE_PERCENT
    off |= max(newest, before) < planned_percent - FUEL_CHANGE_PERCENT
    return off and (departed or abs(newest - before) <= SETTLED_PERCENT)


def same_trip(
    before: Mapping[str, Any], after: Mapping[str, Any], *, percent_before: float, percent_after: float
) -> bool:
    """Whether the savings of two plans, the contract's, compare: those of the same road with about the same fuel.

    A truck that has gone far, passed a purchase or is filling its tank saves something else, whatever the prices are.
    """
    driven_miles = before["totalDistanceMiles"] - after["totalDistanceMiles"]
    bought = any(stop["milesFromOrigin"] <= driven_miles for stop in before["stops"][:1])
    same_fuel = abs(percent_after - percent_before) <= FUEL_CHANGE_PERCENT
    return abs(driven_miles) <= SAME_ROAD_MILES and not bought and same_fuel


def saving_moved(before: float | None, after: float | None) -> bool:
    """Whether new prices change a plan's saving enough to tell; None, of a plan without purchases, is no saving."""
    return abs((after or 0.0) - (before or 0.0)) > SAVING_CHANGE
