"""How many jobs go into each queue and come out of it, by minute, for an hour.

Whoever enqueues counts in the script that enqueues, and workers count in their beats: counting costs no request of its
own. Redis keeps the counts, so they survive a restart of any process of ours.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import redis

from domain.queue.jobs import QUEUES, counts_of, minute_of

WINDOWS = (1, 5, 60)
"""Minutes over which rates are told."""
CHARTED_MINUTES = 60


class Minute(NamedTuple):
    """What a queue did in a minute."""

    entered: int
    done: int
    failed: int
    """Attempts. A job that fails and is tried again counts at each attempt, and once as done in the end."""


class Rates(NamedTuple):
    """One queue."""

    queue: str
    minutes: Sequence[Minute]
    """The newest last; it is still running. One more than are charted, for `per_minute`."""
    elapsed: float
    """Of the running minute, from 0 to 1."""

    def per_minute(self, what: str, minutes: int) -> float:
        """A rate over the last minutes, of the fields of `Minute`. They end now: of the minute in which they begin the
        part is taken that lies within them, as if its jobs had come evenly."""
        counts: list[int] = [getattr(one, what) for one in self.minutes[-minutes - 1 :]]
        return (sum(counts[1:]) + counts[0] * (1 - self.elapsed)) / minutes

    def table(self) -> dict[str, float]:
        """Each rate by its name, such as `in_5`."""
        return {
            f"{name}_{minutes}": round(self.per_minute(what, minutes), 2)
            for name, what in (("in", "entered"), ("out", "done"), ("failed", "failed"))
            for minutes in WINDOWS
        }


def shown_rate(jobs_a_minute: float) -> str:
    """`0`, `0.4`, `3.5`, `1,200`."""
    if 0 < jobs_a_minute < 0.05:
        return "< 0.1"
    return f"{jobs_a_minute:,.0f}" if jobs_a_minute >= 10 or not jobs_a_minute else f"{jobs_a_minute:.1f}"


def read_rates(client: redis.Redis, *, now: datetime) -> list[Rates]:
    """Raises redis.RedisError."""
    newest = minute_of(now.timestamp())
    with client.pipeline(transaction=False) as ask:
        for minute in range(newest - CHARTED_MINUTES, newest + 1):
            ask.hgetall(counts_of(minute))
        counted: list[dict[bytes, bytes]] = ask.execute()
    elapsed = now.timestamp() / 60 - newest
    return [Rates(queue, [_minute(counts, queue) for counts in counted], elapsed) for queue in QUEUES]


def _minute(counts: dict[bytes, bytes], queue: str) -> Minute:
    return Minute(*(int(counts.get(f"{what} {queue}".encode(), 0)) for what in ("in", "done", "failed")))
