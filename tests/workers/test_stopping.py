"""A worker that is told to stop returns what it has not begun at once, and what it cannot finish in time."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from domain.queue.job_queue import JobQueue
from domain.queue.redis_layout import taken_key
from tests.service import eventually
from tests.workers.one_queue import QUEUE, Server, job, seen_by, working
from workers.broker import WakingConsumer


def test_a_worker_that_stops_returns_its_jobs_and_another_one_runs_them(
    server: Server, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, begun = threading.Event(), threading.Event()
    requeue, returned_by = WakingConsumer.requeue, list[int]()

    def note(consumer: WakingConsumer, messages: Sequence[Any]) -> None:
        returned_by.append(threading.get_ident())
        requeue(consumer, messages)

    monkeypatch.setattr(WakingConsumer, "requeue", note)

    def hold(number: int) -> None:
        begun.set()
        assert go_on.wait(60)

    seen: list[int] = []
    try:
        with working(server.url, hold, threads=1) as stops, ThreadPoolExecutor(1) as threads:
            queue.put(*(job(number=number) for number in range(6)))
            assert begun.wait(180)
            (key,) = eventually(lambda: queue.client.keys(taken_key("*", QUEUE)), bool)
            eventually(lambda: queue.client.scard(key), lambda held: held >= 4)

            by = threads.submit(threading.get_ident).result()
            stopping = threads.submit(stops.stop, 6_000)
            eventually(lambda: queue.backlog(QUEUE), lambda waiting: waiting == 5)
            assert returned_by.count(by) == 1, "a silent Redis is waited for at each call"
            assert queue.client.scard(key) == 1, "one runs still, and those that had not begun are back"
            with working(server.url, seen_by(seen)):
                stopping.result()
                eventually(lambda: sorted(seen), lambda numbers: numbers == list(range(6)))
            stops.stop = lambda timeout=0: None  # type: ignore[method-assign]  # it has stopped
    finally:
        go_on.set()
