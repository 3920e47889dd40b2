"""The small charts of the queues: one bar for each minute of the last hour, jobs in above the line, jobs out below
it."""

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
    """The bars of failed jobs, below the bars of done jobs."""
    most: int
    """The number of jobs in the highest bar. In and out have one scale."""


def draw_chart(minutes: Sequence[Minute]) -> Chart:
    """Draw the last minutes, with the newest one on the right."""
    shown = minutes[-CHARTED_MINUTES:]
    most = max([1, *(max(one.entered, one.done + one.failed) for one in shown)])

    def height(jobs: int) -> float:
        """The height of a bar. A single job stays visible beside many."""
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
