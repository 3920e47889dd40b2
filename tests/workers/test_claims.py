"""The end of a claimed step is stored, also where the database is away for a while."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from domain.claims import Claim
from domain.database.connections import Connection, Database
from domain.queue.job_queue import JobQueue
from domain.settings import Settings
from workers.claims import store_while_claimed
from workers.context import Context


@pytest.mark.parametrize("away", [1, 3])
def test_a_short_absence_of_the_database_causes_no_second_attempt(
    monkeypatch: pytest.MonkeyPatch, database: Database, settings: Settings, away: int
) -> None:
    """The driver has the message: what is not stored would be sent again."""
    failed: list[Connection] = []

    def settle(connection: Connection) -> str:
        if len(failed) < away:
            failed.append(connection)
            raise psycopg.OperationalError("the server closed the connection unexpectedly")
        return "sent"

    monkeypatch.setattr("workers.claims.STORE_AGAIN_SECONDS", 0.01)
    context = Context(settings, database, JobQueue.of(settings))
    claimed = Claim(until=datetime.now(UTC) + timedelta(seconds=30))

    assert store_while_claimed(context, claimed, settle) == "sent"
    assert len(failed) == away


def test_a_worker_does_not_wait_for_a_database_beyond_the_claim(settings: Settings, database: Database) -> None:
    def settle(_: Connection) -> str:
        raise psycopg.OperationalError("away")

    with pytest.raises(psycopg.OperationalError):
        store_while_claimed(Context(settings, database, JobQueue.of(settings)), Claim(until=datetime.now(UTC)), settle)
