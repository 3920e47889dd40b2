"""Claims: what leaves the service goes out in three steps, since no transaction waits for another's server.

A claim is stored in one transaction, the step is taken outside any, and its end is settled in another transaction, if
the claim still holds. A claim runs out by itself, so a worker that crashes keeps nothing for ever. Losing one of these
does another harm than repeating it, so the guarantees differ:

- A driver gets a message at least once: an attempt whose end nobody knows is repeated, less and less often. In the cab
  it never is. (`messages/message_life.py`)
- A person gets a notice at most once: after such an attempt it is doubtful. (`notices/notice_life.py`)
- An endpoint gets an event at least once, with the same id, and the events of a route in order.
  (`webhooks/deliveries.py`)
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from domain.backoff import backoff


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right of one worker to take a step, until `until`."""

    until: datetime


class Retries(NamedTuple):
    """The waits between attempts: `first`, then `factor` times as long after each, up to `longest`."""

    first: timedelta
    longest: timedelta | None = None
    factor: int = 2

    def wait(self, failures_before: int) -> timedelta:
        return backoff(self.first, failures_before, longest=self.longest, factor=self.factor)

    def next_at(
        self, failures_before: int, *, now: datetime, last_moment: datetime, least: timedelta = timedelta()
    ) -> datetime | None:
        """When the next attempt is due, after the wait or `least`. None: `last_moment` comes before, so that the step
        is given up."""
        due = now + max(self.wait(failures_before), least)
        return due if due <= last_moment else None
