"""The outcome of an attempt at a message is stored."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from domain.database.connections import Database
from domain.ids import new_id
from domain.messages.gateways import Fault
from domain.messages.message_life import Claim, MessageStatus
from domain.queue.job_queue import JobQueue
from domain.routes.plans.delivery import DeliveryOutcome
from domain.settings import Settings
from workers.context import Context
from workers.messages import _store

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads

COMPANY = new_id()


@pytest.mark.parametrize("away", [1, 3])
def test_a_short_absence_of_the_database_causes_no_second_message(
    monkeypatch: pytest.MonkeyPatch, database: Database, settings: Settings, away: int
) -> None:
    """The driver has the message: what is not stored would be sent again."""
    stored: list[Fault | None] = []

    def settle(connection: object, claimed: Claim, fault: Fault | None, **_: object) -> DeliveryOutcome:
        if len(stored) < away:
            stored.append(fault)
            raise psycopg.OperationalError("the server closed the connection unexpectedly")
        return DeliveryOutcome(MessageStatus.SENT, [])

    monkeypatch.setattr("workers.messages.delivery.finish_delivery", settle)
    monkeypatch.setattr("workers.messages._STORE_AGAIN_SECONDS", 0.01)
    claimed = Claim(new_id(), COMPANY, "json://x.example.com", "", datetime.now(UTC) + timedelta(seconds=30), None)
    context = Context(settings, database, JobQueue.of(settings))

    assert _store(context, claimed, None) == DeliveryOutcome(MessageStatus.SENT, [])
    assert len(stored) == away


def test_a_worker_does_not_wait_for_a_database_beyond_the_claim(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settle(*_: object, **__: object) -> DeliveryOutcome:
        raise psycopg.OperationalError("away")

    monkeypatch.setattr("workers.messages.delivery.finish_delivery", settle)
    claimed = Claim(new_id(), COMPANY, "json://x.example.com", "", datetime.now(UTC), None)

    with pytest.raises(psycopg.OperationalError):
        _store(Context(settings, database, JobQueue.of(settings)), claimed, None)
