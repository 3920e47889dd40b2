"""Checks of PostgreSQL before a process starts: does each address lead to what the process needs?

A fault ends the start with one sentence that says what to do. Lesser things are logged."""

from typing import NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict

from domain.addresses import is_local
from domain.database.connections import Connection, DatabaseProblem, open_session, unreachable
from domain.database.hosts import has_several_hosts
from domain.database.options import ANY_TABLE, AS_SERVICE, COMMANDING, TimeLimits, milliseconds, transaction_settings
from domain.database.statements import NotNull, Statement
from domain.database.visibility import set_locally
from domain.settings import Settings
from domain.telemetry.logs import get_logger

log = get_logger(__name__)

MIN_VERSION = 150000  # NULLS NOT DISTINCT

_CHECKING = TimeLimits(statement_seconds=7.25, lock_seconds=60)
"""Limits that no other session asks for: a session that has them took the settings that it was sent."""


class _Server(NamedTuple):
    version: NotNull[int]
    statement_milliseconds: NotNull[int]
    is_standby: NotNull[bool]
    role: NotNull[str]
    synchronous_commit: NotNull[str]
    synchronous_standbys: NotNull[str]
    database: NotNull[str]
    cluster: NotNull[int]
    is_utf8: NotNull[bool]
    folds_accents: NotNull[bool]


FOLDS_ACCENTS = """(SELECT lower(chr(65 + beyond_ascii)) = chr(97 + beyond_ascii)
    FROM (SELECT 136 * (current_setting('server_encoding') = 'UTF8')::int AS beyond_ascii) AS letters)"""
"""SQL condition: lower() makes é of É. With the locale C it changes ASCII letters alone. In a database that does not
store Unicode, which may refuse such a letter, it is about A."""
MADE_SO = "createdb --template=template0 --encoding=UTF8 --locale=C.UTF-8"
"""The command that makes a database as the service needs it."""

_ASK = Statement(
    _Server,
    "SELECT current_setting('server_version_num')::int AS version,"
    " (SELECT setting::int FROM pg_settings WHERE name = 'statement_timeout') AS statement_milliseconds,"
    " pg_is_in_recovery() AS is_standby, current_user::text AS role,"
    " current_setting('synchronous_commit') AS synchronous_commit,"
    " current_setting('synchronous_standby_names') AS synchronous_standbys,"
    " current_database()::text AS database, (SELECT system_identifier FROM pg_control_system()) AS cluster,"
    f" current_setting('server_encoding') = 'UTF8' AS is_utf8, {FOLDS_ACCENTS} AS folds_accents",
)

_NEEDS_SESSION = (
    "the scheduler's lead, migrations and commands need a session of their own, which a pooler in transaction mode"
    " gives to others: set FUELROUTE_DATABASE_DIRECT_URL to PostgreSQL's own address"
)


def check_servers(settings: Settings) -> None:
    """Checks every address of PostgreSQL that the settings name. Raises DatabaseProblem."""
    if not settings.is_pooled:
        check_server(settings.require_database_url(), warn=True)
        return
    direct = check_server(settings.require_direct_url(), "FUELROUTE_DATABASE_DIRECT_URL", warn=True)
    pooled = _check_pooler(settings.require_database_url())
    if (pooled.cluster, pooled.database) != (direct.cluster, direct.database):
        raise DatabaseProblem(
            "FUELROUTE_DATABASE_URL and FUELROUTE_DATABASE_DIRECT_URL lead to different databases: give two"
            " addresses of the same one"
        )


def check_server(url: str, variable: str = "FUELROUTE_DATABASE_URL", *, warn: bool = False) -> _Server:
    """The server behind `url`, if it is a usable PostgreSQL that gives sessions of their own. Raises DatabaseProblem
    otherwise; its one sentence says what to do. With `warn` it logs lesser problems."""
    try:
        with open_session(url, _CHECKING, autocommit=True) as session:
            server = _ASK.one(session)
            if warn:
                _warn_of(url, variable, session, server)
    except psycopg.Error as error:
        if "startup parameter" in str(error):  # as PgBouncer refuses the settings of a session
            raise DatabaseProblem(f"{variable} leads to a pooler: {_NEEDS_SESSION}") from None
        raise unreachable(error, variable) from None
    if server.statement_milliseconds != milliseconds(_CHECKING.statement_seconds):
        raise DatabaseProblem(f"{variable} leads to a pooler that drops the settings of sessions: {_NEEDS_SESSION}")
    return _usable(server, variable)


def _check_pooler(url: str) -> _Server:
    """The server behind a pooler, if transactions get their settings and their role there. Raises DatabaseProblem
    otherwise; its one sentence says what to do."""
    variable = "FUELROUTE_DATABASE_URL"
    wanted = transaction_settings(_CHECKING, ANY_TABLE | AS_SERVICE)
    try:
        with open_session(url, COMMANDING, autocommit=True, pooled=True) as session:
            with session.transaction():
                set_locally(session, wanted)
                server = _ASK.one(session)
            _warn_of_plain_text(url, variable, session)
    except psycopg.Error as error:
        raise unreachable(error, variable) from None
    if server.role != wanted["role"] or server.statement_milliseconds != int(wanted["statement_timeout"]):
        raise DatabaseProblem(f"{variable}: the pooler splits transactions; its mode must be transaction or session")
    return _usable(server, variable)


def _usable(server: _Server, variable: str) -> _Server:
    if server.version < MIN_VERSION:
        raise DatabaseProblem(f"PostgreSQL {server.version // 10000} is too old: Fuelroute needs version 15 or later")
    if not server.is_utf8:
        raise DatabaseProblem(f"{variable} leads to a database that does not store Unicode: make one with `{MADE_SO}`")
    if server.is_standby:
        raise DatabaseProblem(
            f"{variable} leads to a standby, which takes no changes: name the primary, or all hosts with"
            " target_session_attrs=read-write"
        )
    return server


def _warn_of(url: str, variable: str, session: Connection, server: _Server) -> None:
    _warn_of_plain_text(url, variable, session)
    if not server.folds_accents:
        log.warning("database.folds_ascii_alone", variable=variable)  # a search for `é` misses `É`
    if server.synchronous_standbys and server.synchronous_commit in ("off", "local", "remote_write"):
        log.warning("database.standby_not_awaited", synchronous_commit=server.synchronous_commit)
    elif has_several_hosts(url) and not server.synchronous_standbys:
        log.warning("database.no_synchronous_standby")  # a fail-over may lose what was answered 2xx


def _warn_of_plain_text(url: str, variable: str, session: Connection) -> None:
    """Log when others can read the connection to another machine, or when any machine could answer in its place."""
    host = session.info.host
    if is_local(host):
        return
    if not session.pgconn.ssl_in_use:
        log.warning("database.unencrypted", variable=variable, host=host)
    elif conninfo_to_dict(url).get("sslmode") != "verify-full":
        log.warning("database.unverified", variable=variable, host=host)
