"""Jobs of the queue of replays: each solves one portion and asks for the next, and the last one finishes."""

import pytest

from domain.database.connections import Database
from domain.queue.job_queue import JobQueue
from domain.replay import replays
from domain.replay.replays import REPLAYS, progress_of
from domain.settings import Settings
from tests.domain.planning.plans import NOW
from tests.domain.replay.driven import ask_for_replay
from tests.factories import make_fleet
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
