"""An event loop with a clock of its own: an hour of waiting takes no time, and a busy machine makes nobody late. It is
for scenarios of one thread, without connections."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


_STEP_SECONDS = 1e-6
"""Each turn of the loop takes this time: a wait too short to move the clock would never end."""


class _Selector(selectors.DefaultSelector):
    """Moves the clock by what it would wait."""

    seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("everybody waits for ever")
        self.seconds += max(timeout, _STEP_SECONDS)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.seconds


def run_by_clockwork(scenario: Coroutine[Any, Any, Result]) -> Result:
    """The result of the scenario, whose time is that of its loop."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(scenario)
