"""PostgreSQL: the pool, transactions, and a check of the server. Statements stand with the rules that need them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
import psycopg
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb, set_json_dumps, set_json_loads
from psycopg_pool import ConnectionPool

from domain import contract
from domain.errors import Trouble
from domain.lifecycle import Environment
from domain.settings import Settings

Connection = psycopg.Connection[Any]
"""A connection inside a transaction; rows come as named tuples, times in UTC."""


class Tenant(NamedTuple):
    """Whose data a query may touch: the first argument of every function that reads or writes for a caller."""

    company_id: str
    environment: Environment


LEAST_VERSION = 150000  # NULLS NOT DISTINCT

_OPTIONS = "-c timezone=UTC -c jit=off -c plan_cache_mode=force_custom_plan"
"""Tables grow from nothing to millions of rows: a plan made for a small one must not outlive it in a connection. No
statement here runs long enough to be worth compiling."""

_OPTIONS_BY_KEY = "-c timezone=UTC -c jit=off -c plan_cache_mode=force_generic_plan -c enable_seqscan=off"
"""Of statements that find their rows by key: one plan, by the index, is right for a table of any size, and making it
anew for every batch cost as much as the batch."""

set_json_dumps(contract.write)
set_json_loads(msgspec.json.decode)


_IDLE_SECONDS = 1.0
"""A connection used since then is not checked before it is used again: a check is a round trip."""


class _Pooled(psycopg.Connection[Any]):
    used_at = 0.0


class DatabaseProblem(Trouble):
    """The database cannot serve us; the text says what to do."""


class Database:
    """The connections of one process to one PostgreSQL."""

    def __init__(self, url: str, *, pool_size: int = 8, timeout_seconds: float = 3) -> None:
        self.url = url
        self._pool, self._pool_by_key = (
            ConnectionPool(
                url,
                min_size=1,
                max_size=pool_size,
                timeout=timeout_seconds,
                connection_class=_Pooled,
                kwargs={"row_factory": namedtuple_row, "options": options, "autocommit": True},
                check=_check,  # a restarted server costs nobody a request
                reconnect_timeout=5,
                open=False,
            )
            for options in (_OPTIONS, _OPTIONS_BY_KEY)
        )

    @classmethod
    def of(cls, settings: Settings) -> "Database":
        return cls(
            settings.require_database_url(),
            pool_size=settings.database_pool_size,
            timeout_seconds=settings.database_timeout_seconds,
        )

    def __enter__(self) -> "Database":
        self._pool.open()
        self._pool_by_key.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool_by_key.close()
        self._pool.close()

    @contextmanager
    def transaction(self, *, snapshot: bool = False) -> Iterator[Connection]:
        """Commits on leaving, rolls back on an exception. A `snapshot` only reads, all as of one moment.

        Raises psycopg.OperationalError (PoolTimeout among them) when PostgreSQL is away.
        """
        with self._pool.connection() as connection, connection.transaction():
            if snapshot:
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield connection

    @contextmanager
    def transaction_by_key(self) -> Iterator[Connection]:
        """A transaction of statements that find their rows by key. They go out together until the first result is
        looked at: fewer round trips, but no COPY. Raises likewise."""
        with self._pool_by_key.connection() as connection, connection.pipeline(), connection.transaction():
            yield connection

    @contextmanager
    def by_key(self) -> Iterator[Connection]:
        """For single statements by key, each of which commits by itself: two round trips less than a transaction.
        Raises likewise."""
        with self._pool_by_key.connection() as connection:
            yield connection


def _check(connection: _Pooled) -> None:
    now = time.monotonic()
    if now - connection.used_at > _IDLE_SECONDS:
        ConnectionPool.check_connection(connection)
    connection.used_at = now


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """One transaction on a connection of its own, for commands. Raises DatabaseProblem when there is none."""
    with _connect(url) as connection:
        yield connection


def check_server(url: str) -> None:
    """Raises DatabaseProblem, with one sentence that says what to do, unless `url` leads to a usable PostgreSQL."""
    with _connect(url) as connection:
        version = connection.info.server_version
    if version < LEAST_VERSION:
        raise DatabaseProblem(f"PostgreSQL {version // 10000} is too old: Fuelroute needs version 15 or later")


def _connect(url: str) -> Connection:
    try:
        return psycopg.connect(url, connect_timeout=5, row_factory=namedtuple_row, options=_OPTIONS)
    except psycopg.Error as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise DatabaseProblem(
            f"cannot reach PostgreSQL ({reason}): check FUELROUTE_DATABASE_URL and that the server runs"
        ) from None


def as_json(value: object) -> Jsonb:
    """`value` as one jsonb parameter; msgspec shapes and times included."""
    return Jsonb(value)
