"""The pass that reads the roads of completed routes: each once, and none fails with another."""

import os
import signal
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from domain.database.connections import Database
from domain.driven_lanes import learning
from domain.driven_lanes.lanes import list_lanes
from domain.queue.job_queue import JobQueue
from domain.queue.redis_clients import redis_client
from domain.queue.unfinished_jobs import UnfinishedJobs
from domain.settings import Settings
from scheduler.passes import Passes
from tests.domain.driven_lanes.driving import QUICKEST, completed, fixes_along
from tests.factories import make_fleet
from tests.forking import fork


def test_the_pass_learns_each_road_once_and_gives_up_those_that_cannot_be_read(passes: Passes, now: datetime) -> None:
    with passes.database.transaction() as connection:
        connection.execute("TRUNCATE driven_lanes CASCADE")
        fleet = make_fleet(connection)
        days = [now - timedelta(days=days) for days in (9, 7, 5, 3)]
        good = [completed(connection, fleet, fleet.sandbox, fixes_along(QUICKEST, day)) for day in days[:3]]
        bad = completed(connection, fleet, fleet.sandbox, fixes_along(QUICKEST, days[3])[:2])
        late = completed(connection, fleet, fleet.live, fixes_along(QUICKEST, days[0]))
    assert passes.learn_roads() == {"roads_learned": 3, "roads_refused": 1}
    assert passes.learn_roads() == {"roads_learned": 0, "roads_refused": 0}

    with passes.database.transaction() as connection:
        (lane,) = list_lanes(connection, fleet.sandbox, limit=10)
        assert {trip["routeId"] for trip in lane.agreeing} == {str(one) for one in good}
        assert learning.read_trip(connection, bad) is None
        assert learning.read_trip(connection, late) is not None


@pytest.mark.slow
def test_a_trip_that_kills_two_schedulers_is_given_up(passes: Passes, quiet: Settings, now: datetime) -> None:
    with passes.database.transaction() as connection:
        connection.execute("TRUNCATE driven_lanes CASCADE")
        fleet = make_fleet(connection)
        days = [now - timedelta(days=days) for days in (9, 7, 5)]
        trips = [completed(connection, fleet, fleet.sandbox, fixes_along(QUICKEST, day)) for day in days]
    exits = []
    for name in ("first", "second", "third"):
        scheduler = fork(_learn_until_dead, quiet, name, trips[1])
        scheduler.join(180)
        exits.append(scheduler.exitcode)

    assert exits == [-signal.SIGKILL, -signal.SIGKILL, 0]
    with passes.database.transaction() as connection:
        assert learning.waiting_roads(connection, now=now, limit=10) == []
        (lane,) = list_lanes(connection, fleet.sandbox, limit=10)
        assert lane.kept == 2


def _learn_until_dead(settings: Settings, name: str, deadly: UUID) -> None:
    """A scheduler that the road of a trip kills, unless it is given up."""
    road_of = learning.road_of

    def learn_or_die(trip: learning.CompletedTrip, *more: Any) -> Any:
        if trip.route_id == deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return road_of(trip, *more)

    learning.road_of = learn_or_die  # type: ignore[assignment]  # in this process alone
    url = settings.require_redis_url()
    with Database.of(settings) as database, redis_client(url) as client:
        Passes(settings, database, JobQueue(client), working_at=UnfinishedJobs(url, name).working_at).learn_roads()
    raise SystemExit(0)
