"""Jobs of the queue of replays: each solves one portion and asks for the next, and the last one finishes. A process of
them alone gives way to everything else on its machine."""

import os
import signal
import sys
from datetime import timedelta
from multiprocessing.connection import Connection, Pipe
from typing import Any
from uuid import UUID

import pytest

from domain.database.connections import Database
from domain.queue.job_queue import JobQueue
from domain.queue.redis_clients import redis_client
from domain.queue.unfinished_jobs import UnfinishedJobs
from domain.replay import portions, replays
from domain.replay.driven_trips import DrivenTrip
from domain.replay.portions import results_of
from domain.replay.replays import REPLAYS, progress_of
from domain.replay.solving import Solved, TripOutcome
from domain.session_priority import GIVES_WAY, IN_A_HURRY, SessionPriority
from domain.settings import Settings
from domain.telemetry.health import Health
from tests.domain.planning.plans import NOW
from tests.domain.replay.driven import ask_for_replay
from tests.factories import make_fleet
from tests.forking import fork
from tests.workers.one_queue import Server
from workers import process
from workers.context import Context
from workers.replays import run_replay


def test_each_job_solves_a_portion_and_asks_for_the_next(
    database: Database, settings: Settings, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "PORTION_TRIPS", 1)
    context = Context(settings, database, queue)
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        replay_id = ask_for_replay(connection, fleet, now=NOW, trips=2)
    for solved, waiting in ((1, 1), (2, 2), (2, 2)):
        run_replay(context, replay_id, 0, fleet.company_id)
        with database.transaction() as connection:
            assert progress_of(connection, replay_id).solved == solved
        assert queue.length("replays").waiting == waiting, "no job is asked for once none is left"
    with database.transaction() as connection:
        assert REPLAYS.find(connection, fleet.company_id, replay_id).status == "finished"


def test_a_trip_that_kills_its_worker_twice_is_left_out(
    database: Database, settings: Settings, server: Server, queue: JobQueue
) -> None:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        replay_id = ask_for_replay(connection, fleet, now=NOW, trips=3)
        query = "SELECT route_id FROM savings WHERE company_id = %s ORDER BY planned_at, route_id LIMIT 1 OFFSET 1"
        ((deadly,),) = connection.execute(query, (fleet.company_id,)).fetchall()
    exits = []
    for name in ("first", "second", "third"):
        worker = fork(_solve_until_dead, settings, server.url, name, replay_id, fleet.company_id, deadly)
        worker.join(180)
        exits.append(worker.exitcode)
    assert exits == [-signal.SIGKILL, -signal.SIGKILL, 0]
    with database.transaction() as connection:
        outcomes = [result.solved.outcome for result in results_of(connection, replay_id)]
        assert outcomes == [TripOutcome.COMPARED, TripOutcome.UNREADABLE, TripOutcome.COMPARED]
        assert REPLAYS.find(connection, fleet.company_id, replay_id).status == "finished"


def _solve_until_dead(
    settings: Settings, redis_url: str, name: str, replay_id: UUID, company_id: UUID, deadly: UUID
) -> None:
    """A worker that a trip of the replay kills, unless it is left out. No other one is at work on the portion."""
    solve = portions._solve

    def solve_or_die(trip: DrivenTrip, *arguments: Any, is_fatal: bool) -> Solved:
        if trip.route_id == deadly and not is_fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return solve(trip, *arguments, is_fatal=is_fatal)

    portions._solve = solve_or_die  # type: ignore[assignment]  # in this process alone
    portions._TAKEN = timedelta()
    with Database.of(settings) as database, redis_client(redis_url) as client:
        context = Context(settings, database, JobQueue(client), working_at=UnfinishedJobs(redis_url, name).working_at)
        for _ in range(2):
            run_replay(context, replay_id, 0, company_id)
    raise SystemExit(0)


def test_the_session_of_a_process_of_replays_alone_becomes_nice_once_the_kernel_allows_it(settings: Settings) -> None:
    asked, telling = Pipe(duplex=False)
    replays_alone = fork(_replays_alone, settings, telling)
    try:
        assert asked.poll(180)
        assert [asked.recv() for _ in range(3)] == [GIVES_WAY, GIVES_WAY, IN_A_HURRY], "its end is waited for"
    finally:
        replays_alone.join(180)
    assert replays_alone.exitcode == 0


def _replays_alone(settings: Settings, telling: Connection) -> None:
    """A process that stops itself after it has asked the kernel twice."""
    asked: list[int] = []

    def become(self: SessionPriority, niceness: int) -> bool:
        asked.append(niceness)
        telling.send(niceness)
        if len(asked) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return True

    SessionPriority.become = become  # type: ignore[method-assign]  # in this process alone
    os.setsid()
    raise SystemExit(process.run(settings, Health("workers"), ("replays",)))


def test_neither_other_processes_nor_the_session_of_a_shell_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    by: list[int] = []
    monkeypatch.setattr(os, "nice", by.append)
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)
    monkeypatch.setattr(os, "getsid", lambda _: os.getpid())
    assert process._give_way(("plans", "replays")) is None
    assert process._give_way(("plans",)) is None
    assert by == []

    monkeypatch.setattr(os, "getsid", lambda _: os.getppid())
    assert process._give_way(("replays",)) is None
    assert len(by) == 1, "the process itself gives way"
