"""Measures what the rules of `needs` look at. Redis may be away: the database still tells what is overdue."""

from datetime import datetime

import redis

from domain.database import Connection
from domain.operations import beats, overdue, pauses, queues, rates
from domain.operations.alerts import Measured


def measure(connection: Connection, client: redis.Redis, *, now: datetime) -> Measured:
    stopped = pauses.list_pauses(connection)
    late = overdue.count(connection, now=now)
    try:
        return Measured(
            queues.read_queues(client),
            beats.read_workers(client, now=now),
            queues.read_holders(client),
            beats.read_passes(client),
            stopped,
            late,
            rates.read_rates(client, now=now),
            beats.read_runs(client),
        )
    except redis.RedisError:
        return Measured(None, [], {}, [], stopped, late, [], [])
