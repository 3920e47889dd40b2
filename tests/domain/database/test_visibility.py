"""The second wall: the ingress, the console and the workers see the companies that a transaction names, and no others,
whatever a statement forgets to ask."""

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

import domain
from domain.database.connections import Connection, Database
from domain.database.visibility import EVERYTHING, NOTHING, SERVICE_ROLE, Visibility, of_companies, of_tenants
from domain.settings import Settings
from tests.conftest import own_database
from tests.domain.planted import LIVE, OF_ALL, TABLES, WALLED, Planted

SHARED = {"csv_imports", "price_sets"}
"""Rows of no company are for all."""


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
            " LEFT JOIN pg_policy p ON p.polrelid = c.oid AND p.polpermissive"
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
    for begin in (service.transaction, service.pipelined_transaction, service.single_statements):
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
        for begin in (single.single_statements, single.transaction, single.pipelined_transaction):
            with begin(of_companies([planted.companies[0]])) as connection:
                assert companies_seen(connection, "routes") != []
            for again in (single.single_statements, single.transaction, single.pipelined_transaction):
                with again() as connection:
                    assert companies_seen(connection, "routes") == []


_SOURCES = [
    path for package in ("ingress", "workers") for path in (Path(domain.__file__).parents[1] / package).rglob("*.py")
]


def test_few_places_see_everything() -> None:
    """Keys, sessions, connectors and drivers' links are found before their company is known. Operators look after all
    companies. New prices of stations change plans of all companies. Jobs of an earlier release name no company."""
    assert {path.stem for path in _SOURCES if re.search(r"\bEVERYTHING\b", path.read_text())} == {
        "authenticator",
        "console",
        "importer",
        "inbound",
        "job_companies",
        "key_use",
        "openid",
        "plans",
        "sign_in",
        "signed_in",
        "trips",
    }
