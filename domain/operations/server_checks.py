"""Health checks of PostgreSQL, its schema and Redis, on connections that belong to no pool: they answer while all
others are busy."""

import re
import threading
from functools import cache
from pathlib import Path

import psycopg
import redis
from psycopg.errors import UndefinedTable

from domain.database.connections import Connection, open_session
from domain.database.options import TimeLimits
from domain.database.statements import Scalar
from domain.queue.redis_clients import redis_client, refusal
from domain.settings import Settings
from domain.telemetry.health import Health, Unhealthy
from domain.telemetry.logs import get_logger

log = get_logger(__name__)

_LIMITS = TimeLimits(statement_seconds=1, lock_seconds=0.5)

_MIGRATIONS = Path(__file__).parents[1] / "migrations" / "versions"
_REVISION = re.compile(r'^(down_)?revision = "(\w+)"', re.MULTILINE)


_READ_REVISION = Scalar(str, "SELECT version_num FROM alembic_version")


def health_of(settings: Settings, process: str, *, queue_needed: bool = True) -> Health:
    """The health of a process with the checks of its servers. Without `queue_needed` the process is ready while Redis
    is away."""
    health = Health(process)
    health.check_server("database", DatabaseCheck(settings.require_database_url(), pooled=settings.is_pooled))
    health.check_server("queue", QueueCheck(settings.require_redis_url()), needed=queue_needed)
    return health


class DatabaseCheck:
    """Checks that PostgreSQL answers, and that its schema is not older than this build."""

    def __init__(self, url: str, *, pooled: bool = False) -> None:
        self._url = url
        self._pooled = pooled
        self._session: Connection | None = None
        self._lock = threading.Lock()

    def __call__(self) -> str:
        with self._lock:
            try:
                try:
                    return _judge(self._read_revision())
                except psycopg.OperationalError:  # perhaps a restart has ended the session, and it is back
                    return _judge(self._read_revision())
            except UndefinedTable:
                raise Unhealthy("the database has no tables: run fuelroute migrate") from None
            except psycopg.Error as error:
                log.info("health.database_away", error=str(error))
                raise Unhealthy("PostgreSQL does not answer") from None

    def close(self) -> None:
        """Ends the session. The next check opens another one."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _read_revision(self) -> str | None:
        """The schema's revision; None if there is none yet."""
        try:
            if self._session is None:
                self._session = open_session(self._url, _LIMITS, autocommit=True, pooled=self._pooled)
            return _READ_REVISION.first(self._session)
        except psycopg.Error:
            self.close()
            raise


class QueueCheck:
    """Checks that Redis answers, and takes changes."""

    def __init__(self, url: str) -> None:
        self._client = redis_client(url)

    def __call__(self) -> str:
        try:
            refused = refusal(self._client)
        except redis.RedisError:
            raise Unhealthy("Redis does not answer") from None
        if refused is not None:
            log.info("health.redis_refuses", error=refused)
            raise Unhealthy("Redis takes no changes: it is full, or a replica")
        return "Redis answers"


def _judge(revision: str | None) -> str:
    """The finding about a revision. A build serves with the schema of a later release, as during an upgrade. It does
    not serve with an older one."""
    newest, known = known_revisions()
    if revision == newest:
        return f"the schema is at revision {revision}"
    if revision is None or revision in known:
        raise Unhealthy(f"the schema is at revision {revision}, and this build needs {newest}: run fuelroute migrate")
    return f"the schema is at revision {revision}, of a later release than this build's {newest}"


@cache
def known_revisions() -> tuple[str, frozenset[str]]:
    """The newest revision of this build, and all of them. They are read from the files of the migrations, because
    Alembic would take a tenth of a process's memory."""
    found: dict[bool, set[str]] = {False: set(), True: set()}
    for file in _MIGRATIONS.glob("*.py"):
        for is_parent, revision in _REVISION.findall(file.read_text()):
            found[bool(is_parent)].add(revision)
    (newest,) = found[False] - found[True]
    return newest, frozenset(found[False])
