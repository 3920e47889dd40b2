"""Two cells: PostgreSQL servers of their own, from the first of which companies can leave."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from deploy.embedded import EmbeddedPostgres, running
from domain.accounts.contacts import Contacts
from domain.audit.entries import Actor
from domain.database.connections import Connection, Database
from domain.database.visibility import of_companies
from domain.migrations import migrate
from domain.moving.cells import CellAddress
from domain.moving.move import CompanyMove, moving_company
from tests.servers import CopiedPostgres


class Silent:
    """A report that tells nobody."""

    @contextmanager
    def counting(self, what: str, total: int | None) -> Iterator[Callable[[int], object]]:
        yield lambda _: None


class Cells(NamedTuple):
    first: CellAddress
    second: CellAddress
    owner: dict[int, Database]
    service: dict[int, Database]

    def moving(self, company_id: UUID) -> AbstractContextManager[CompanyMove]:
        return moving_company(company_id, self.first, self.second, Actor("ann@host"), Silent())

    def move(self, company_id: UUID) -> dict[str, int]:
        with self.moving(company_id) as move:
            rows = move.run(longest_pause_seconds=600).rows
        assert rows is not None
        return rows

    def routes_seen(self, cell: int, company_id: UUID) -> int:
        """The number of the company's routes that a request or a job sees there."""
        with self.service[cell].transaction(of_companies([company_id])) as connection:
            return count(connection, "routes", company_id)


def count(connection: Connection, table: str, company_id: UUID) -> int:
    column = "id" if table == "companies" else "company_id"
    rows = connection.execute(f"SELECT count(*) FROM {table} WHERE {column} = %s", (company_id,))
    return int(rows.fetchall()[0][0])


@pytest.fixture(scope="package")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cells]:
    with ExitStack() as life:
        found, owner, service = [], {}, {}
        for number in (1, 2):
            server = cell_server(tmp_path_factory.mktemp(f"cell{number}"))
            url = life.enter_context(running(server))
            migrate(url)
            found.append(CellAddress(number, server.service_admin_url, server.service_admin_url, Contacts()))
            owner[number] = life.enter_context(Database(url))
            service[number] = life.enter_context(Database(url, visible=lambda: of_companies([])))
        yield Cells(found[0], found[1], owner, service)


def cell_server(folder: Path) -> EmbeddedPostgres:
    """Its workers begin at once: a move of a few rows is otherwise mostly waiting."""
    quick = {"max_sync_workers_per_subscription": "4", "wal_retrieve_retry_interval": "100"}
    workers = {"max_logical_replication_workers": "8", "max_worker_processes": "16"}
    return CopiedPostgres(folder, durable=False, options={"wal_level": "logical", **quick, **workers})
