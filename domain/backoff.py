"""Waits between attempts: each is longer than the last, up to a limit."""

from datetime import timedelta
from typing import TypeVar

Wait = TypeVar("Wait", float, timedelta)

_LARGEST_EXPONENT = 16

RETRY_WAIT = "least(interval '10 s' * 2 ^ least(attempts, 10), interval '15 min')"
"""SQL of the wait before the next attempt of an import, a plan or a review: 10 s, 20 s, 40 s and so on, at
most 15 minutes. `attempts` is a column of `routes`."""


def backoff(first: Wait, failures_before: float, *, longest: Wait | None = None, factor: int = 2) -> Wait:
    """The wait before the next attempt: `first`, then `factor` times as long after each further failure, at most
    `longest`."""
    wait: Wait = first * factor ** min(failures_before, _LARGEST_EXPONENT)
    return wait if longest is None else min(wait, longest)
