"""The purchase that a truck's fixes show at a place: how long it stood there, and how much the level rose."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import NamedTuple

from domain.burn.levels import NEXT_TO_NOTHING_PERCENT
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
    """The longest stay of the truck at a place."""

    since: datetime
    stood: timedelta
    risen_percent: float | None
    """The level behind it less the level before; None where the truck sent none on one of the sides, or only one from
    the place, which it may have sent on the other side of a silence."""


def seen_purchase(fixes: Sequence[PlacedFix], place: Point) -> SeenPurchase | None:
    """The longest stay at a place by the truck's fixes, in order of time; None where none of them is near."""
    stays = _stays([great_circle_miles(fix.place, place) <= AT_PUMP_MILES for fix in fixes])
    if not stays:
        return None
    first, last = max(stays, key=lambda stay: fixes[stay[1]].at - fixes[stay[0]].at)
    before, behind = _levels(fixes[: first + 1])[-_READINGS:], _levels(fixes[last:])[:_READINGS]
    came_seen = first > 0 and fixes[first].at - fixes[first - 1].at <= FILLED_WITHIN
    left_seen = last + 1 < len(fixes) and fixes[last + 1].at - fixes[last].at <= FILLED_WITHIN
    if not (came_seen or _levels(fixes[:first])) or not (left_seen or _levels(fixes[last + 1 :])):
        before = []
    risen = median(behind) - median(before) if before and behind and last + 1 < len(fixes) else None
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


def _levels(fixes: Sequence[PlacedFix]) -> list[float]:
    return [fix.percent for fix in fixes if fix.percent is not None and fix.percent > NEXT_TO_NOTHING_PERCENT]
