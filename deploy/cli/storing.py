"""Changes by commands: rows in one transaction, and hints for the workers after it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from domain.database.connections import Connection
    from domain.database.owned import Owned
    from domain.database.statements import Row
    from domain.queue.jobs import Job


@contextmanager
def transaction() -> Iterator["Connection"]:
    """One transaction of a command. Afterwards its hints are put; without Redis the passes find the work."""
    from domain.database.connections import connected  # loads psycopg, which the help of a command does not need
    from domain.settings import get_settings

    with connected(get_settings().require_direct_url(), _put_jobs) as connection:
        yield connection


@contextmanager
def transaction_about(company_id: UUID) -> Iterator["Connection"]:
    """One transaction of a command about a company, which may be retired. Raises UnknownCompany and
    MovedCompany."""
    from domain.accounts.companies import require_company

    with transaction() as connection:
        require_company(connection, company_id, even_retired=True)
        yield connection


@contextmanager
def locked(owned: "Owned[Row]", company_id: UUID, shown: str) -> "Iterator[tuple[Connection, Row]]":
    """The row that an argument names, locked in a transaction. Raises UnknownCompany, or Unknown if the company has no
    such row; the command ends with its text."""
    with transaction_about(company_id) as connection:
        yield connection, owned.lock(connection, company_id, owned.read_id(shown))


def _put_jobs(*jobs: "Job") -> None:
    from domain.queue.job_queue import JobQueue  # most commands enqueue nothing, and need not load Redis's library
    from domain.settings import get_settings

    JobQueue.of(get_settings()).put(*jobs)
