"""Compares the rows that a company has in two cells: their number and a checksum, table by table."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from psycopg import sql

from domain.database.connections import Connection
from domain.errors import FuelrouteError
from domain.ids import first_id_of
from domain.moving.moved_tables import MovedTable


class Rows(NamedTuple):
    """The rows of a company in one table."""

    number: int
    checksum: int


class RowsDiffer(FuelrouteError):
    def __init__(self, tables: dict[str, tuple[int, int]]) -> None:
        told = ", ".join(f"{name} ({here:,} rows here, {there:,} there)" for name, (here, there) in tables.items())
        super().__init__(
            f"the two cells do not have the same rows: {told}; the company works on here. Give the command again; if it"
            " happens again, give it with --cancel and begin anew"
        )


def compare(
    source: Connection,
    target: Connection,
    company_id: UUID,
    tables: Sequence[MovedTable],
    *,
    span: tuple[datetime, datetime],
    only_counts: bool = False,
) -> dict[str, int]:
    """The number of rows of each table, counted in both cells at the same time. In tables that only grow, rows that
    came in this span are compared. Raises RowsDiffer where the cells do not have the same rows; the move stops then."""
    with ThreadPoolExecutor(2) as threads:
        here = threads.submit(_rows_of, source, company_id, tables, span, only_counts)
        there = threads.submit(_rows_of, target, company_id, tables, span, only_counts)
        pairs = {table.name: (here.result()[table.name], there.result()[table.name]) for table in tables}
    differing = {name: (one.number, other.number) for name, (one, other) in pairs.items() if one != other}
    if differing:
        raise RowsDiffer(differing)
    return {name: one.number for name, (one, _) in pairs.items()}


def _rows_of(
    connection: Connection,
    company_id: UUID,
    tables: Sequence[MovedTable],
    span: tuple[datetime, datetime],
    only_counts: bool,
) -> dict[str, Rows]:
    since, until = span
    parameters = {
        "company_id": company_id,
        "since": since,
        "until": until,
        "since_id": first_id_of(since),
        "until_id": first_id_of(until),
    }
    queries = {table.name: _query(table._replace(columns=()) if only_counts else table) for table in tables}
    return {name: Rows(*connection.execute(query, parameters).fetchall()[0]) for name, query in queries.items()}


def _query(table: MovedTable) -> sql.Composed:
    """The count and a sum of hashes, which does not depend on the order of the rows."""
    query = "SELECT count(*), coalesce(sum(hashtextextended(ROW({})::text, 0)), 0) FROM {} AS it WHERE {}"
    columns = sql.SQL(", ").join(sql.Identifier("it", name) for name in table.columns)
    return sql.SQL(query).format(columns, sql.Identifier(table.name), _condition(table))


def _condition(table: MovedTable) -> sql.Composed:
    """The company's rows, found by an index where the table has one by company or by a parent."""
    conditions: list[sql.Composable] = [
        sql.SQL("{} = %(company_id)s").format(sql.Identifier("it", table.company_column))
    ]
    if table.found_by is not None:
        column, parent = table.found_by
        of_parent = "{} IN (SELECT id FROM {} WHERE company_id = %(company_id)s)"
        conditions.append(sql.SQL(of_parent).format(sql.Identifier("it", column), sql.Identifier(parent)))
    if table.only_grows:
        conditions.append(sql.SQL(_SINCE[table.name]))
    return sql.SQL(" AND ").join(conditions)


_SINCE = {
    "positions": "it.recorded_at >= %(since)s AND it.received_at >= %(since)s AND it.received_at < %(until)s",
    "request_log": "it.id >= %(since_id)s AND it.id < %(until_id)s",
}
