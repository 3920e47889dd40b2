"""The chart of the page Replay: the gallons bought at each chain on both sides, as two bars beside its name."""

from collections.abc import Sequence
from typing import NamedTuple

from domain.replay.results import Line

MOST_CHAINS = 10
WIDTH, LEFT, RIGHT = 1000.0, 220.0, 860.0
_BAR, _STEP, _TOP = 16.0, 46.0, 6.0


class ChainBars(NamedTuple):
    """Both bars of a chain, in the units of the chart."""

    name: str
    y: float
    width_before: float
    width_after: float
    gallons_before: float
    gallons_after: float

    @property
    def y_after(self) -> float:
        return self.y + _BAR + 2


class GallonsChart(NamedTuple):
    """The chains with the most gallons, and the size of the drawing."""

    chains: list[ChainBars]
    height: float
    width: float = WIDTH
    left: float = LEFT
    bar: float = _BAR


def draw_gallons(lines: Sequence[Line]) -> GallonsChart:
    shown = sorted(lines, key=lambda one: (-max(one.gallons_before, one.gallons_after), one.name))[:MOST_CHAINS]
    most = max((max(one.gallons_before, one.gallons_after) for one in shown), default=0.0) or 1.0

    def width(gallons: float) -> float:
        return round((RIGHT - LEFT) * gallons / most, 1)

    chains = [
        ChainBars(
            one.name,
            _TOP + number * _STEP,
            width(one.gallons_before),
            width(one.gallons_after),
            one.gallons_before,
            one.gallons_after,
        )
        for number, one in enumerate(shown)
    ]
    return GallonsChart(chains, _TOP + len(chains) * _STEP)
