"""The usable tank of a truck, from fuel cards: the gallons that a pump gave, over the rise that the gauge showed.

A tank that is declared as 280 gallons and takes 240 has a gauge that rises by a quarter for each 60 gallons. The figure
is only proposed: a person decides.
"""

from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np

from domain.burn.figures import NOTED_SHARE
from domain.burn.levels import ALIGNED_MILES, burn_of_steady, steady_levels
from domain.burn.trip_levels import CardFuel, LevelParts, at_miles

_LEAST_RISE_PERCENT, _FULL_PERCENT = 20.0, 97.0
"""A smaller rise proves little, and a full gauge hides what came in beyond it."""

_LEAST_FILLS = 5
"""Fewest fills from which a tank is told."""

MOST_SPREAD_SHARE_OF_TANK = 0.08
"""Largest median distance of the fills from the tank that they tell, as a share of it."""

SMALLEST_TANK_GALLONS, LARGEST_TANK_GALLONS = 40.0, 600.0

_NEAR_LEVELS = 3


def tanks_by_fills(parts: LevelParts, bought: Sequence[CardFuel]) -> Iterator[float]:
    """The tank by each fill of a trip: gallons for a rise of 100 %."""
    for levels in parts if bought else ():
        miles, percents = steady_levels(levels)
        burn = burn_of_steady(miles, percents, capacity_gallons=100.0)
        if burn is None:
            continue
        for purchase in at_miles(bought, levels):
            rise = _rise_at(miles, percents, purchase.mile, percent_per_mile=burn.gallons_per_mile)
            if rise is not None and rise >= _LEAST_RISE_PERCENT:
                yield 100 * purchase.gallons / rise


def _rise_at(miles: np.ndarray, percents: np.ndarray, mile: float, *, percent_per_mile: float) -> float | None:
    """The rise of the level where the truck fueled, with what burned between the levels around it; None where they do
    not show it."""
    near = [at for at in range(_NEAR_LEVELS, len(miles) - _NEAR_LEVELS + 1) if abs(miles[at] - mile) <= ALIGNED_MILES]
    if not near:
        return None
    at = max(near, key=lambda one: percents[one] - percents[one - 1])
    before, after = slice(at - _NEAR_LEVELS, at), slice(at, at + _NEAR_LEVELS)
    if percents[after].max() > _FULL_PERCENT:
        return None
    driven = float(np.median(miles[after]) - np.median(miles[before]))
    return float(np.median(percents[after]) - np.median(percents[before])) + driven * percent_per_mile


def tank_by_fills(tanks: Sequence[float]) -> float | None:
    """The tank that a truck's fills agree on, in whole gallons; None where they are few, or do not agree."""
    if len(tanks) < _LEAST_FILLS:
        return None
    tank = median(tanks)
    spread = median(abs(one - tank) for one in tanks)
    is_tank = SMALLEST_TANK_GALLONS <= tank <= LARGEST_TANK_GALLONS
    return float(round(tank)) if is_tank and spread <= MOST_SPREAD_SHARE_OF_TANK * tank else None


def differs(tank_gallons: float, declared_gallons: float) -> bool:
    return abs(tank_gallons / declared_gallons - 1) > NOTED_SHARE
