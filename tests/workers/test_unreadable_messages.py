"""A message that no worker can read, or whose job no worker knows, stops no other job and becomes a dead letter that
says why."""

import pytest
from dramatiq.brokers.redis import RedisBroker

from domain.queue.dead_letter_store import enqueue_dead_letters, read_dead_letters, remove_dead_letters
from domain.queue.dramatiq_messages import encode_message, unreadable_letter
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import Job
from tests.service import eventually
from tests.workers.one_queue import QUEUE, Server, job, seen_by, working
from workers.broker import FuelrouteBroker


def errors_of_dead_letters(queue: JobQueue, count: int) -> list[tuple[str, str]]:
    """The job and the error of each dead letter, once there are so many."""
    letters = eventually(lambda: read_dead_letters(queue.client, QUEUE), lambda found: len(found) == count)
    return [(letter.job, letter.error) for letter, _ in letters]


@pytest.fixture(autouse=True)
def quick_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers search for lost jobs several times a second."""
    monkeypatch.setattr("workers.broker._RECOVER_SECONDS", 0.2)


@pytest.mark.parametrize(
    "message",
    [
        b"\xff",
        b"[]",
        encode_message(QUEUE, "tests.run", {"number": 99}, "bad").replace(b'"args"', b'"positional"'),
        encode_message(QUEUE, "tests.run", {"number": 99}, "bad").replace(b"redis_message_id", b"id"),
        encode_message("of another queue", "tests.run", {"number": 99}, "bad"),
    ],
    ids=["not UTF-8", "not a message", "of a later Dramatiq", "without its id", "of another queue"],
)
def test_a_message_that_cannot_be_read_becomes_a_dead_letter_and_stops_no_job(
    server: Server, queue: JobQueue, message: bytes
) -> None:
    queue.client.hset(f"dramatiq:{QUEUE}.msgs", "bad", message)
    queue.client.rpush(f"dramatiq:{QUEUE}", "bad")
    queue.put(*(job(number=number) for number in range(40)))
    seen: list[int] = []

    with working(server.url, seen_by(seen)) as worker:
        eventually(lambda: len(seen), lambda count: count == 40)
        ((name, error),) = errors_of_dead_letters(queue, 1)
        assert worker.is_alive()

    assert (name, error) == ("unreadable", f"This release cannot read the message {message[:200]!r}"[:300])
    assert queue.client.hkeys(f"dramatiq:{QUEUE}.msgs") == []


def test_the_dead_letter_of_a_job_that_no_worker_knows_says_so(server: Server, queue: JobQueue) -> None:
    queue.put(Job("tests.gone", QUEUE, {}))
    with working(server.url, seen_by([])):
        assert errors_of_dead_letters(queue, 1) == [("tests.gone", "This release has no job tests.gone")]


def test_a_dead_letter_has_the_error_of_its_last_attempt(
    server: Server, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.broker._JOB_RETRIES", 1)
    attempts: list[int] = []

    def run() -> None:
        attempts.append(1)
        raise ValueError(f"attempt {len(attempts)}")

    queue.put(job())
    with working(server.url, run):
        assert errors_of_dead_letters(queue, 1) == [("tests.run", "ValueError: attempt 2")]


@pytest.mark.parametrize("name", ["tests.run", "tests.gone"])
def test_nobody_sees_a_dead_letter_without_its_error(
    server: Server, queue: JobQueue, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("workers.broker._JOB_RETRIES", 0)
    seen: list[str] = []

    def do_nack(broker: FuelrouteBroker, queue_name: str, redis_message_id: str) -> None:
        RedisBroker.__getattr__(broker, "do_nack")(queue_name, redis_message_id)
        seen.extend(letter.error for letter, _ in read_dead_letters(queue.client, QUEUE))

    monkeypatch.setattr(FuelrouteBroker, "do_nack", do_nack, raising=False)
    queue.client.hset(f"dramatiq:{QUEUE}.msgs", "bad", b"[]")
    queue.client.rpush(f"dramatiq:{QUEUE}", "bad")
    queue.put(Job(name, QUEUE, {}))

    with working(server.url, seen_by([])):
        errors_of_dead_letters(queue, 2)

    assert len(seen) == 3
    assert "" not in seen


def test_a_job_that_is_done_gets_no_error(server: Server, queue: JobQueue) -> None:
    FuelrouteBroker(server.url).tell_error(QUEUE, "gone", encode_message(QUEUE, "tests.run", {}, "gone"))
    assert queue.client.keys("*") == []


def test_a_dead_letter_that_cannot_be_read_is_not_replayed_but_discarded(queue: JobQueue) -> None:
    queue.client.zadd("dramatiq:plans.XQ", {"bad": 1})
    queue.client.hset("dramatiq:plans.XQ.msgs", "bad", unreadable_letter("plans", "bad", b"[]"))
    ((letter, _),) = read_dead_letters(queue.client, "plans")

    assert enqueue_dead_letters(queue.client, [letter]) == 0
    assert read_dead_letters(queue.client, "plans")[0][0].error == "This release cannot read the message b'[]'"
    assert remove_dead_letters(queue.client, [letter]) == 1
    assert read_dead_letters(queue.client, "plans") == []
