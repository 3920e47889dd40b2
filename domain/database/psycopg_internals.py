"""The private names of psycopg that Fuelroute uses.

A connection that overrides `wait` gives up a silent server. psycopg calls `wait` for every statement, and raises
`WaitTimeout` from it when the time is over. `tests/domain/database/test_psycopg_internals.py` fails when a new version
changes that; psycopg is pinned below its next minor version.
"""

import psycopg

WaitTimeout = psycopg.errors._WaitTimeout
"""The error of `wait` at the end of its `timeout`. The statement is still under way."""
