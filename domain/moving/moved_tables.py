"""The tables that a move carries to another cell, and the way of each. They are found in the schema, so a new table
with a company's rows is moved without further changes."""

from typing import NamedTuple

from sqlalchemy import Table
from sqlmodel import SQLModel

from domain import tables  # noqa: F401 (fills SQLModel.metadata)

STAY_BEHIND = {
    "company_moves": "each cell keeps its own view of a move",
    "sessions": "a session belongs to a cookie of the console's host, and each cell has its own",
    "last_writes": "places in the log of this cell's server; without one the primary answers",
    "route_counts": "counted anew",
    "route_count_deltas": "counted anew",
    "deals": "numbered by each cell: written anew in the pause",
    "price_sets": "numbered by each cell: written anew in the pause",
}
"""Tables with a company's rows that replication does not carry, each with the reason. Devices and links to set a
password name no company; they belong to the console's host like sessions. Recovery codes and the columns of
tables name none either: their users make new ones, and choose again."""

RENUMBERED = ("deals", "price_sets")
"""Tables whose rows get new numbers in the other cell: small ones."""

_COUNTED_IN_CELL = {("routes", "changed_in")}
"""Columns that count the transactions of a cell: a trigger sets them in the other cell."""

_PARENTS = {"event_id": "webhook_events", "route_id": "routes", "vehicle_id": "vehicles", "key_id": "api_keys"}
"""Columns that lead to a company's rows, where a table has no index by company."""


class MovedTable(NamedTuple):
    """A table whose rows of one company are moved."""

    name: str
    company_column: str
    columns: tuple[str, ...]
    """The columns that have the same values in both cells."""
    only_grows: bool
    """True for a table in partitions that are dropped as a whole: rows are only inserted, so changes are not sent."""
    found_by: tuple[str, str] | None
    """A column, and the table whose ids it holds, by which the company's rows are found; None where the rows name the
    company."""


def moved_tables() -> list[MovedTable]:
    """Every table that replication carries, those that only grow first: they are the largest."""
    found = [_moved(table) for table in SQLModel.metadata.sorted_tables if _is_moved(table)]
    return sorted(found, key=lambda one: not one.only_grows)


def numbered_columns() -> list[tuple[str, str]]:
    """Columns of moved tables that count up in a sequence of each cell: table and column."""
    return [
        (table.name, column.name)
        for table in SQLModel.metadata.sorted_tables
        if _is_moved(table)
        for column in table.c
        if column.identity is not None
    ]


def _is_moved(table: Table) -> bool:
    return table.name not in STAY_BEHIND and (table.name == "companies" or "company_id" in table.c)


def _moved(table: Table) -> MovedTable:
    company_column = "id" if table.name == "companies" else "company_id"
    columns = tuple(column.name for column in table.c if (table.name, column.name) not in _COUNTED_IN_CELL)
    return MovedTable(
        table.name,
        company_column,
        columns,
        only_grows=table.dialect_options["postgresql"]["partition_by"] is not None,
        found_by=None if _has_index_by(table, company_column) else _way_to(table),
    )


def _has_index_by(table: Table, column: str) -> bool:
    keys = [[one.name for one in table.primary_key.columns]]
    whole = [index for index in table.indexes if index.dialect_options["postgresql"]["where"] is None]
    keys += [[one.name for one in index.columns] for index in whole]
    return any(names and names[0] == column for names in keys)


def _way_to(table: Table) -> tuple[str, str] | None:
    return next((way for way in _PARENTS.items() if way[0] in table.c), None)
