"""Stores how a claimed step ended, also where the database is away for a while."""

import time
from collections.abc import Callable
from typing import TypeVar

import psycopg

from domain import clock
from domain.claims import Claim
from domain.database.connections import Connection
from workers.context import Context

STORE_AGAIN_SECONDS = 1.0

Stored = TypeVar("Stored")


def store_while_claimed(context: Context, claimed: Claim, store: Callable[[Connection], Stored]) -> Stored:
    """The result of `store`, which is tried again as long as the claim holds: an attempt whose end is not stored is
    repeated, or doubted. Raises psycopg.OperationalError."""
    while True:
        try:
            with context.database.pipelined_transaction() as connection:
                return store(connection)
        except psycopg.OperationalError:
            if clock.now() >= claimed.until:
                raise
            time.sleep(STORE_AGAIN_SECONDS)
