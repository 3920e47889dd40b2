"""The columns that a user has chosen for a table of the console."""

from collections.abc import Sequence
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Command, Scalar

_READ = Scalar(list[str], "SELECT columns FROM table_columns WHERE user_id = %s AND table_name = %s")
_STORE = Command(
    "INSERT INTO table_columns (user_id, table_name, columns) VALUES (%s, %s, %s)"
    " ON CONFLICT (user_id, table_name) DO UPDATE SET columns = excluded.columns"
)
_FORGET = Command("DELETE FROM table_columns WHERE user_id = %s AND table_name = %s")


def read_table_columns(connection: Connection, user_id: UUID, table_name: str) -> list[str] | None:
    """The names of the chosen columns; None if the user has chosen none, and sees the usual ones."""
    return _READ.first(connection, (user_id, table_name))


def store_table_columns(connection: Connection, user_id: UUID, table_name: str, columns: Sequence[str] | None) -> None:
    """Remembers the choice; None goes back to the usual columns."""
    if columns is None:
        _FORGET.execute(connection, (user_id, table_name))
    else:
        _STORE.execute(connection, (user_id, table_name, list(columns)))
