"""PostgreSQL: the pool, transactions, and a check of the server. Statements stand with the rules that need them."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import date
from typing import Any, NamedTuple, Self
from uuid import UUID

import msgspec
import psycopg
from psycopg.abc import RV, PQGen
from psycopg.errors import DiskFull, LockNotAvailable, ReadOnlySqlTransaction
from psycopg.pq import TransactionStatus
from psycopg.types.json import Jsonb, set_json_dumps, set_json_loads
from psycopg_pool import ConnectionPool, PoolTimeout

from domain import clock
from domain.database.health import (
    CHECK_SECONDS,
    IDLE_SECONDS,
    SPARE_SECONDS,
    ServerHealth,
    ServerReadOnly,
    ServerSilent,
    has_unread_data,
    without_double_answer,
)
from domain.database.hosts import has_several_hosts, note_primary, primary_first, this_server
from domain.database.options import (
    ANY_TABLE,
    AS_SERVICE,
    BY_KEY,
    COMMANDING,
    CONNECTION_SECONDS,
    WORKING,
    TimeLimits,
    milliseconds,
    pool_options,
    transaction_settings,
)
from domain.database.pools import PoolUse, note_pool
from domain.database.psycopg_internals import WaitTimeout, keep_one
from domain.database.statements import Command, Query, Scalar, Statement
from domain.database.visibility import NOTHING, Visibility, set_locally, set_visibility, visibility_settings
from domain.encoding import write
from domain.errors import FuelrouteError
from domain.lifecycle import Environment
from domain.settings import Settings


class Tenant(NamedTuple):
    """The company and environment whose data a query may touch: the first argument of every function that reads or
    writes for a caller."""

    company_id: UUID
    environment: Environment


MIGRATION_LOCKS = 0x66756C01
LEADER_LOCKS = 0x66756C02
SUPERSEDING_LOCKS = 0x66756C03
COUNTING_LOCKS = 0x66756C04
PRICE_LOCKS = 0x66756C05
CLOSURE_LOCKS = 0x66756C06
MOVING_LOCKS = 0x66756C10
"""The classes of our advisory locks: the first of PostgreSQL's two numbers. The second is the key within the class, so
a key that callers can influence never meets a lock of another class."""


set_json_dumps(write)
set_json_loads(msgspec.json.decode)


RECONNECT_SECONDS = 0.25
"""Wait before a server that refuses connections is asked again, while a caller waits."""


_SESSION_SECONDS = 5
"""Time for opening a session of its own, where there is only one host to ask."""

_PROBE_SECONDS = 5.0
"""After this wait, another connection is opened to see whether the server answers at all."""

_PROBE_PATIENCE_SECONDS = 5.0
"""Time for the answer that comes through a pooler, which may have no session free for a moment."""


class DatabaseProblem(FuelrouteError):
    """The database cannot serve Fuelroute. The text says what to do."""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection inside a transaction; times come in UTC. Rows are typed by the statements.

    It gives up on a silent server: a server that hangs or was frozen closes no connection, and its own time-outs do not
    run."""

    url = ""
    is_pooled = False
    """True if `url` leads to a pooler in transaction mode."""
    patience_seconds = math.inf
    made_at = used_at = 0.0
    visible: Visibility | None = NOTHING
    """The rows that its statements see outside of transactions, as last set by `single_statements`; None where that is
    not known."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.collected_jobs: list[Any] = []
        """The jobs to put once the transaction has committed. `domain.queue.jobs.after_commit` adds them."""

    @classmethod
    def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """Connects to the first of several hosts that answers, the last primary before the others."""
        connection = super().connect(primary_first(conninfo), **options)
        note_primary(conninfo, connection.info)
        return connection

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        """A transaction, or a savepoint inside of one. When it rolls back, the jobs that it collected are dropped."""
        before, has_committed = len(self.collected_jobs), False
        try:
            with super().transaction(savepoint_name, force_rollback) as transaction:
                yield transaction
            has_committed = transaction.status is psycopg.Transaction.Status.COMMITTED
        finally:
            if not has_committed:
                del self.collected_jobs[before:]

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait for the server's answer. After `patience_seconds` raises ServerSilent and closes the connection: a late
        answer would belong to no statement any more."""
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        started = time.monotonic()
        while True:
            left = started + self.patience_seconds - time.monotonic()
            try:
                return super().wait(gen, interval, min(left, _PROBE_SECONDS))
            except WaitTimeout:
                if left > _PROBE_SECONDS and self._server_answers():
                    continue  # a statement that takes long
            except psycopg.InternalError as error:
                raise without_double_answer(error, self) from None
            self.close()
            raise ServerSilent(f"PostgreSQL did not answer for {time.monotonic() - started:.1f} s")

    def _server_answers(self) -> bool:
        """Opens another connection to see it. A pooler lets it in while its server is away, too: so something is asked
        there, and the pooler's own refusal is no answer."""
        try:
            other = Connection.connect(this_server(self.url, self.info), connect_timeout=CONNECTION_SECONDS)
            with closing(other):
                if self.is_pooled:
                    other.patience_seconds = _PROBE_PATIENCE_SECONDS
                    clock.SERVER_TIME.on(other)
        except psycopg.errors.ConnectionTimeout:
            return False
        except psycopg.Error:  # a refusal is an answer
            return not self.is_pooled
        return True


Transaction = Callable[[], AbstractContextManager[Connection]]
"""Begins a transaction; passed to work that takes several, one after the other."""

PutJobs = Callable[..., object]
"""Puts jobs into their queues; each argument is a job. It raises nothing when Redis is away: the work is committed."""


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
        visible: Callable[[], Visibility] | None = None,
        pooled: bool = False,
        is_replica: bool = False,
        put_jobs: PutJobs | None = None,
    ) -> None:
        """A caller waits `timeout_seconds` for a connection. With `fail_fast`, after one has waited in vain, all others
        hardly wait for a second, so those that stood in line do not wait as long again.

        `visible` puts the connections behind the second wall. It tells what a transaction sees that does not say so
        itself. None: the connections are the owner's and see everything.

        `pooled`: `url` leads to a pooler in transaction mode. The clock is not set by a replica: time is the
        primary's.

        `put_jobs` gets the jobs that a transaction has collected, after its commit. None: they are dropped, and the
        sweep finds the work."""
        self.url = url
        self._pooled = pooled
        service = {} if visible is None else AS_SERVICE
        self._any_table, self._by_key = ANY_TABLE | service, BY_KEY | service
        self._limits = limits
        self._fail_fast = fail_fast
        self._visible = visible
        self._is_replica = is_replica
        self._put_jobs = put_jobs
        self._health = ServerHealth()
        self._pool, self._pool_by_key = (
            ConnectionPool(
                url,
                min_size=0,  # see keep_one
                max_size=pool_size,
                timeout=timeout_seconds,
                connection_class=Connection,
                kwargs=pool_options(limits, more, pooled=pooled),
                configure=self._configure,
                check=self._check,  # a restarted server costs nobody a request
                max_idle=SPARE_SECONDS,
                reconnect_timeout=RECONNECT_SECONDS,
                reconnect_failed=_connect_again,
                open=False,
            )
            for more in (self._any_table, self._by_key)
        )

    @classmethod
    def of(
        cls,
        settings: Settings,
        limits: TimeLimits = WORKING,
        *,
        fail_fast: bool = False,
        visible: Callable[[], Visibility] | None = None,
        pool_size: int | None = None,
        put_jobs: PutJobs | None = None,
    ) -> "Database":
        """The owner of the tables gets sessions of its own; only connections behind the second wall may be pooled."""
        return cls(
            settings.require_direct_url() if visible is None else settings.require_database_url(),
            pool_size=pool_size or settings.database_pool_size,
            timeout_seconds=settings.database_timeout_seconds,
            limits=limits,
            fail_fast=fail_fast,
            visible=visible,
            pooled=visible is not None and settings.is_pooled,
            put_jobs=put_jobs,
        )

    def __enter__(self) -> "Database":
        pools: tuple[tuple[PoolUse, ConnectionPool[Connection]], ...]
        pools = (("any", self._pool), ("by_key", self._pool_by_key))
        for use, pool in pools:
            pool.open()
            note_pool(pool, use)
        keep_one(self._pool)
        self._pool.check()  # begins its first connection, for which the first caller waits
        return self

    def __exit__(self, *_: object) -> None:
        self._pool_by_key.close()
        self._pool.close()

    @contextmanager
    def transaction(
        self, visible: Visibility | None = None, *, snapshot: bool = False, limits: TimeLimits | None = None
    ) -> Iterator[Connection]:
        """Commits on leaving, rolls back on an exception. Behind the second wall it sees what is `visible`. A
        `snapshot` only reads, all as of one moment. `limits` hold for this transaction alone.

        Raises psycopg.OperationalError (PoolTimeout and ServerSilent among them) when PostgreSQL is away, and
        psycopg.errors.LockNotAvailable or QueryCanceled beyond the limits.
        """
        with self._borrowed(self._pool) as connection, connection.transaction():
            self._prepare(connection, self._any_table, visible, snapshot, limits)
            yield connection

    @contextmanager
    def pipelined_transaction(
        self, visible: Visibility | None = None, *, snapshot: bool = False, limits: TimeLimits | None = None
    ) -> Iterator[Connection]:
        """A transaction of statements that find their rows by key. They go out together until the first result is read:
        fewer round trips, but no COPY. Raises the errors of `transaction`."""
        with self._borrowed(self._pool_by_key) as connection:
            if self._pooled:
                # psycopg ends a pipeline with a Flush. PgBouncer gives a session of the server to a client that sends
                # one outside of a transaction, and keeps it there: no answer would end it.
                with connection.transaction(), connection.pipeline():
                    self._prepare(connection, self._by_key, visible, snapshot, limits)
                    yield connection
                return
            try:
                with connection.pipeline():
                    # psycopg's own transaction would wait for an answer before the first statement and after the last.
                    _BEGIN.execute(connection)
                    self._prepare(connection, self._by_key, visible, snapshot, limits)
                    yield connection
                    _COMMIT.execute(connection)
            except BaseException:
                if not connection.closed:
                    connection.rollback()
                raise

    @contextmanager
    def single_statements(self, visible: Visibility | None = None) -> Iterator[Connection]:
        """A connection for single statements by key. Each commits by itself, which saves the two round trips of a
        transaction. Behind a pooler they are one. Raises the same errors as `transaction`."""
        if self._pooled:
            with self.pipelined_transaction(visible) as connection:
                yield connection
            return
        with self._borrowed(self._pool_by_key) as connection:
            wanted = self._visibility(visible)
            if wanted != connection.visible:
                connection.visible = None  # an interrupted thread must not leave the earlier value
                set_visibility(connection, wanted, local=False)
                connection.visible = wanted
            yield connection

    def _prepare(
        self,
        connection: Connection,
        settings: Mapping[str, object],
        visible: Visibility | None,
        snapshot: bool,
        limits: TimeLimits | None,
    ) -> None:
        """Set up the transaction that has just begun."""
        wanted = self._visibility(visible)
        if snapshot:
            _SNAPSHOT.execute(connection)
        if limits is not None:
            connection.patience_seconds = limits.patience_seconds
        if self._pooled:
            set_locally(
                connection, transaction_settings(limits or self._limits, settings) | visibility_settings(wanted)
            )
            return
        if limits is not None:
            _limit(connection, limits)
        if wanted != connection.visible:
            set_visibility(connection, wanted)

    def _visibility(self, visible: Visibility | None) -> Visibility:
        if self._visible is None:
            return NOTHING  # the owner, who sees everything all the same
        return self._visible() if visible is None else visible

    @contextmanager
    def _borrowed(self, pool: ConnectionPool[Connection]) -> Iterator[Connection]:
        """A connection of the pool. The jobs that it collects are put after it has come back without an exception."""
        started = time.monotonic()
        seconds = self._health.waiting_seconds() if self._fail_fast else None
        try:
            with pool.connection(timeout=seconds) as connection:
                keep_one(pool)
                jobs = connection.collected_jobs = []
                try:
                    yield connection
                except ReadOnlySqlTransaction as error:
                    connection.close()
                    self._learn_from(ServerReadOnly(str(error)), connection)
                    raise ServerReadOnly(str(error)) from error
                except psycopg.OperationalError as error:
                    self._learn_from(error, connection)
                    raise
        except PoolTimeout:
            if seconds is None:
                self._health.note_timeout(started)
            raise
        put_after_commit(jobs, self._put_jobs)

    def _configure(self, connection: Connection) -> None:
        connection.url, connection.is_pooled, connection.made_at = self.url, self._pooled, time.monotonic()
        if self._pooled:  # it takes connections while its server is away, too
            connection.patience_seconds = CHECK_SECONDS
            clock.read(connection)
        connection.used_at = time.monotonic()
        self._health.note_connected()

    def _check(self, connection: Connection) -> None:
        now = time.monotonic()
        reads_clock = clock.must_be_read() and not self._is_replica
        if now - connection.used_at > IDLE_SECONDS or reads_clock or has_unread_data(connection):
            connection.patience_seconds = CHECK_SECONDS
            try:  # the time is a question like any other
                (clock.SERVER_TIME.on if self._is_replica else clock.read)(connection)
            except psycopg.OperationalError as error:
                self._learn_from(error, connection)
                raise
        connection.patience_seconds = self._limits.patience_seconds
        connection.used_at = now
        self._health.note_borrowed(now)

    def _learn_from(self, error: psycopg.OperationalError, connection: Connection) -> None:
        if self._health.should_drop_idle(error, connection):
            for pool in (self._pool, self._pool_by_key):
                pool.drain()


def _connect_again(pool: ConnectionPool[Any]) -> None:
    """Connects again after the pool has dropped a connection that the server refused. Callers that wait for a
    connection wait for this attempt."""
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


def _limit(connection: Connection, limits: TimeLimits) -> None:
    """Set the limits of the open transaction."""
    seconds = (limits.statement_seconds, limits.lock_seconds, limits.idle_seconds)
    _LIMIT.execute(connection, [str(milliseconds(one)) for one in seconds])


@contextmanager
def pipelined(connection: Connection) -> Iterator[None]:
    """Send the statements of the block together, in one transaction even where none is open. Their results may be read
    after the block."""
    try:
        with connection.pipeline():
            yield
    except psycopg.Error:
        # psycopg takes statements for prepared that the server skipped; the rollback of a transaction would clear that.
        if connection.info.transaction_status is TransactionStatus.IDLE:
            connection.close()
        raise


@contextmanager
def planned_by_key(connection: Connection) -> Iterator[None]:
    """Within this block of a transaction, statements that find their rows by key keep their plans (`BY_KEY`)."""
    set_locally(connection, BY_KEY)
    yield
    set_locally(connection, dict.fromkeys(BY_KEY, "on") | ANY_TABLE)


_COMMIT_NOTHING = Scalar(str, "SELECT pg_logical_emit_message(true, 'fuelroute', '')::text")


def wait_until_durable() -> Query[None]:
    """A query that returns when every commit before it is on disk, whichever connection made it. PostgreSQL writes its
    log in order, so this commit of nothing waits for all of them."""
    return Query(_COMMIT_NOTHING, (), lambda _: None)


@contextmanager
def connected(url: str, put_jobs: PutJobs | None = None) -> Iterator[Connection]:
    """One transaction on a connection of its own, for commands; `put_jobs` as for a `Database`. Raises DatabaseProblem
    when PostgreSQL cannot be reached, or when another transaction holds the locks too long; the command ends with its
    text."""
    try:
        with _connect(url) as connection:
            yield connection
    except LockNotAvailable:
        raise DatabaseProblem(
            "something else is at work on the same data: try again when it is done; fuelroute doctor may name it"
        ) from None
    put_after_commit(connection.collected_jobs, put_jobs)


def put_after_commit(jobs: Sequence[Any], put_jobs: PutJobs | None) -> None:
    """Put the jobs of a transaction that has just committed."""
    if jobs and put_jobs is not None:
        put_jobs(*jobs)


def _connect(url: str) -> Connection:
    try:
        return open_session(url, COMMANDING)
    except psycopg.Error as error:
        raise unreachable(error) from None


def unreachable(error: psycopg.Error, variable: str = "FUELROUTE_DATABASE_URL") -> DatabaseProblem:
    """The problem of an address that leads to no usable PostgreSQL."""
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return DatabaseProblem(f"cannot reach PostgreSQL ({reason}): {advice_on(error, variable)}")


def advice_on(error: psycopg.Error, variable: str = "FUELROUTE_DATABASE_URL") -> str:
    """The advice to somebody whom PostgreSQL gives no connection, or refuses a statement."""
    if any(text in str(error) for text in _NO_CONNECTION_LEFT):  # an error of connecting brings no code
        return "end the sessions of pg_stat_activity that nobody needs, as a superuser, or raise max_connections"
    if isinstance(error, DiskFull):
        return "free space on its disk, before anything else"
    if isinstance(error, ReadOnlySqlTransaction):
        return "name the server that takes changes; if this one was made read-only, its disk may be full"
    return f"check {variable} and that the server runs"


_NO_CONNECTION_LEFT = ("connection slots are reserved", "too many clients", "too many connections")


def open_session(
    url: str, limits: TimeLimits, *, autocommit: bool = False, pooled: bool = False, **more: object
) -> Connection:
    """A connection outside of the pools. `more` are settings of the server for it; a pooler gets none. Raises
    psycopg.Error when the server cannot be reached."""
    patience = CONNECTION_SECONDS if has_several_hosts(url) else _SESSION_SECONDS
    options = pool_options(limits, ANY_TABLE | more, pooled=pooled) | {"connect_timeout": patience}
    session = Connection.connect(url, **options)
    session.url, session.is_pooled, session.patience_seconds = url, pooled, limits.patience_seconds
    clock.read(session)
    session.autocommit = autocommit
    return session


def as_json(value: object) -> Jsonb:
    """`value` as one jsonb parameter; msgspec shapes and times are encoded, too."""
    return Jsonb(value)


def as_array(values: Iterable[UUID | str | date | float | None]) -> str:
    """Ids, days, times or numbers as one parameter for `%s::uuid[]` and the like; no other text. It costs a fraction of
    psycopg's own way, which writes arrays element by element."""
    return f"{{{write(list(values)).decode()[1:-1]}}}"
