"""PostgreSQL: the pool, transactions, and a check of the server. Statements stand with the rules that need them."""

import math
import select
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

import msgspec
import psycopg
from psycopg.abc import RV, PQGen
from psycopg.errors import AdminShutdown, CannotConnectNow, CrashShutdown, LockNotAvailable, PipelineAborted
from psycopg.pq import TransactionStatus
from psycopg.types.json import Jsonb, set_json_dumps, set_json_loads
from psycopg_pool import ConnectionPool, PoolTimeout

from domain.encoding import write
from domain.errors import FuelrouteError
from domain.lifecycle import Environment
from domain.observability import get_logger
from domain.psycopg_internals import WaitTimeout
from domain.settings import Settings
from domain.statements import Command, Query, Statement

log = get_logger(__name__)

Connection = psycopg.Connection[tuple[Any, ...]]
"""A connection inside a transaction; times come in UTC. Rows are typed by the statements."""

Transaction = Callable[[], AbstractContextManager[Connection]]
"""Begins a transaction: for work that takes several, one after the other."""


class Tenant(NamedTuple):
    """Whose data a query may touch: the first argument of every function that reads or writes for a caller."""

    company_id: UUID
    environment: Environment


MIN_VERSION = 150000  # NULLS NOT DISTINCT


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


MIGRATION_LOCKS = 0x66756C01
LEADER_LOCKS = 0x66756C02
SUPERSEDING_LOCKS = 0x66756C03
COUNTING_LOCKS = 0x66756C04
"""The classes of our advisory locks: the first of the two numbers that PostgreSQL takes. The second is the key within
the class, so that a key that a caller has a hand in never meets the lock of another class."""


class TimeLimits(NamedTuple):
    """When the server gives up: on a statement that takes too long (0: never), on a lock that another transaction
    holds, and on a transaction whose process is silent, whose locks it then frees."""

    statement_seconds: float
    lock_seconds: float
    idle_seconds: float = 60

    @property
    def patience_seconds(self) -> float:
        """How long we wait for an answer. A server that still works has given up before that."""
        return self.statement_seconds + _SLACK_SECONDS if self.statement_seconds else math.inf


SERVING = TimeLimits(statement_seconds=2.5, lock_seconds=1.5, idle_seconds=10)
"""For requests. Each is answered within 5 s, including its wait for a connection."""

WORKING = TimeLimits(statement_seconds=60, lock_seconds=2)
"""For jobs and passes."""

ONE_BY_ONE = TimeLimits(statement_seconds=10, lock_seconds=0.05)
"""For each part of a batch that failed and is done again in parts: the batch as a whole has waited already."""

HOUSEKEEPING = TimeLimits(statement_seconds=3600, lock_seconds=1)
"""For housekeeping. It may have much to remove, but waits only briefly for a lock and else for its next hour: while it
waits for the lock of a whole table, requests stand in line behind it, and those give up after 1.5 s (`SERVING`)."""

LEADING = TimeLimits(statement_seconds=3, lock_seconds=1)
"""For the session that holds the scheduler's lead."""

_COMMANDING = TimeLimits(statement_seconds=0, lock_seconds=60)
"""For commands: a person sees how long one takes, and can stop it."""

_SLACK_SECONDS = 0.5

_LOOK_SECONDS = 5.0
"""After so long a wait, another connection is opened to see whether the server answers at all."""

_CONNECT_SECONDS = 2


def _options(limits: TimeLimits, **more: object) -> str:
    """What a session asks of the server. A machine that vanishes closes nothing: the server notices within 25 s
    (`tcp_*`), in the middle of a statement too (`client_connection_check_interval`), and gives its locks back."""
    wanted = {
        "timezone": "UTC",
        "jit": "off",  # no statement here runs long enough to be worth compiling
        "statement_timeout": _milliseconds(limits.statement_seconds),
        "lock_timeout": _milliseconds(limits.lock_seconds),
        "idle_in_transaction_session_timeout": _milliseconds(limits.idle_seconds),
        "client_connection_check_interval": _milliseconds(5),
        "tcp_keepalives_idle": 10,
        "tcp_keepalives_interval": 5,
        "tcp_keepalives_count": 3,
        "tcp_user_timeout": _milliseconds(25),
        **more,
    }
    return " ".join(f"-c {name}={value}" for name, value in wanted.items())


_ANY_TABLE = {"plan_cache_mode": "force_custom_plan"}
"""Tables grow from nothing to millions of rows: a plan made for a small one must not outlive it in a connection."""

_BY_KEY = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_mergejoin": "off",
    "enable_hashjoin": "off",
    "enable_material": "off",
}
"""For statements that find their rows by key. One plan, by the index, is right for a table of any size, and planning
anew for each batch would cost as much as the batch. Other joins than by key would read a whole index of a table that
was small when the plan was made.

A table that was empty then is also read whole for each row of a batch, if the planner may begin with it. So join a
batch from its own side: by LATERAL with OFFSET 0, or, where a statement updates, with `key = ANY(...)` beside it."""

_CLIENT: dict[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": _milliseconds(10),
}


def _pooled(limits: TimeLimits, more: Mapping[str, object]) -> dict[str, Any]:
    """What a pool opens its connections with."""
    return {
        **_CLIENT,
        "options": _options(limits, **more),
        "connect_timeout": _CONNECT_SECONDS,
        "autocommit": True,
    }


def by_key_options(limits: TimeLimits) -> dict[str, Any]:
    """Likewise, of a pool for statements by key."""
    return _pooled(limits, _BY_KEY)


set_json_dumps(write)
set_json_loads(msgspec.json.decode)


IDLE_SECONDS = 1.0
"""A connection used since then is not checked before it is used again: a check is a round trip."""

CHECK_SECONDS = 1.0
"""After so long a silence, a connection that is checked is given up, and a fresh one is opened."""

AWAY_SECONDS = 1.0
"""This long after the server did not answer, requests wait for a connection only as long as one takes to open."""

HURRY_SECONDS = 0.1

RECONNECT_SECONDS = 0.25
"""A server that refuses connections is asked again so often while somebody waits."""


class ServerSilent(psycopg.OperationalError):
    """The server keeps its connections open but does not answer, not even that it gave up."""


_GOES_AWAY = (AdminShutdown, CrashShutdown, CannotConnectNow)
"""The errors of a server that stops or starts, before it closes the connection."""


def is_away(error: BaseException) -> bool:
    """Whether the error means that PostgreSQL cannot be reached, stops, is silent, or that the connection broke. False
    where the server itself refused something."""
    return isinstance(error, _GOES_AWAY) or (
        isinstance(error, psycopg.OperationalError)
        and error.sqlstate is None
        and not isinstance(error, PipelineAborted)  # a statement before it was refused
    )


class DatabaseProblem(FuelrouteError):
    """The database cannot serve us; the text says what to do."""


class PooledConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that does not wait for ever. A server that hangs or was frozen closes no connection, and its own
    time-outs do not run."""

    url = ""
    patience_seconds = math.inf
    made_at = used_at = 0.0

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Raises ServerSilent and closes the connection: a late answer would belong to no statement any more."""
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        started = time.monotonic()
        while True:
            left = started + self.patience_seconds - time.monotonic()
            try:
                return super().wait(gen, interval, min(left, _LOOK_SECONDS))
            except WaitTimeout:
                if left > _LOOK_SECONDS and self._server_answers():
                    continue  # a statement that takes long
            self.close()
            raise ServerSilent(f"PostgreSQL did not answer for {time.monotonic() - started:.1f} s")

    def _server_answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=_CONNECT_SECONDS).close()
        except psycopg.errors.ConnectionTimeout:
            return False
        except psycopg.Error:  # a refusal is an answer
            return True
        return True


def has_unread_data(connection: psycopg.BaseConnection[Any]) -> bool:
    """True when the server has sent something unasked, or closed the connection. It takes no round trip: a
    server that stops says so to each of its connections."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


class BorrowedConnection(Protocol):
    """A connection of either pool."""

    made_at: float

    @property
    def broken(self) -> bool:
        """True when the server ended it."""


class ServerHealth:
    """The knowledge of a pool's users about the server: whether to wait for it, and which connections ended."""

    def __init__(self) -> None:
        self._away_until = self._borrowed_at = self._forgotten_at = -math.inf

    def waiting_seconds(self) -> float | None:
        """The time to wait for a connection; None: as long as the pool does."""
        return HURRY_SECONDS if time.monotonic() < self._away_until else None

    def note_connected(self) -> None:
        """A connection was opened: the server is there."""
        self._away_until = -math.inf

    def note_borrowed(self, now: float) -> None:
        self._borrowed_at = now

    def note_timeout(self, since: float) -> None:
        """Somebody has waited for a connection since then. Where others got one meanwhile, the server is only busy."""
        if self._borrowed_at < since:
            self._away_until = time.monotonic() + AWAY_SECONDS

    def should_drop_idle(self, error: psycopg.OperationalError, connection: BorrowedConnection) -> bool:
        """What a connection has met. Whether to drop those that lie idle: they ended with it, and would be tried one by
        one. False when that has been done since it was made."""
        if isinstance(error, ServerSilent):
            log.warning("database.silent", error=str(error))
            self._away_until = time.monotonic() + AWAY_SECONDS
        if not (connection.broken or is_away(error)) or connection.made_at <= self._forgotten_at:
            return False
        self._forgotten_at = time.monotonic()
        return True


class Database:
    """The connections of one process to one PostgreSQL."""

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 8,
        timeout_seconds: float = 3,
        limits: TimeLimits = WORKING,
        fail_fast: bool = False,
    ) -> None:
        """A caller waits `timeout_seconds` for a connection. With `fail_fast`, after one has waited in vain, all others
        hardly wait for a second, so those that stood in line do not wait as long again."""
        self.url = url
        self._limits = limits
        self._fail_fast = fail_fast
        self._health = ServerHealth()
        self._pool, self._pool_by_key = (
            ConnectionPool(
                url,
                min_size=1,
                max_size=pool_size,
                timeout=timeout_seconds,
                connection_class=PooledConnection,
                kwargs=_pooled(limits, more),
                configure=self._configure,
                check=self._check,  # a restarted server costs nobody a request
                reconnect_timeout=RECONNECT_SECONDS,
                reconnect_failed=_connect_again,
                open=False,
            )
            for more in (_ANY_TABLE, _BY_KEY)
        )

    @classmethod
    def of(cls, settings: Settings, limits: TimeLimits = WORKING, *, fail_fast: bool = False) -> "Database":
        return cls(
            settings.require_database_url(),
            pool_size=settings.database_pool_size,
            timeout_seconds=settings.database_timeout_seconds,
            limits=limits,
            fail_fast=fail_fast,
        )

    def __enter__(self) -> "Database":
        self._pool.open()
        self._pool_by_key.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool_by_key.close()
        self._pool.close()

    @contextmanager
    def transaction(self, *, snapshot: bool = False, limits: TimeLimits | None = None) -> Iterator[Connection]:
        """Commits on leaving, rolls back on an exception. A `snapshot` only reads, all as of one moment. `limits` hold
        for this transaction alone.

        Raises psycopg.OperationalError (PoolTimeout and ServerSilent among them) when PostgreSQL is away, and
        psycopg.errors.LockNotAvailable or QueryCanceled beyond the limits.
        """
        with self._borrowed(self._pool) as connection, connection.transaction():
            if snapshot:
                _SNAPSHOT.execute(connection)
            if limits is not None:
                _limit(connection, limits)
            yield connection

    @contextmanager
    def transaction_by_key(self, *, snapshot: bool = False, limits: TimeLimits | None = None) -> Iterator[Connection]:
        """A transaction of statements that find their rows by key. They go out together until the first result is
        looked at: fewer round trips, but no COPY. Raises likewise."""
        with self._borrowed(self._pool_by_key) as connection:
            try:
                with connection.pipeline():
                    # psycopg's own transaction would wait for an answer before the first statement and after the last
                    _BEGIN.execute(connection)
                    if snapshot:
                        _SNAPSHOT.execute(connection)
                    if limits is not None:
                        _limit(connection, limits)
                    yield connection
                    _COMMIT.execute(connection)
            except BaseException:
                if not connection.closed:
                    connection.rollback()
                raise

    @contextmanager
    def by_key(self) -> Iterator[Connection]:
        """For single statements by key. Each commits by itself, which saves the two round trips of a transaction.
        Raises likewise."""
        with self._borrowed(self._pool_by_key) as connection:
            yield connection

    @contextmanager
    def _borrowed(self, pool: ConnectionPool[PooledConnection]) -> Iterator[PooledConnection]:
        started = time.monotonic()
        seconds = self._health.waiting_seconds() if self._fail_fast else None
        try:
            with pool.connection(timeout=seconds) as connection:
                try:
                    yield connection
                except psycopg.OperationalError as error:
                    self._learn_from(error, connection)
                    raise
        except PoolTimeout:
            if seconds is None:
                self._health.note_timeout(started)
            raise

    def _configure(self, connection: PooledConnection) -> None:
        connection.url, connection.made_at = self.url, time.monotonic()
        connection.used_at = connection.made_at
        self._health.note_connected()

    def _check(self, connection: PooledConnection) -> None:
        now = time.monotonic()
        if now - connection.used_at > IDLE_SECONDS or has_unread_data(connection):
            connection.patience_seconds = CHECK_SECONDS
            try:
                ConnectionPool.check_connection(connection)
            except psycopg.OperationalError as error:
                self._learn_from(error, connection)
                raise
        connection.patience_seconds = self._limits.patience_seconds
        connection.used_at = now
        self._health.note_borrowed(now)

    def _learn_from(self, error: psycopg.OperationalError, connection: PooledConnection) -> None:
        if self._health.should_drop_idle(error, connection):
            for pool in (self._pool, self._pool_by_key):
                pool.drain()


def _connect_again(pool: ConnectionPool[Any]) -> None:
    """The pool gave up a connection that the server refused. Whoever waits for one waits for the next attempt."""
    if pool.get_stats()["requests_waiting"]:
        pool.check()


_BEGIN, _COMMIT = Command("BEGIN"), Command("COMMIT")
_SNAPSHOT = Command("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


class _Limited(NamedTuple):
    statement_timeout: str
    lock_timeout: str
    idle_timeout: str


_LIMIT = Statement(
    _Limited,
    "SELECT set_config('statement_timeout', %s, true) AS statement_timeout,"
    " set_config('lock_timeout', %s, true) AS lock_timeout,"
    " set_config('idle_in_transaction_session_timeout', %s, true) AS idle_timeout",
)


def _limit(connection: PooledConnection, limits: TimeLimits) -> None:
    """For the transaction that is open."""
    connection.patience_seconds = limits.patience_seconds
    seconds = (limits.statement_seconds, limits.lock_seconds, limits.idle_seconds)
    _LIMIT.execute(connection, [str(_milliseconds(one)) for one in seconds])


@contextmanager
def pipelined(connection: Connection) -> Iterator[None]:
    """The statements of the block go out together, and so are one transaction where there is none around them. Their
    results may be read after the block."""
    try:
        with connection.pipeline():
            yield
    except psycopg.Error:
        # psycopg takes statements for prepared that the server skipped; the rollback of a transaction would clear that
        if connection.info.transaction_status is TransactionStatus.IDLE:
            connection.close()
        raise


class _Flushed(NamedTuple):
    position: str


_COMMIT_NOTHING = Statement(_Flushed, "SELECT pg_logical_emit_message(true, 'fuelroute', '')::text AS position")


def wait_until_durable() -> Query[None]:
    """Returns when every commit before this query is on disk, whichever connection made it. PostgreSQL writes its log
    in order, so this commit of nothing waits for all of them."""
    return Query(_COMMIT_NOTHING, (), lambda _: None)


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """One transaction on a connection of its own, for commands. Raises DatabaseProblem when PostgreSQL cannot be
    reached, or when another transaction holds the locks too long."""
    try:
        with _connect(url) as connection:
            yield connection
    except LockNotAvailable:
        raise DatabaseProblem("something else is at work on the same data: try again when it is done") from None


def check_server(url: str) -> None:
    """Raises DatabaseProblem, with one sentence that says what to do, unless `url` leads to a usable PostgreSQL."""
    with _connect(url) as connection:
        version = connection.info.server_version
    if version < MIN_VERSION:
        raise DatabaseProblem(f"PostgreSQL {version // 10000} is too old: Fuelroute needs version 15 or later")


def _connect(url: str) -> Connection:
    try:
        return open_session(url, _COMMANDING)
    except psycopg.Error as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise DatabaseProblem(
            f"cannot reach PostgreSQL ({reason}): check FUELROUTE_DATABASE_URL and that the server runs"
        ) from None


def open_session(url: str, limits: TimeLimits, *, autocommit: bool = False) -> PooledConnection:
    """A connection outside of the pools. Raises psycopg.Error."""
    session = PooledConnection.connect(
        url, autocommit=autocommit, connect_timeout=5, options=_options(limits, **_ANY_TABLE), **_CLIENT
    )
    session.url, session.patience_seconds = url, limits.patience_seconds
    return session


def as_json(value: object) -> Jsonb:
    """`value` as one jsonb parameter; msgspec shapes and times included."""
    return Jsonb(value)


def as_array(values: Iterable[UUID | str | datetime | float | None]) -> str:
    """Ids, times or numbers as one parameter for `%s::uuid[]` and the like; no other text. psycopg writes an array
    element by element, at many times the cost."""
    return f"{{{write(list(values)).decode()[1:-1]}}}"
