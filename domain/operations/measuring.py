"""Measures everything that the rules of `alerts` need. Redis may be away: the database still tells which work is
overdue."""

from datetime import datetime

import redis

from domain.database import Connection
from domain.operations import overdue, pauses
from domain.operations.alerts import Measured
from domain.queue import heartbeats, inspection, rates


def measure(connection: Connection, client: redis.Redis, *, now: datetime) -> Measured:
    stopped = pauses.list_pauses(connection)
    late = overdue.count(connection, now=now)
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
        )
    except redis.RedisError:
        return Measured(None, [], {}, [], stopped, late, [], [])
