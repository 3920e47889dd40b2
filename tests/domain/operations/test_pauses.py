"""Pauses are decisions: kept in the database, with who and why."""

from datetime import datetime

import pytest

from domain.audit.entries import Actor, NoReason, latest_actions
from domain.database.connections import Connection
from domain.operations import pauses
from domain.operations.pauses import Pause, UnknownQueue
from domain.queue.jobs import QUEUES

ANN = Actor("ann@example.com", " the prices are wrong ")


def test_a_queue_is_paused_once_and_resumed_once(connection: Connection, now: datetime) -> None:
    assert pauses.pause(connection, "plans", ANN, now=now)
    assert not pauses.pause(connection, "plans", Actor("bo", "me too"), now=now)
    assert pauses.list_pauses(connection) == [Pause("plans", now, "ann@example.com", "the prices are wrong")]

    assert pauses.resume(connection, "plans", Actor("bo", "new prices"))
    assert not pauses.resume(connection, "plans", ANN)

    assert pauses.list_pauses(connection) == []
    entries = [
        (entry.actor, entry.action, entry.subject, entry.reason) for entry in latest_actions(connection, limit=2)
    ]
    assert entries == [
        ("bo", "resume", "plans", "new prices"),
        ("ann@example.com", "pause", "plans", "the prices are wrong"),
    ]


def test_an_unknown_queue_cannot_be_paused(connection: Connection, now: datetime) -> None:
    with pytest.raises(UnknownQueue, match="choose from imports"):
        pauses.pause(connection, "import", ANN, now=now)
    with pytest.raises(UnknownQueue, match="choose from imports"):
        pauses.resume(connection, "import", ANN)


@pytest.mark.parametrize("queue", QUEUES)
def test_no_queue_is_paused_without_a_reason(connection: Connection, now: datetime, queue: str) -> None:
    with pytest.raises(NoReason):
        pauses.pause(connection, queue, Actor("ann@example.com", " "), now=now)
