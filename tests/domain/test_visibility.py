"""The second wall: the ingress, the console and the workers see the companies that a transaction names, and no others,
whatever a statement forgets to ask."""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
import sqlalchemy
from psycopg import sql
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlmodel import SQLModel

import domain
from domain import tables  # noqa: F401  (fills SQLModel.metadata)
from domain.database import Connection, Database
from domain.ids import new_id
from domain.lifecycle import Environment
from domain.settings import Settings
from domain.visibility import EVERYTHING, NOTHING, SERVICE_ROLE, Visibility, of_companies, of_tenants
from tests.conftest import own_database

LIVE, SANDBOX = Environment.LIVE, Environment.SANDBOX

OF_ALL = {"fuel_taxes", "queue_pauses", "restores", "sign_in_attempts", "stations"}
"""Tables without any company's data: all processes read and write them."""

OF_OWNER = {"backfills", "erasures"}
"""Tables that only commands and the scheduler use."""

SHARED = {"csv_imports", "price_sets"}
"""Rows of no company are for all."""

TABLES = {table.name: table for table in SQLModel.metadata.sorted_tables}
WALLED = [name for name in TABLES if name not in OF_ALL | OF_OWNER]

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
_BY_TYPE: dict[type, Any] = {
    str: "x",
    int: 1,
    float: 1.0,
    bool: False,
    bytes: b"x",
    datetime: datetime(2026, 11, 1, tzinfo=UTC),
    date: date(2026, 11, 1),
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
                for table in SQLModel.metadata.sorted_tables:
                    if table.name in WALLED and (environment is LIVE or "environment" in table.c):
                        plant(connection, table, company_id, environment, ids)
            self.users[company_id] = ids["users"]


def plant(
    connection: Connection, table: sqlalchemy.Table, company_id: UUID, environment: Environment, ids: dict[str, Any]
) -> None:
    row = row_of(table, company_id, environment, ids)
    connection.execute(
        sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
            sql.Identifier(table.name),
            sql.SQL(", ").join(map(sql.Identifier, row)),
            sql.SQL(", ").join(map(sql.Placeholder, row)),
        ),
        row,
    )
    if "id" in row:
        ids[table.name] = row["id"]


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
    if isinstance(column.type, (JSONB, ARRAY)):
        return "[]" if column.name == "stops" else "{}"
    usual = _BY_TYPE.get(column.type.python_type, "x")
    return _BY_NAME.get(column.name, usual) if usual == "x" or column.name == "net_price" else usual


@pytest.fixture(scope="module")
def walled() -> Iterator[tuple[Database, Planted]]:
    with own_database("visible") as owner:
        with owner.transaction() as connection:
            planted = Planted(connection)
        with Database(owner.url, visible=lambda: NOTHING) as service:
            yield service, planted


def companies_seen(connection: Connection, table: str) -> list[UUID | None]:
    """The company of each row that the transaction sees, where the table has the column; else None for each row."""
    column = "id" if table == "companies" else "company_id" if "company_id" in TABLES[table].c else "NULL::uuid"
    query = sql.SQL(f"SELECT {column} FROM {{}} ORDER BY 1").format(sql.Identifier(table))
    return [row[0] for row in connection.execute(query).fetchall()]


def test_every_table_of_a_company_has_a_policy(settings: Settings) -> None:
    with psycopg.connect(settings.require_database_url()) as connection:
        rows = connection.execute(
            "SELECT c.relname, c.relrowsecurity, count(p.oid) FROM pg_class c"
            " LEFT JOIN pg_policy p ON p.polrelid = c.oid"
            " WHERE c.relname = ANY(%s) AND c.relnamespace = 'public'::regnamespace GROUP BY 1, 2",
            (list(TABLES),),
        ).fetchall()
        may = connection.execute(
            "SELECT name FROM unnest(%s::text[]) AS name,"
            " unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege"
            " GROUP BY name HAVING bool_and(has_table_privilege(%s, name, privilege))",
            (list(TABLES), SERVICE_ROLE),
        ).fetchall()
    assert {name for name, is_on, policies in rows if is_on and policies == 1} == set(WALLED)
    assert {name for (name,) in may} == set(WALLED) | OF_ALL


@pytest.mark.parametrize("table", WALLED)
def test_a_transaction_that_names_no_company_sees_no_row(walled: tuple[Database, Planted], table: str) -> None:
    service, _ = walled
    for begin in (service.transaction, service.transaction_by_key, service.by_key):
        with begin() as connection:
            assert companies_seen(connection, table) == []


@pytest.mark.parametrize("table", WALLED)
def test_a_transaction_sees_the_rows_of_its_companies_alone(walled: tuple[Database, Planted], table: str) -> None:
    service, planted = walled
    first, second = planted.companies

    def seen(visibility: Visibility) -> list[UUID | None]:
        with service.transaction(visibility) as connection:
            return companies_seen(connection, table)

    everything = seen(EVERYTHING)
    assert len(everything) >= 2
    of_first, of_second = seen(of_companies([first])), seen(of_companies([second]))
    assert len(of_first) == len(of_second) == len(everything) / 2
    assert set(of_first) <= {first, None}
    assert seen(of_companies([first, second])) == everything
    if "environment" in TABLES[table].c:
        assert len(seen(of_tenants([(first, LIVE)]))) == len(of_first) / 2


@pytest.mark.parametrize("table", WALLED)
def test_a_transaction_changes_no_row_of_another_company(walled: tuple[Database, Planted], table: str) -> None:
    service, planted = walled
    first, second = planted.companies
    name = sql.Identifier(table)
    columns = TABLES[table].c
    of_user = ("company_id" not in columns and table != "companies") or table == "sessions"
    owner, stranger = ("user_id", planted.users[second]) if of_user else ("company_id", second)
    column = sql.Identifier("id" if table == "companies" else owner)
    with service.transaction(of_companies([first])) as connection:
        own = len(companies_seen(connection, table))
        changed = connection.execute(sql.SQL("UPDATE {0} SET {1} = {1}").format(name, column)).rowcount
        assert changed == own
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            connection.execute(sql.SQL("UPDATE {} SET {} = %s").format(name, column), (stranger,))
        raise psycopg.Rollback


def test_a_connection_forgets_what_it_saw_last(walled: tuple[Database, Planted]) -> None:
    service, planted = walled
    with Database(service.url, pool_size=1, visible=lambda: NOTHING) as single:
        for begin in (single.by_key, single.transaction, single.transaction_by_key):
            with begin(of_companies([planted.companies[0]])) as connection:
                assert companies_seen(connection, "routes") != []
            for again in (single.by_key, single.transaction, single.transaction_by_key):
                with again() as connection:
                    assert companies_seen(connection, "routes") == []


_SOURCES = [
    path for package in ("ingress", "workers") for path in (Path(domain.__file__).parents[1] / package).rglob("*.py")
]


def test_few_places_see_everything() -> None:
    """Keys and sessions are found before their company is known. Operators look after all companies. New prices of
    stations change plans of all companies. Jobs of an earlier release name no company."""
    assert {path.stem for path in _SOURCES if re.search(r"\bEVERYTHING\b", path.read_text())} == {
        "authenticator",
        "console",
        "importer",
        "job_companies",
        "key_use",
        "sign_in",
        "signed_in",
    }
