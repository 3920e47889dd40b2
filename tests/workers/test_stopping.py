"""A worker that is told to stop returns what it has not begun at once, and what it cannot finish in time."""

import threading
from concurrent.futures import ThreadPoolExecutor

from domain.queue.job_queue import JobQueue
from domain.queue.redis_layout import taken_key
from tests.service import eventually
from tests.workers.one_queue import QUEUE, Server, job, seen_by, working


def test_a_worker_that_stops_returns_its_jobs_and_another_one_runs_them(server: Server, queue: JobQueue) -> None:
    go_on, begun = threading.Event(), threading.Event()

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

            stopping = threads.submit(stops.stop, 6_000)
            eventually(lambda: queue.backlog(QUEUE), lambda waiting: waiting == 5)
            assert queue.client.scard(key) == 1, "one runs still, and those that had not begun are back"
            with working(server.url, seen_by(seen)):
                stopping.result()
                eventually(lambda: sorted(seen), lambda numbers: numbers == list(range(6)))
            stops.stop = lambda timeout=0: None  # type: ignore[method-assign]  # it has stopped
    finally:
        go_on.set()
