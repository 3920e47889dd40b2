"""The transactions of a job see the companies that the job names, at every attempt; between two jobs they see
nothing."""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

import dramatiq
import pytest

from domain.database.visibility import NOTHING, Visibility, of_companies
from domain.ids import new_id
from domain.queue.dramatiq_messages import COMPANIES, COMPANY, companies_of
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import Job
from tests.service import eventually
from tests.workers.one_queue import QUEUE, Server
from workers.broker import FuelrouteBroker, FuelrouteWorker
from workers.job_companies import JobCompanies

ONE, OTHER = new_id(), new_id()


class Jobs:
    """A real worker of one thread. Each job notes what it sees; one that is told to fails at its first attempt."""

    def __init__(self) -> None:
        self.companies = JobCompanies()
        self.seen: list[tuple[str, Visibility]] = []

    def run(self, name: str, fails: bool) -> None:
        self.seen.append((name, self.companies.visible()))
        from_another_thread = threading.Thread(target=lambda: self.seen.append(("thread", self.companies.visible())))
        from_another_thread.start()
        from_another_thread.join()
        if fails and [one for one, _ in self.seen].count(name) == 1:
            raise ZeroDivisionError

    @contextlib.contextmanager
    def working(self, url: str) -> Iterator[None]:
        broker = FuelrouteBroker(url)
        broker.add_middleware(self.companies)
        dramatiq.actor(broker=broker, actor_name="tests.run", queue_name=QUEUE, min_backoff=1, max_backoff=2)(self.run)
        worker = FuelrouteWorker(broker, [QUEUE], threads=1)
        worker.start()
        try:
            yield
        finally:
            worker.stop(timeout=10_000)
            broker.close()


def job(name: str, *, fails: bool = False, **companies: Any) -> Job:
    return Job("tests.run", QUEUE, {"name": name, "fails": fails}, **companies)


def test_a_job_sees_its_companies_at_every_attempt(server: Server, queue: JobQueue) -> None:
    jobs = Jobs()
    queue.put(
        job("one", fails=True, company_id=ONE),
        job("other", company_id=OTHER),
        job("both", fails=True, company_ids=(ONE, OTHER)),
        job("none", fails=True),
    )
    with jobs.working(server.url):
        eventually(lambda: len(jobs.seen), lambda count: count == 14)
    assert sorted(jobs.seen) == sorted(
        [
            *[("one", of_companies([ONE]))] * 2,
            ("other", of_companies([OTHER])),
            *[("both", of_companies([ONE, OTHER]))] * 2,
            *[("none", of_companies([]))] * 2,
            *[("thread", NOTHING)] * 7,
        ]
    )


@pytest.mark.parametrize(
    ("options", "companies"),
    [
        ({}, None),
        ({COMPANY: ONE.hex}, [ONE]),
        ({COMPANIES: [ONE.hex, OTHER.hex]}, [ONE, OTHER]),
        ({COMPANIES: []}, []),
    ],
    ids=["earlier release", "one", "several", "none"],
)
def test_only_a_job_of_an_earlier_release_leaves_its_companies_open(
    options: Mapping[str, Any], companies: list[UUID] | None
) -> None:
    """A job of an earlier release sees everything. A job of this release that names no company sees nothing."""
    assert companies_of(options) == companies
