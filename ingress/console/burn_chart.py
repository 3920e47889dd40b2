"""The picture of a truck's burn on its page: the mileage of each trip as a dot, with the figures as lines."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from domain.burn.history import BurnHistory, MeasuredTrip
from ingress.console.savings_chart import PLOT, Tick

_MOST_DATES = 8
_ROOM_MPG = 0.3
"""Room above the highest dot and below the lowest one."""


class Dot(NamedTuple):
    """A trip at the time of its end and the height of its mileage."""

    x: float
    y: float
    counts: bool
    trip: MeasuredTrip


class BurnChart(NamedTuple):
    dots: list[Dot]
    mileages: list[Tick]
    """The axis of miles per gallon."""
    days: list[Tick]
    learned: Tick | None
    """The line of the learned figure."""
    declared: Tick | None


def draw_burn(history: BurnHistory, time_zone: str) -> BurnChart | None:
    """Draw the trips that have a mileage, the oldest on the left; None without any."""
    found = [
        (trip, mpg) for trip in reversed(history.trips) if (mpg := trip.mpg) is not None and mpg < _tallest(history)
    ]
    if not found:
        return None
    learned = history.learned.mpg if history.learned is not None else None
    shown = [mpg for _, mpg in found] + [one for one in (learned, history.declared_mpg) if one is not None]
    lowest, highest = max(min(shown) - _ROOM_MPG, 0.0), max(shown) + _ROOM_MPG

    def y(mpg: float) -> float:
        return round(PLOT.bottom - (mpg - lowest) / (highest - lowest) * (PLOT.bottom - PLOT.top), 1)

    first, last = found[0][0].ended_at, found[-1][0].ended_at
    seconds = (last - first).total_seconds() or 1.0

    def x(at: datetime) -> float:
        share = (at - first).total_seconds() / seconds if last > first else 0.5
        return round(PLOT.left + 20 + share * (PLOT.right - PLOT.left - 40), 1)

    dots = [Dot(x(trip.ended_at), y(mpg), trip.doubt is None, trip) for trip, mpg in found]
    return BurnChart(
        dots,
        [Tick(y(number / 2), f"{number / 2:g} mpg") for number in range(_halves(lowest), _halves(highest) + 1)][1:],
        _dates(dots, ZoneInfo(time_zone)),
        Tick(y(learned), f"learned {learned:.1f}") if learned is not None else None,
        Tick(y(history.declared_mpg), f"declared {history.declared_mpg:g}") if history.declared_mpg else None,
    )


def _tallest(history: BurnHistory) -> float:
    """The highest mileage that is drawn: a dead gauge shows hundreds of miles, and would press all others flat."""
    known = [history.burn.mpg, *(trip.mpg for trip in history.trips if trip.doubt is None and trip.mpg is not None)]
    return 2 * max(known)


def _halves(mpg: float) -> int:
    return int(mpg * 2)


def _dates(dots: Sequence[Dot], zone: ZoneInfo) -> list[Tick]:
    """The days below some of the dots, with room between them."""
    ticks: list[Tick] = []
    room = (PLOT.right - PLOT.left) / _MOST_DATES
    for dot in dots:
        if not ticks or dot.x - ticks[-1].at >= room:
            ticks.append(Tick(dot.x, f"{dot.trip.ended_at.astimezone(zone):%b %-d}"))
    return ticks
