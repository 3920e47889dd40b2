"""A plan that kills the process which computes it is put off, and the other plans are made."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from domain.database.connections import Database
from domain.planning.plan_tasks import PlanTask
from domain.planning.planner import Planner
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import build_plan_job, review_plan_job
from domain.queue.redis_layout import SIGNS_OF_LIFE
from domain.queue.unfinished_jobs import UnfinishedJobs
from domain.routes.plans import review_requests
from domain.routes.progress.tracking import process_vehicles
from domain.settings import Settings
from domain.telemetry.health import Health
from tests.conftest import make_database
from tests.domain.helpers import imported, planned_by_hand, positions_at, post, route_row
from tests.factories import JOLIET, make_fleet
from tests.forking import fork
from tests.service import eventually
from tests.workers.one_queue import Server
from workers import process


class Company:
    """A company of its own database, whose routes from Joliet wait for plans."""

    def __init__(self, settings: Settings, database: Database, now: datetime) -> None:
        self.settings, self.database, self.now = settings, database, now

    def arrived_route(self) -> UUID:
        """A route of a truck of its own, whose first plan is due."""
        with self.database.transaction() as connection:
            fleet = make_fleet(connection)
            route_id = imported(connection, fleet.live, now=self.now)
            fixes = positions_at(JOLIET, self.now - timedelta(minutes=5), fuel_percent=60)
            post(connection, fleet.live, fixes, now=self.now)
            process_vehicles(connection, "live", fleet.trucks, settings=self.settings, now=self.now)
        return route_id

    def reviewed_route(self) -> UUID:
        """An active route whose plan is to be reviewed."""
        route_id = self.arrived_route()
        with self.database.transaction() as connection:
            planned_by_hand(connection, route_id, now=self.now)
            connection.execute(
                "UPDATE routes SET status = 'active', review_cause = 'dispatcher' WHERE id = %s", (route_id,)
            )
            review_requests.of_routes(connection, [route_id], now=self.now)
        return route_id

    def failed_attempts(self, route_id: UUID) -> int:
        with self.database.transaction() as connection:
            query = "SELECT FROM route_events WHERE route_id = %s AND kind = 'plan_failed'"
            return connection.execute(query, (route_id,)).rowcount

    def route(self, route_id: UUID) -> Any:
        with self.database.transaction() as connection:
            return route_row(connection, route_id)


@pytest.fixture
def company(settings: Settings, server: Server, queue: JobQueue, now: datetime) -> Iterator[Company]:
    url = make_database("deadly")
    with Database(url) as database:
        yield Company(settings.model_copy(update={"database_url": url, "redis_url": server.url}), database, now)


def _work(settings: Settings, deadly: UUID) -> None:
    """A worker of plans that a plan of one route kills, before others end that began beside it."""
    plan = Planner.plan

    def plan_or_die(self: Planner, task: PlanTask, now: datetime) -> Any:
        if task.route.id == deadly:
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(1)
        return plan(self, task, now)

    Planner.plan = plan_or_die  # type: ignore[method-assign]  # in this process alone
    raise SystemExit(process.run(settings, Health("workers"), ("plans",)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["first plan", "review"])
def test_a_plan_that_kills_its_worker_is_put_off_and_other_plans_are_made(
    company: Company, queue: JobQueue, kind: str
) -> None:
    deadly = company.arrived_route() if kind == "first plan" else company.reviewed_route()
    beside = [company.arrived_route() for _ in range(3)]
    company_id = company.route(deadly).company_id
    queue.put(build_plan_job(deadly, company_id) if kind == "first plan" else review_plan_job(deadly, company_id))
    queue.put(*(build_plan_job(one, company.route(one).company_id) for one in beside))
    deaths, worker = 0, fork(_work, company.settings, deadly)

    def supervised() -> Any:
        nonlocal deaths, worker
        if not worker.is_alive():
            deaths, worker = deaths + 1, fork(_work, company.settings, deadly)
        return company.route(deadly)

    try:
        put_off = eventually(supervised, lambda route: route.attempts > 0)
        other = company.arrived_route()
        queue.put(build_plan_job(other, company.route(other).company_id))
        eventually(lambda: company.route(other).status, lambda status: status != "draft")
        eventually(lambda: {company.route(one).status for one in beside}, lambda statuses: "draft" not in statuses)
        assert worker.is_alive()
    finally:
        worker.terminate()
        worker.join()

    assert [company.failed_attempts(one) for one in beside] == [0, 0, 0]
    assert deaths == 2
    assert put_off.attempts == 1
    due_at = put_off.retry_at if kind == "first plan" else put_off.review_at
    assert due_at > company.now + timedelta(seconds=10)


# --- The count ---------------------------------------------------------------------------------------------------


class Workers:
    """Three workers that live."""

    def __init__(self, url: str, queue: JobQueue) -> None:
        self._queue = queue
        self._of = {name: UnfinishedJobs(url, name) for name in ("first", "second", "third")}
        self._never_left: list[AbstractContextManager[bool]] = []
        queue.client.hset(SIGNS_OF_LIFE, mapping=dict.fromkeys(self._of, "1 1"))

    def working_at(self, job: str, name: str) -> AbstractContextManager[bool]:
        return self._of[name].working_at(job)

    def dies_over(self, job: str, name: str, *, in_order: bool = False) -> bool:
        """A worker begins a job and dies, or stops in order. Returns what it was told."""
        self._never_left.append(self.working_at(job, name))
        is_fatal = self._never_left[-1].__enter__()
        if in_order:
            self._of[name].leave()
        self._queue.client.hdel(SIGNS_OF_LIFE, name)
        return is_fatal


@pytest.fixture
def workers(server: Server, queue: JobQueue) -> Workers:
    return Workers(server.url, queue)


def test_a_job_is_fatal_after_two_workers_have_died_over_it(workers: Workers) -> None:
    assert not workers.dies_over("plan", "first")
    assert not workers.dies_over("plan", "second")
    with workers.working_at("another", "third") as is_fatal:
        assert not is_fatal
    with workers.working_at("plan", "third") as is_fatal:
        assert is_fatal
    with workers.working_at("plan", "third") as is_fatal:
        assert not is_fatal, "the attempt before has ended"


def test_a_job_that_ends_between_two_deaths_is_not_fatal(workers: Workers) -> None:
    workers.dies_over("plan", "first")
    with pytest.raises(ZeroDivisionError), workers.working_at("plan", "third"):
        raise ZeroDivisionError
    workers.dies_over("plan", "second")
    with workers.working_at("plan", "third") as is_fatal:
        assert not is_fatal


def test_a_job_that_living_workers_run_at_once_is_not_fatal(workers: Workers) -> None:
    with workers.working_at("plan", "first"):
        for name in ("second", "third", "second"):
            with workers.working_at("plan", name) as is_fatal:
                assert not is_fatal


def test_jobs_over_which_one_worker_died_take_turns_so_that_the_next_death_counts_for_one(workers: Workers) -> None:
    workers.dies_over("deadly", "first")
    workers.dies_over("beside", "first")
    begun = threading.Event()

    def work_beside() -> bool:
        with workers.working_at("beside", "second") as is_fatal:
            begun.set()
            return is_fatal

    with ThreadPoolExecutor(1) as threads:
        with workers.working_at("deadly", "second"), workers.working_at("third", "second"):
            ending = threads.submit(work_beside)
            assert not begun.wait(0.5), "it waits for its turn, and the third job for none"
        assert not ending.result()


def test_a_worker_that_stops_in_order_does_not_die_over_its_jobs(workers: Workers) -> None:
    for name in ("first", "second"):
        workers.dies_over("plan", name, in_order=True)
    with workers.working_at("plan", "third") as is_fatal:
        assert not is_fatal


def test_without_redis_no_job_is_fatal() -> None:
    with UnfinishedJobs("redis://127.0.0.1:9/0", "first").working_at("plan") as is_fatal:
        assert not is_fatal
