"""The state of a scheduler process for its health checks: does it lead, and when did its passes last run?"""

import time
from typing import NamedTuple

from domain.telemetry.health import Health, Unhealthy

SESSION_SECONDS = 30.0
"""A scheduler without the lead asks for it every two seconds. Each attempt ends well before this time."""

PASSES_LATE = 5
SLOWEST_PASS_SECONDS = 60.0
"""A pass counts as late after several of its turns, and after at least this time, as in `domain.operations.alerts`."""


class _Run(NamedTuple):
    every_seconds: float
    at: float
    outcome: str


class SchedulerState:
    """Threads may use it at the same time: each note replaces one value."""

    def __init__(self) -> None:
        self._leads = False
        self._asked_at = time.monotonic()
        self._runs: dict[str, _Run] = {}

    def add_checks(self, health: Health) -> None:
        health.check_alive("lead", self.lead)
        health.check_ready("passes", self.passes)

    def note_asked(self) -> None:
        """Notes that this process does not lead: another one does, or no database answers."""
        self._leads, self._asked_at = False, time.monotonic()

    def note_lead(self) -> None:
        self._leads = True

    def note_pass(self, name: str, every_seconds: float, outcome: str) -> None:
        """Notes that a pass has ended, or runs for the first time now."""
        self._runs[name] = _Run(every_seconds, time.monotonic(), outcome)

    def lead(self) -> str:
        """The part that this process plays: it leads, or waits. Raises Unhealthy if it waits and does not ask."""
        if self._leads:
            return "leads"
        silent = time.monotonic() - self._asked_at
        if silent > SESSION_SECONDS:
            raise Unhealthy(f"it has not asked for the lead for {silent:.0f} s")
        return "stands by: another scheduler leads, or starts to"

    def passes(self) -> str:
        """The last run of each pass. Raises Unhealthy if one is late."""
        now = time.monotonic()
        for name, run in self._runs.items():
            if now - run.at > max(run.every_seconds * PASSES_LATE, SLOWEST_PASS_SECONDS):
                raise Unhealthy(
                    f"{name} has not ended for {now - run.at:.0f} s; it is due every {run.every_seconds:g} s"
                )
        runs = [f"{name} {run.outcome} {now - run.at:.0f} s ago" for name, run in sorted(self._runs.items())]
        return ", ".join(runs) or "none: it does not lead"
