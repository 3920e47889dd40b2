"""Heartbeats are read without a trace, and forgotten by housekeeping."""

from datetime import UTC, datetime, timedelta

from domain.queue.heartbeats import (
    WorkerHeartbeat,
    forget_worker_heartbeats,
    read_worker_heartbeats,
    send_worker_heartbeat,
)
from domain.queue.job_queue import JobQueue
from domain.queue.redis_layout import WORKER_HEARTBEATS

NOW = datetime(2026, 11, 23, 4, 0, tzinfo=UTC)


def heartbeat(id: str, beat_at: datetime) -> WorkerHeartbeat:
    return WorkerHeartbeat(id, "alpha", 7, ["plans"], 4, NOW, beat_at, [], 0, 0, 0, None)


def test_a_worker_of_long_ago_is_left_out_and_forgotten_when_asked(jobs: JobQueue) -> None:
    send_worker_heartbeat(jobs.client, heartbeat("old", NOW - timedelta(minutes=61)), {}, {})
    send_worker_heartbeat(jobs.client, heartbeat("new", NOW - timedelta(minutes=59)), {}, {})

    assert [one.id for one in read_worker_heartbeats(jobs.client, now=NOW)] == ["new"]
    assert jobs.client.hlen(WORKER_HEARTBEATS) == 2, "reading changes nothing"

    assert forget_worker_heartbeats(jobs.client, now=NOW) == 1
    assert jobs.client.hkeys(WORKER_HEARTBEATS) == [b"new"]
