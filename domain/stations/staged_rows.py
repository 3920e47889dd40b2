"""Rows of a file, copied into a temporary table while others change prices, and compared there with what is stored.

The SQL on that table is composed when it runs. It is no constant `Statement`, because the table does not exist when the
tests prepare all statements.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import date
from typing import Any, NamedTuple

from psycopg import sql

from domain.database.connections import Connection
from domain.database.staging import stage
from domain.errors import FuelrouteError
from domain.files.csvfiles import FileRow, ImportReport, RowShape


class AlreadyPriced(FuelrouteError):
    def __init__(self, what: str, valid_from: date | None) -> None:
        super().__init__(
            f"there is a {what} {f'from {valid_from} on' if valid_from else 'without a first day'} already"
        )


class RowKey(NamedTuple):
    """The columns that identify a row."""

    always: Sequence[str]
    optional: Sequence[str] = ()
    """Columns in which NULL counts as a value."""


def stage_rows(
    connection: Connection,
    table: str,
    columns: Sequence[str],
    lines: Iterable[FileRow[RowShape]],
    values: Callable[[RowShape], tuple[Any, ...]],
) -> frozenset[str]:
    """Stage the rows. Returns the columns that the file lacks."""
    absent: frozenset[str] = frozenset()

    def rows() -> Iterator[tuple[Any, ...]]:
        nonlocal absent
        for line in lines:
            absent = line.absent
            yield values(line.row)

    stage(connection, table, columns, rows())
    return absent


def keep_stored(connection: Connection, table: str, key: RowKey, columns: Collection[str]) -> None:
    """Give staged rows the stored values of these columns."""
    if columns:
        connection.execute(
            sql.SQL("UPDATE {} new SET {} FROM {} stored WHERE {}").format(
                sql.Identifier(f"staged_{table}"),
                sql.SQL(", ").join(sql.SQL("{0} = stored.{0}").format(sql.Identifier(name)) for name in columns),
                sql.Identifier(table),
                same_key(key),
            )
        )


def same_key(key: RowKey) -> sql.Composed:
    """An equality that PostgreSQL can hash: with `IS NOT DISTINCT FROM` it would compare each row with each. No text of
    a key is empty, so an empty one can stand for NULL."""
    always = [sql.SQL("stored.{0} = new.{0}").format(sql.Identifier(name)) for name in key.always]
    optional = [
        sql.SQL("coalesce(stored.{0}::text, '') = coalesce(new.{0}::text, '')").format(sql.Identifier(name))
        for name in key.optional
    ]
    return sql.SQL(" AND ").join([*always, *optional])


def count_outcomes(
    connection: Connection,
    table: str,
    key: RowKey,
    columns: Sequence[str],
    report: ImportReport,
    removable: Sequence[str] = (),
) -> None:
    """Count the staged rows that are new, changed and unchanged, and the stored values of `removable` columns that they
    remove."""
    different = sql.SQL("({}) IS DISTINCT FROM ({})").format(
        sql.SQL(", ").join(sql.SQL("stored.{}").format(sql.Identifier(name)) for name in columns),
        sql.SQL(", ").join(sql.SQL("new.{}").format(sql.Identifier(name)) for name in columns),
    )
    removed = sql.SQL("ARRAY[{}]::bigint[]").format(
        sql.SQL(", ").join(
            sql.SQL("count(*) FILTER (WHERE stored.{0} IS NOT NULL AND new.{0} IS NULL)").format(sql.Identifier(name))
            for name in removable
        )
    )
    counts = connection.execute(
        sql.SQL(
            "SELECT count(*) FILTER (WHERE stored.ctid IS NULL),"
            " count(*) FILTER (WHERE stored.ctid IS NOT NULL AND {different}),"
            " count(*), {removed} FROM {staged} new LEFT JOIN {table} stored ON {same_key}"
        ).format(
            different=different,
            removed=removed,
            staged=sql.Identifier(f"staged_{table}"),
            table=sql.Identifier(table),
            same_key=same_key(key),
        )
    ).fetchone()
    assert counts is not None  # noqa: S101
    report.created, report.updated, total, lost = counts
    report.unchanged = total - report.created - report.updated
    report.removed = {name: count for name, count in zip(removable, lost, strict=True) if count}
