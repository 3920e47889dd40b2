"""Waits between attempts: each is longer than the one before, up to the longest. `routes.transitions` has the same in
SQL."""

from datetime import timedelta
from typing import TypeVar

Wait = TypeVar("Wait", float, timedelta)

_LARGEST_EXPONENT = 16


def backoff(first: Wait, failures_before: float, *, longest: Wait | None = None, factor: int = 2) -> Wait:
    """The wait before the next attempt: `first`, then `factor` times as long after each further failure."""
    wait: Wait = first * factor ** min(failures_before, _LARGEST_EXPONENT)
    return wait if longest is None else min(wait, longest)
