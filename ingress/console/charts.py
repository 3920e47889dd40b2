"""The small charts of the queues: a bar for each minute of the last hour, in above the line, out below it."""

from collections.abc import Sequence
from typing import NamedTuple

from domain.queue.rates import CHARTED_MINUTES, Minute

_STEP = 4
_BAR = 3
_HALF = 20
WIDTH = CHARTED_MINUTES * _STEP
HEIGHT = 2 * _HALF


class Chart(NamedTuple):
    """Paths of SVG, within `WIDTH` and `HEIGHT`."""

    entered: str
    done: str
    failed: str
    """Below what was done."""
    most: int
    """Jobs of the highest bar. In and out are drawn to the same scale."""


def draw_chart(minutes: Sequence[Minute]) -> Chart:
    """Of the last minutes; the newest one stands on the right."""
    shown = minutes[-CHARTED_MINUTES:]
    most = max([1, *(max(one.entered, one.done + one.failed) for one in shown)])

    def height(jobs: int) -> float:
        """What is there at all is seen."""
        return round(max(jobs / most * _HALF, 1), 1) if jobs else 0

    def bars(places: Sequence[tuple[float, float]]) -> str:
        return "".join(
            f"M{number * _STEP},{top:g}h{_BAR}v{high:g}h-{_BAR}z" for number, (top, high) in enumerate(places) if high
        )

    return Chart(
        bars([(_HALF - height(one.entered), height(one.entered)) for one in shown]),
        bars([(_HALF, height(one.done)) for one in shown]),
        bars([(_HALF + height(one.done), min(height(one.failed), _HALF - height(one.done))) for one in shown]),
        most,
    )
