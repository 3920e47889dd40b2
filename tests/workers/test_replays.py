"""Jobs of the queue of replays: each solves one portion and asks for the next, and the last one finishes. A process of
them alone gives way to everything else on its machine."""

import os
import signal
import sys
from multiprocessing.connection import Connection, Pipe

import pytest

from domain.database.connections import Database
from domain.queue.job_queue import JobQueue
from domain.replay import replays
from domain.replay.replays import REPLAYS, progress_of
from domain.session_priority import GIVES_WAY, IN_A_HURRY, SessionPriority
from domain.settings import Settings
from domain.telemetry.health import Health
from tests.domain.planning.plans import NOW
from tests.domain.replay.driven import ask_for_replay
from tests.factories import make_fleet
from tests.forking import fork
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
