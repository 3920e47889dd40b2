"""Implausible fixes: places that a truck could reach only faster than any truck drives. One wrong fix, or a second
tracker that is elsewhere, must not make the true ones look wrong."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from domain.lifecycle import Environment
from domain.roads.sphere import METERS_PER_MILE, Point, great_circle_miles

FASTEST_TRUCK_MPH = 120.0
AGREEING_FIXES = 3
"""Implausible fixes that agree with each other are believed after all once they are this many more than the fixes that
contradict them."""


class GpsFix(Protocol):
    """A GPS position of a truck."""

    @property
    def recorded_at(self) -> datetime: ...
    @property
    def latitude(self) -> float: ...
    @property
    def longitude(self) -> float: ...
    @property
    def accuracy_meters(self) -> float | None: ...


AnyFix = TypeVar("AnyFix", bound=GpsFix)


def plausible_fixes(fixes: Sequence[AnyFix], environment: str) -> list[AnyFix]:
    """The fixes of a truck, in order of time, without implausible ones. In the sandbox all are kept: simulated time may
    start over, so fixes in a row may be of two drives."""
    wild = implausible_fixes(fixes) if environment == Environment.LIVE else ()
    return [fix for fix in fixes if fix.recorded_at not in wild]


def implausible_fixes(fixes: Sequence[GpsFix]) -> set[datetime]:
    """The fixes, by `recorded_at`, that a truck could reach only at more than 120 mph from the last believed one.
    `fixes` are in order of time; the first one is believed until others contradict it.

    Fixes that agree with each other are believed after all once they are three more than the believed ones meanwhile.
    Then those were the wrong ones, of a tracker that is elsewhere. For example, a truck at T with another tracker at G:

        G T T G T T      G is believed at first; with the last fix T is three more than G, and the second G is wrong
        G T G T G T G T  nobody can tell: G is believed
    """
    implausible: set[datetime] = set()
    believed: GpsFix | None = None
    doubted: list[GpsFix] = []
    against: list[GpsFix] = []
    for fix in fixes:
        if believed is None or _could_follow(believed, fix):
            believed = fix
            against.append(fix)
            if len(against) >= len(doubted):
                doubted, against = [], []
            continue
        if not (doubted and _could_follow(doubted[-1], fix)):
            doubted, against = [], []
        doubted.append(fix)
        implausible.add(fix.recorded_at)
        if len(doubted) - len(against) == AGREEING_FIXES:
            implausible.difference_update(doubt.recorded_at for doubt in doubted)
            implausible.update(wrong.recorded_at for wrong in against)
            believed, doubted, against = fix, [], []
    return implausible


def _could_follow(first: GpsFix, second: GpsFix) -> bool:
    blur_miles = ((first.accuracy_meters or 0) + (second.accuracy_meters or 0)) / METERS_PER_MILE
    hours = (second.recorded_at - first.recorded_at) / timedelta(hours=1)
    miles = great_circle_miles(Point(first.latitude, first.longitude), Point(second.latitude, second.longitude))
    return miles - blur_miles <= FASTEST_TRUCK_MPH * hours
