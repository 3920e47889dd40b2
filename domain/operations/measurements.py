"""Measures everything that the rules of `alerts` need. Redis may be away: the database still tells which work is
overdue."""

from datetime import datetime

import redis

from domain.database.connections import Connection
from domain.database.statements import NotNull, Scalar
from domain.needs import overdue
from domain.operations import pauses
from domain.operations.alerts import Measured
from domain.queue import heartbeats, inspection, rates
from domain.queue.redis_clients import refusal

_PERMITTED = Scalar(NotNull[bool], "SELECT has_function_privilege('pg_control_system()', 'EXECUTE')")
"""A statement of its own: one that names the function would fail before it begins if it may not be called."""
_DATABASE = Scalar(
    NotNull[str], "SELECT current_database() || ' of the server ' || system_identifier FROM pg_control_system()"
)


def database_name(connection: Connection) -> str:
    """A name that no other database has, on any server, except for a copy of this server's files. Empty if the role may
    not ask for the server's identifier."""
    return _DATABASE.one(connection) if _PERMITTED.one(connection) else ""


_TAKES_CHANGES = Scalar(NotNull[bool], "SELECT NOT current_setting('transaction_read_only')::bool")


def takes_changes(connection: Connection) -> bool:
    """False on a standby, on a server that was made read-only, and in a session that asked for it."""
    return _TAKES_CHANGES.one(connection)


def measure(connection: Connection, client: redis.Redis, *, now: datetime) -> Measured:
    stopped = pauses.list_pauses(connection)
    late = overdue.count(connection, now=now)
    database = database_name(connection)
    writable = takes_changes(connection)
    try:
        return Measured(
            inspection.read_queues(client),
            heartbeats.read_worker_heartbeats(client, now=now),
            inspection.read_holders(client),
            heartbeats.read_last_pass_runs(client),
            stopped,
            late,
            rates.read_rates(client, now=now),
            heartbeats.read_recent_pass_runs(client),
            database,
            writable,
            refusal(client),
        )
    except redis.RedisError:
        return Measured(None, [], {}, [], stopped, late, [], [], database, writable)
