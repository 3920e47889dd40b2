"""Operations are measured with Redis and without."""

from datetime import datetime
from uuid import uuid4

import psycopg

from domain.database.connections import Connection, Database
from domain.needs.figures import FIGURES
from domain.operations.measurements import measure
from domain.queue.inspection import jobs_in
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import QUEUES, Job
from domain.queue.redis_clients import redis_client
from tests.conftest import make_database
from tests.dying import kill


def test_each_queue_is_measured(connection: Connection, jobs: JobQueue, now: datetime) -> None:
    kill(jobs, Job("plans.build", "plans", {"route_id": uuid4()}))
    jobs.put(Job("imports.run", "imports", {"route_ids": [uuid4()]}), Job("imports.run", "imports", {"route_ids": []}))

    seen = measure(connection, jobs.client, now=now)

    assert seen.queues is not None
    assert [state.queue for state in seen.queues] == list(QUEUES)
    states = {state.queue: state for state in seen.queues}
    assert (states["imports"].waiting, states["imports"].in_flight, states["plans"].dead) == (2, 0, 1)
    assert states["imports"].oldest_at is not None
    assert states["plans"].oldest_at is None
    assert len(jobs_in(jobs.client, "imports", "waiting", limit=1)) == 1
    assert set(seen.overdue) == set(FIGURES)


def test_overdue_work_is_counted_without_redis(connection: Connection, now: datetime) -> None:
    with redis_client("redis://127.0.0.1:1") as nobody:
        seen = measure(connection, nobody, now=now)
    assert (seen.queues, seen.workers, set(seen.overdue)) == (None, [], set(FIGURES))


def test_a_role_that_may_not_ask_for_the_identifier_of_the_server_measures_all_the_same(now: datetime) -> None:
    url = make_database("no_identifier")
    with psycopg.connect(url.replace("//fuelroute@", "//postgres@"), autocommit=True) as superuser:
        superuser.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")

    with (
        Database(url) as database,
        database.transaction() as connection,
        redis_client("redis://127.0.0.1:1") as nobody,
    ):
        seen = measure(connection, nobody, now=now)

    assert seen.database == ""
