"""Stages the rows of a file in a temporary table by COPY: seconds for 100,000 rows, where single statements would take
twenty. A statement then inserts them, because COPY cannot write into a table with row-level security."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, LiteralString

from psycopg import sql

from domain.database.connections import Connection

_ROWS_AT_ONCE = 5_000
"""Rows of one COPY. They are read before it begins: a COPY is one statement, and reading a large file, or waiting for a
smaller one, takes longer than a statement may."""


def stage(
    connection: Connection,
    table: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    like: LiteralString | None = None,
) -> sql.Identifier:
    """Copy rows for `table` into a temporary table, which goes with the transaction. Returns its name. `like` is a join
    of tables with such columns, if the rows are for several."""
    staged, names = sql.Identifier(f"staged_{table}"), sql.SQL(", ").join(map(sql.Identifier, columns))
    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(staged))  # of an earlier import in this transaction
    connection.execute(
        sql.SQL("CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {} FROM {} LIMIT 0").format(
            staged, names, sql.SQL(like) if like is not None else sql.Identifier(table)
        )
    )
    unread = iter(rows)
    with connection.cursor() as cursor:
        while some := list(islice(unread, _ROWS_AT_ONCE)):
            with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(staged)) as copy:
                for row in some:
                    copy.write_row(row)
    return staged
