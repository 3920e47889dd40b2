"""The pass that drives the sandbox: each company by itself, and the same with two leaders at once."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime

import psycopg

from domain.database.connections import Connection, Database
from scheduler.passes import Passes
from tests.domain.helpers import imported
from tests.factories import Fleet, make_fleet
from tests.rows import named
from tests.scheduler.jobs import Enqueued, in_transaction


def driven_companies(passes: Passes, now: datetime, count: int) -> list[Fleet]:
    def arrange(connection: Connection) -> list[Fleet]:
        fleets = [make_fleet(connection, sandbox_autodrive="60x") for _ in range(count)]
        for fleet in fleets:
            imported(connection, fleet.sandbox, now=now)
        return fleets

    fleets: list[Fleet] = in_transaction(passes, arrange)
    return fleets


def positions(passes: Passes) -> dict[object, int]:
    with passes.database.transaction() as connection:
        rows = named(connection).execute("SELECT company_id, count(*) AS n FROM positions GROUP BY 1").fetchall()
        return {row.company_id: row.n for row in rows}


def test_a_pass_drives_and_enqueues(passes: Passes, enqueued: Enqueued, now: datetime) -> None:
    (fleet,) = driven_companies(passes, now, 1)
    with Database.of(passes.settings, put_jobs=passes.jobs.put) as database:
        assert Passes(passes.settings, database, passes.jobs).autodrive() == {"drives_begun": 1}
    assert positions(passes) == {fleet.company_id: 10}
    ((name, payload),) = enqueued()
    assert (name, payload["environment"], payload["vehicle_ids"]) == (
        "arrivals.process",
        "sandbox",
        [fleet.trucks[0].hex],
    )


def test_a_company_that_fails_costs_the_others_nothing(passes: Passes, now: datetime) -> None:
    broken, *others = driven_companies(passes, now, 3)
    with passes.database.transaction() as connection:
        connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$"
        )
        connection.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON positions FOR EACH ROW"
            f" WHEN (NEW.company_id = '{broken.company_id}') EXECUTE FUNCTION refuse()"
        )
    try:
        passes.autodrive()
    finally:
        with passes.database.transaction() as connection:
            connection.execute("DROP FUNCTION refuse CASCADE")

    assert positions(passes) == {fleet.company_id: 10 for fleet in others}
    passes.autodrive()
    assert positions(passes)[broken.company_id] == 10, "its turn was not taken, so it is taken now"


def drives_begun(passes: Passes) -> int:
    """The drives that a pass of one of two leaders begins. It gives way where it waits too long for the other one."""
    with suppress(psycopg.errors.LockNotAvailable):
        return passes.autodrive()["drives_begun"]
    return 0


def test_two_leaders_at_once_drive_each_truck_once(passes: Passes, now: datetime) -> None:
    fleets = driven_companies(passes, now, 8)
    with ThreadPoolExecutor(2) as leaders:
        both = [leaders.submit(drives_begun, passes) for _ in range(2)]
    assert sum(one.result() for one in both) <= 8
    passes.autodrive()
    assert positions(passes) == {fleet.company_id: 10 for fleet in fleets}
