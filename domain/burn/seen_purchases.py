"""The purchase that a truck's fixes show at a place: how long it stood there, and how much the level rose."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from statistics import median
from typing import NamedTuple

from domain.burn.levels import PURCHASE_PERCENT, shows_level
from domain.roads import Point, great_circle_miles

AT_PUMP_MILES = 0.75
"""A fix within this distance of a station is one at its pumps or on its parking lot."""

FILLED_WITHIN = timedelta(minutes=3)
"""A truck may have filled its tank in a longer silence: the level at one end of it tells nothing of the other."""

_READINGS = 3
"""The level before and behind a stop is the median of this many."""


class PlacedFix(NamedTuple):
    """A fix of a truck, with its level if it has one."""

    at: datetime
    place: Point
    percent: float | None


class SeenPurchase(NamedTuple):
    """A stay of the truck at a place."""

    since: datetime
    stood: timedelta
    risen_percent: float | None
    """The level behind it less the level before; None where the truck sent none on one of the sides, or only one from
    the place, which it may have sent on the other side of a silence."""


def seen_purchase(fixes: Sequence[PlacedFix], place: Point) -> SeenPurchase | None:
    """The stay at a place by the truck's fixes, in order of time: the longest one in which its level rose by a
    purchase, else the longest one. None where no fix is near."""
    stays = _stays([great_circle_miles(fix.place, place) <= AT_PUMP_MILES for fix in fixes])
    return max((_stay(fixes, *stay) for stay in stays), key=_is_purchase_and_long, default=None)


def _is_purchase_and_long(stay: SeenPurchase) -> tuple[bool, timedelta]:
    return stay.risen_percent is not None and stay.risen_percent >= PURCHASE_PERCENT, stay.stood


def _stay(fixes: Sequence[PlacedFix], first: int, last: int) -> SeenPurchase:
    """The stay from the first to the last of these near fixes."""
    before = _readings(fixes, range(first, -1, -1))
    behind = _readings(fixes, range(last, len(fixes)))
    came_seen = first > 0 and fixes[first].at - fixes[first - 1].at <= FILLED_WITHIN
    left_seen = last + 1 < len(fixes) and fixes[last + 1].at - fixes[last].at <= FILLED_WITHIN
    is_known = (came_seen or min(before, default=first) < first) and (left_seen or max(behind, default=last) > last)
    risen = None
    if before and behind and is_known and last + 1 < len(fixes):
        risen = _median_percent(fixes, behind) - _median_percent(fixes, before)
    return SeenPurchase(fixes[first].at, fixes[last].at - fixes[first].at, risen)


def _stays(is_near: Sequence[bool]) -> list[tuple[int, int]]:
    """The first and the last number of each run of near fixes."""
    stays: list[tuple[int, int]] = []
    for number, near in enumerate(is_near):
        if near and number and is_near[number - 1]:
            stays[-1] = (stays[-1][0], number)
        elif near:
            stays.append((number, number))
    return stays


def _readings(fixes: Sequence[PlacedFix], numbers: Iterable[int]) -> list[int]:
    """The first of these fixes that have a level."""
    return list(islice((number for number in numbers if shows_level(fixes[number].percent)), _READINGS))


def _median_percent(fixes: Sequence[PlacedFix], numbers: Iterable[int]) -> float:
    return median(fixes[number].percent or 0.0 for number in numbers)
