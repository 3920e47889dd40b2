"""Jobs that enter and leave each queue, by minute, for an hour.

The scripts that enqueue count the jobs that enter. Workers report the jobs that ended in their heartbeats. So counting
costs no extra request. Redis keeps the counts, so they survive a restart of any process of ours."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import redis

from domain.queue.jobs import QUEUES
from domain.queue.redis_layout import minute_of, rates_key

WINDOWS = (1, 5, 60)
"""Lengths in minutes over which rates are averaged."""
CHARTED_MINUTES = 60


class Minute(NamedTuple):
    """The jobs of one queue in one minute."""

    entered: int
    done: int
    failed: int
    """Attempts that failed. A job that fails and is tried again counts at each attempt, and once as done in the end."""


class Rates(NamedTuple):
    """The minutes of one queue."""

    queue: str
    minutes: Sequence[Minute]
    """The last minutes, the newest and still running one at the end; one more than is charted, for `per_minute`."""
    elapsed: float
    """The share of the running minute that is over, from 0 to 1."""

    def per_minute(self, what: str, minutes: int) -> float:
        """The rate of a field of `Minute` over the last minutes up to now. The first minute counts in part, as if its
        jobs had come evenly."""
        counts: list[int] = [getattr(one, what) for one in self.minutes[-minutes - 1 :]]
        return (sum(counts[1:]) + counts[0] * (1 - self.elapsed)) / minutes

    def table(self) -> dict[str, float]:
        """All rates by name, such as `in_5`."""
        return {
            f"{name}_{minutes}": round(self.per_minute(what, minutes), 2)
            for name, what in (("in", "entered"), ("out", "done"), ("failed", "failed"))
            for minutes in WINDOWS
        }


def shown_rate(jobs_a_minute: float) -> str:
    """A rate as people read it: `0`, `0.4`, `3.5`, `1,200`."""
    if 0 < jobs_a_minute < 0.05:
        return "< 0.1"
    return f"{jobs_a_minute:,.0f}" if jobs_a_minute >= 10 or not jobs_a_minute else f"{jobs_a_minute:.1f}"


def read_rates(client: redis.Redis, *, now: datetime) -> list[Rates]:
    """The rates of every queue. Raises redis.RedisError when Redis is away."""
    newest = minute_of(now.timestamp())
    with client.pipeline(transaction=False) as ask:
        for minute in range(newest - CHARTED_MINUTES, newest + 1):
            ask.hgetall(rates_key(minute))
        counted: list[dict[bytes, bytes]] = ask.execute()
    elapsed = now.timestamp() / 60 - newest
    return [Rates(queue, [_minute(counts, queue) for counts in counted], elapsed) for queue in QUEUES]


def _minute(counts: dict[bytes, bytes], queue: str) -> Minute:
    return Minute(*(int(counts.get(f"{what} {queue}".encode(), 0)) for what in ("in", "done", "failed")))
