"""Measures what the rules of `needs` look at. Redis may be away: the database still tells what is overdue."""

from datetime import datetime

import redis

from domain.database import Connection
from domain.operations import beats, overdue, pauses, queues
from domain.operations.needs import Measured


def measure(connection: Connection, client: redis.Redis, *, now: datetime) -> Measured:
    stopped = pauses.list_pauses(connection)
    late = overdue.count(connection, now=now)
    try:
        states = queues.read_queues(client)
        workers = beats.read_workers(client, now=now)
        return Measured(states, workers, queues.held_by_workers(client), beats.read_passes(client), stopped, late)
    except redis.RedisError:
        return Measured(None, [], {}, [], stopped, late)
