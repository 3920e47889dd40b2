"""The private names of psycopg and of its pool that Fuelroute uses.

A connection that overrides `wait` gives up a silent server. psycopg calls `wait` for every statement, and raises
`WaitTimeout` from it when the time is over. `tests/domain/database/test_psycopg_internals.py` fails when a new version
changes that; psycopg is pinned below its next minor version.
"""

import psycopg
from psycopg_pool.base import BasePool

WaitTimeout = psycopg.errors._WaitTimeout
"""The error of `wait` at the end of its `timeout`. The statement is still under way."""


def keep_one(pool: BasePool) -> None:
    """Has a pool that began without connections keep one from now on.

    A pool that begins with one begins another for a caller who comes before the first is there, which is the first
    caller of nearly every process; and so does `resize`. One that nobody uses needs none."""
    pool._min_size = max(pool._min_size, 1)
