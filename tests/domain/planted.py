"""Companies with a row in every table, in both environments."""

from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import sqlalchemy
from psycopg import sql
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlmodel import SQLModel

from domain import tables  # noqa: F401  (fills SQLModel.metadata)
from domain.database.connections import Connection
from domain.ids import new_id
from domain.lifecycle import Environment

LIVE, SANDBOX = Environment.LIVE, Environment.SANDBOX

OF_ALL = {
    *("change_marks", "coming_prices", "fuel_taxes", "queue_pauses", "restores", "sign_in_attempts", "signing_keys"),
    "stations",
}
"""Tables without any company's data: all processes read and write them."""

OF_OWNER = {"backfills", "company_moves", "erasures"}
"""Tables that only commands and the scheduler write."""

TABLES = {table.name: table for table in SQLModel.metadata.sorted_tables}
WALLED = [name for name in TABLES if name not in OF_ALL | OF_OWNER]

SOME_TIME = datetime(2026, 11, 1, tzinfo=UTC)

_BY_NAME: dict[str, Any] = {
    "role": "owner",
    "status": "draft",
    "objective": "pump",
    "map_link": "google",
    "kind": "unit_number",
    "net_price": 3.0,
    "station_id": "S-1",
    "channel": "outbox",
    "cause": "plan",
}
_BY_COLUMN = {
    ("driver_answers", "kind"): "going",
    ("driver_answers", "reason"): "closed",
    ("told_stops", "seen"): "bought",
}
_BY_TYPE: dict[type, Any] = {
    str: "x",
    int: 1,
    float: 1.0,
    bool: False,
    bytes: b"x",
    datetime: SOME_TIME,
    date: SOME_TIME.date(),
    list: "{}",
}


class Planted:
    """Two companies with a row in every table, each in both environments."""

    def __init__(self, connection: Connection) -> None:
        self.companies = (new_id(), new_id())
        self.users: dict[UUID, UUID] = {}
        for company_id in self.companies:
            ids: dict[str, Any] = {"companies": company_id}
            for environment in (LIVE, SANDBOX):
                for name in WALLED:
                    if environment is LIVE or "environment" in TABLES[name].c:
                        row = row_of(TABLES[name], company_id, environment, ids)
                        insert(connection, name, row)
                        if "id" in row:
                            ids[name] = row["id"]
            self.users[company_id] = ids["users"]


def insert(connection: Connection, table: str, row: dict[str, Any]) -> None:
    connection.execute(
        sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({})").format(
            sql.Identifier(table),
            sql.SQL(", ").join(map(sql.Identifier, row)),
            sql.SQL(", ").join(map(sql.Placeholder, row)),
        ),
        row,
    )


def row_of(table: sqlalchemy.Table, company_id: UUID, environment: Environment, ids: dict[str, Any]) -> dict[str, Any]:
    """The columns that a row must have, with values that the checks of the table allow."""
    row: dict[str, Any] = {}
    for column in table.c:
        needed = not column.nullable and column.server_default is None and column.identity is None
        if column.name == "company_id":
            row[column.name] = company_id
        elif column.name == "environment":
            row[column.name] = environment
        elif table.name == "companies" and column.name == "id":
            row[column.name] = company_id
        elif column.foreign_keys and needed:
            (key,) = column.foreign_keys
            row[column.name] = ids[key.column.table.name]
        elif column.autoincrement is True or (column.primary_key and column.type.python_type is int and needed):
            row[column.name] = new_id().int % 2**31 if table.name == "deals" else 0
        elif needed or (table.name == "deals" and column.name in ("station_id", "net_price")):
            row[column.name] = value_of(column)
    return row


def value_of(column: sqlalchemy.Column[Any]) -> Any:
    if isinstance(column.type, sqlalchemy.Uuid):
        return new_id()
    if column.name in ("email", "external_id", "token_hash"):  # each must be another one
        text = new_id().hex
        return text.encode() if isinstance(column.type, sqlalchemy.LargeBinary) else text
    return usual_value_of(column)


def usual_value_of(column: sqlalchemy.Column[Any]) -> Any:
    """One value for all rows."""
    if isinstance(column.type, (JSONB, ARRAY)):
        return "[]" if column.name == "stops" else "{}"
    if (column.table.name, column.name) in _BY_COLUMN:
        return _BY_COLUMN[column.table.name, column.name]
    usual = _BY_TYPE.get(column.type.python_type, "x")
    return _BY_NAME.get(column.name, usual) if usual == "x" or column.name == "net_price" else usual
