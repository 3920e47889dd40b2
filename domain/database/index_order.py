"""Statements that read a few rows of a large table in the order of an index.

PostgreSQL may take a sort of the whole table for cheaper: its statistics are old, or row security makes it expect one
row where there are a million."""

from collections.abc import Iterator
from contextlib import contextmanager

from domain.database.connections import Connection
from domain.database.statements import Command

_NO_SORT = Command("SET LOCAL enable_sort = off")
_SORT_AGAIN = Command("SET LOCAL enable_sort = on")


@contextmanager
def in_index_order(connection: Connection) -> Iterator[None]:
    """Within this block PostgreSQL reads rows by an index wherever an index has the order that is asked for. The block
    stands inside a transaction."""
    _NO_SORT.execute(connection)
    yield
    _SORT_AGAIN.execute(connection)
