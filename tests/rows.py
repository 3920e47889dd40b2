"""Rows by name, for what tests look up themselves."""

from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import namedtuple_row


def named(connection: psycopg.Connection[Any]) -> psycopg.Cursor[Any]:
    """A cursor whose rows have the columns as attributes. The service's own statements have typed rows instead."""
    return connection.cursor(row_factory=namedtuple_row)


def stored_id(shown: str) -> UUID:
    """The id that the API shows, as it is stored."""
    return UUID(shown[4:])
