"""How many of a process's threads one company's gateways may hold, who comes next, and that an outcome is stored."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from domain.database import Database
from domain.ids import new_id
from domain.jobs import JobQueue
from domain.messages.gateways import Fault
from domain.messages.messages import Claim, MessageStatus
from domain.routes.delivery import Outcome
from domain.settings import Settings
from workers.context import Context
from workers.messages import Turns, _store

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads

COMPANY = new_id()


def test_a_company_has_half_of_the_threads_and_another_one_still_gets_its_turn() -> None:
    turns: Turns[str] = Turns(4, lambda _: None)

    with ExitStack() as held:
        granted = [held.enter_context(turns.turn(COMPANY, f"msg_{number}")) for number in range(5)]

        assert granted == [True, True, False, False, False]
        assert held.enter_context(turns.turn(new_id(), "msg_other"))


def test_whoever_was_put_off_is_called_in_order_each_once_as_turns_end() -> None:
    called: list[str] = []
    turns: Turns[str] = Turns(2, called.append)

    with turns.turn(COMPANY, "msg_1"):
        for number in (2, 3, 2):
            with turns.turn(COMPANY, f"msg_{number}") as granted:
                assert not granted
        assert called == []
    assert called == ["msg_2"]
    for name in called:
        with turns.turn(COMPANY, name) as granted:
            assert granted
    assert called == ["msg_2", "msg_3"]


def test_a_process_of_one_thread_works_too() -> None:
    turns: Turns[str] = Turns(1, lambda _: None)
    for number in range(3):
        with turns.turn(COMPANY, f"msg_{number}") as granted:
            assert granted


def test_a_turn_ends_with_an_error_too() -> None:
    turns: Turns[str] = Turns(2, lambda _: None)
    for number in range(3):
        try:
            with turns.turn(COMPANY, f"msg_{number}") as granted:
                assert granted
                raise RuntimeError
        except RuntimeError:
            pass


def test_under_many_threads_nobody_is_granted_more_and_nobody_is_lost() -> None:
    waiting: list[str] = []
    turns: Turns[str] = Turns(6, waiting.append)
    lock = threading.Lock()
    now = most = 0
    sent: list[str] = []

    def send(message_id: str) -> None:
        nonlocal now, most
        with turns.turn(COMPANY, message_id) as granted:
            if granted:
                with lock:
                    now += 1
                    most = max(most, now)
                    sent.append(message_id)
                with lock:
                    now -= 1

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(send, [f"msg_{number}" for number in range(500)]))
    while waiting:
        send(waiting.pop())

    assert most <= 3
    assert sorted(sent) == sorted({f"msg_{number}" for number in range(500)})


@pytest.mark.parametrize("away", [1, 3])
def test_a_database_that_is_away_for_a_moment_costs_no_second_message(
    monkeypatch: pytest.MonkeyPatch, database: Database, settings: Settings, away: int
) -> None:
    """The driver has the message: what is not stored would be sent again."""
    stored: list[Fault | None] = []

    def settle(connection: object, claimed: Claim, fault: Fault | None, **_: object) -> Outcome:
        if len(stored) < away:
            stored.append(fault)
            raise psycopg.OperationalError("the server closed the connection unexpectedly")
        return Outcome(MessageStatus.SENT, [])

    monkeypatch.setattr("workers.messages.delivery.settle", settle)
    monkeypatch.setattr("workers.messages._STORE_AGAIN_SECONDS", 0.01)
    claimed = Claim(new_id(), COMPANY, "json://x.example.com", "", datetime.now(UTC) + timedelta(seconds=30), None)
    context = Context(settings, database, JobQueue.of(settings))

    assert _store(context, claimed, None) == Outcome(MessageStatus.SENT, [])
    assert len(stored) == away


def test_a_database_that_stays_away_longer_than_the_claim_is_not_waited_for(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settle(*_: object, **__: object) -> Outcome:
        raise psycopg.OperationalError("away")

    monkeypatch.setattr("workers.messages.delivery.settle", settle)
    claimed = Claim(new_id(), COMPANY, "json://x.example.com", "", datetime.now(UTC), None)

    with pytest.raises(psycopg.OperationalError):
        _store(Context(settings, database, JobQueue.of(settings)), claimed, None)
