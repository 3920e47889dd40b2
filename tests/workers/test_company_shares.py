"""No company's jobs make another's wait: each has a backlog of its own, and at most half of a worker's threads."""

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from domain.ids import new_id
from domain.queue.inspection import jobs_in, read_queues
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import Job
from tests.service import eventually
from tests.workers.one_queue import QUEUE, Server, working
from workers.broker import FuelrouteBroker
from workers.company_shares import CompanyShares

ONE, OTHER = new_id(), new_id()


def job(company_id: UUID | None, number: int = 0, *, queue: str = QUEUE) -> Job:
    return Job("tests.run", queue, {"company": company_id, "number": number}, company_id=company_id)


class Work:
    """Jobs of `ONE` run until they are released, all others at once."""

    def __init__(self) -> None:
        self.released, self.lock = threading.Event(), threading.Lock()
        self.running = self.most = 0
        self.done: list[tuple[str, int]] = []

    def __call__(self, company: str, number: int) -> None:
        if company == ONE.hex:
            with self.lock:
                self.running += 1
                self.most = max(self.most, self.running)
            assert self.released.wait(60)
            with self.lock:
                self.running -= 1
        self.done.append((company, number))


def test_one_company_never_has_all_threads_and_at_most_half_beside_another() -> None:
    shares = CompanyShares(4)
    assert shares.share == 3
    assert [shares.take("one") for _ in range(4)] == [True, True, True, False]
    assert shares.share == 2
    assert shares.take("other")
    assert shares.free() == {"one": 0, "other": 1}
    assert [shares.give_back("one"), shares.take("one"), shares.give_back("one"), shares.take("one")] == [
        True,
        False,
        True,
        True,
    ]
    assert [shares.give_back("other"), shares.free()] == [True, {"one": 1}]
    assert [shares.give_back("one"), shares.give_back("one"), shares.free()] == [False, False, {}]


def test_a_process_of_one_thread_works_too() -> None:
    assert [CompanyShares(1).take("one") for _ in range(2)] == [True, True]


def test_many_threads_never_take_more_than_the_share() -> None:
    shares, lock, held, most = CompanyShares(6), threading.Lock(), 0, 0

    def work(_: int) -> None:
        nonlocal held, most
        if shares.take("one"):
            with lock:
                held += 1
                most = max(most, held)
            with lock:
                held -= 1
            shares.give_back("one")

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(2_000)))
    assert most <= 5
    assert shares.free() == {}


def test_slow_jobs_of_one_company_do_not_delay_other_companies(server: Server, queue: JobQueue) -> None:
    work = Work()
    with working(server.url, work, threads=4):
        queue.put(*(job(ONE, number) for number in range(1_200)))
        eventually(lambda: work.running, lambda count: count == 3)
        for number in range(20):
            queue.put(job(OTHER, number))
            eventually(lambda: len(work.done), lambda count, number=number: count == number + 1)  # type: ignore[misc]
        assert work.running == 3, "no job of the one has ended meanwhile"
        work.released.set()
        eventually(lambda: len(work.done), lambda count: count == 1_220, seconds=900)
    assert work.most == 3
    assert [number for company, number in work.done if company == OTHER.hex] == list(range(20))
    assert sorted(number for company, number in work.done if company == ONE.hex) == list(range(1_200))
    assert queue.backlog(QUEUE) == 0
    assert queue.client.hlen(f"dramatiq:{QUEUE}.msgs") == 0
    left = {key.decode() for key in queue.client.keys(f"dramatiq:{QUEUE}.lane*")}  # type: ignore[union-attr]
    assert left <= {f"dramatiq:{QUEUE}.laned"}


def test_jobs_of_many_companies_come_in_turn(server: Server, queue: JobQueue) -> None:
    companies = [new_id() for _ in range(5)]
    queue.put(*(job(company, number) for company in companies for number in range(100)))
    assert queue.backlog(QUEUE) == 500

    work = Work()
    with working(server.url, work, threads=1):
        eventually(lambda: len(work.done), lambda count: count == 500, seconds=900)

    for place, (_, number) in enumerate(work.done):
        assert abs(number - place // 5) <= 20, "each is about as far as the others"


def test_a_full_backlog_leaves_room_for_other_companies(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domain.queue.job_queue.MAX_WAITING", 50)
    queue.put(*(job(ONE, number) for number in range(200)))
    full = queue.backlog(QUEUE)
    assert 50 <= full <= 66

    queue.put(job(OTHER))
    queue.put(job(None))

    assert queue.backlog(QUEUE) == full + 2


def test_jobs_that_wait_in_backlogs_are_counted(queue: JobQueue) -> None:
    queue.put(*(job(company, number, queue="plans") for company in (ONE, OTHER) for number in range(30)))

    (plans,) = [state for state in read_queues(queue.client) if state.queue == "plans"]
    waiting = jobs_in(queue.client, "plans", "waiting", limit=100)

    assert plans.waiting == len(waiting) == queue.length("plans").waiting == 60
    assert len({one.id for one in waiting}) == 60
    assert len(jobs_in(queue.client, "plans", "waiting", limit=20)) == 20


def test_jobs_of_a_worker_that_dies_are_run_by_others(
    server: Server, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("domain.queue.dead_workers.FROZEN_SECONDS", 0.5)
    queue.put(*(job(ONE, number) for number in range(10)))
    dead = FuelrouteBroker(server.url)
    dead.declare_queue(QUEUE)
    consumer = dead.consume(QUEUE, prefetch=8)
    taken = [next(consumer) for _ in range(8)]
    assert len([one for one in taken if one is not None]) == 3, "no more than the company's share"

    work = Work()
    work.released.set()
    with working(server.url, work):
        eventually(lambda: len(work.done), lambda count: count == 10)
    assert sorted(number for _, number in work.done) == list(range(10))


def test_a_failed_job_gives_its_thread_back(server: Server, queue: JobQueue) -> None:
    attempts: list[int] = []

    def run(company: str, number: int) -> None:
        attempts.append(number)
        if attempts.count(number) == 1:
            raise ConnectionError("the database restarts")

    with working(server.url, run, threads=2):
        queue.put(*(job(ONE, number) for number in range(5)))
        eventually(lambda: len(attempts), lambda count: count == 10)


@pytest.mark.parametrize("run", range(3))
def test_two_workers_share_backlogs_and_lose_nothing(server: Server, queue: JobQueue, run: int) -> None:
    work, companies = Work(), [new_id() for _ in range(4)]
    work.released.set()
    with working(server.url, work, threads=3), working(server.url, work, threads=2):
        for number in range(400):
            queue.put(job(companies[number % 7 % 4], number), job(None, number))
        eventually(lambda: len(work.done), lambda count: count == 800, seconds=900)
    assert len(set(work.done)) == 800
    assert queue.backlog(QUEUE) == 0
