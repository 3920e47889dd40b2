"""The arrivals worker around the rule: many trucks in one transaction, and when it fails, each on its own."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from domain.database.connections import Database
from domain.queue.job_queue import JobQueue
from domain.settings import Settings
from domain.telematics.tracks import lost_processing
from tests.conftest import make_database
from tests.domain.helpers import imported, positions_at, post, refusing, visits_of
from tests.factories import JOLIET, Fleet, make_fleet
from tests.jobs import jobs_of
from workers.arrivals import process_batch
from workers.context import Context


@pytest.fixture(scope="module")
def undisturbed(settings: Settings) -> Settings:
    """A database of its own: the sweep of no running service processes these trucks."""
    return settings.model_copy(update={"database_url": make_database("arrivals")})


@pytest.fixture
def context(undisturbed: Settings, jobs: JobQueue) -> Iterator[Context]:
    with Database.of(undisturbed, put_jobs=jobs.put) as database:
        yield Context(undisturbed, database, jobs)


def test_a_failing_truck_stops_no_other_in_its_batch(context: Context, now: datetime) -> None:
    bad = f"BAD-{uuid4().hex}"
    fleet, (refused, sound) = _two_arriving(context, now, externalId=bad)

    with refusing(context.database, "UPDATE", f"NEW.external_id = '{bad}'"):
        process_batch(context, "live", list(fleet.trucks))
        assert context.jobs.backlog("arrivals") == 2
        process_batch(context, "live", [fleet.trucks[0]])
        process_batch(context, "live", [fleet.trucks[1]])

    assert context.jobs.backlog("plans") == 1
    with context.database.transaction() as connection:
        assert visits_of(connection, refused) == {}
        assert visits_of(connection, sound) == {0: (now, None)}
        due = [lost_processing(connection, now=now + timedelta(seconds=seconds)) for seconds in (60, 90)]
    assert [fleet.trucks[0] in lost.get(("live", fleet.company_id), []) for lost in due] == [False, True]


def test_a_truck_whose_route_is_locked_is_processed_when_it_is_free(context: Context, now: datetime) -> None:
    fleet, (held, free) = _two_arriving(context, now)

    with context.database.transaction() as holder:
        holder.execute("SELECT FROM routes WHERE id = %s FOR UPDATE", (held,))
        process_batch(context, "live", list(fleet.trucks))
        assert context.jobs.backlog("arrivals") == 2
        process_batch(context, "live", [fleet.trucks[1]])
        with pytest.raises(psycopg.errors.LockNotAvailable):
            process_batch(context, "live", [fleet.trucks[0]])

    with context.database.transaction() as connection:
        assert (visits_of(connection, held), visits_of(connection, free)) == ({}, {0: (now, None)})
    process_batch(context, "live", [fleet.trucks[0]])
    with context.database.transaction() as connection:
        assert visits_of(connection, held) == {0: (now, None)}


def test_a_job_without_a_database_fails_at_once_and_not_truck_by_truck(context: Context, settings: Settings) -> None:
    nowhere = Database("postgresql://postgres@127.0.0.1:9/nowhere", timeout_seconds=0.2)
    with nowhere, pytest.raises(psycopg.OperationalError):
        process_batch(Context(settings, nowhere, context.jobs), "live", [uuid4() for _ in range(1000)])
    assert context.jobs.backlog("arrivals") == 0


def _two_arriving(context: Context, now: datetime, **first: Any) -> tuple[Fleet, tuple[UUID, UUID]]:
    """A fleet whose trucks have posted that they stand at the first stops of their drafts."""
    with context.database.transaction() as connection:
        fleet = make_fleet(connection)
        routes = (
            imported(connection, fleet.live, now=now, **first),
            imported(connection, fleet.live, now=now, vehicle={"unitNumber": "102"}),
        )
        for unit_number in ("101", "102"):
            post(connection, fleet.live, positions_at(JOLIET, now, unit_number=unit_number), now=now)
        jobs_of(connection)
    return fleet, routes
