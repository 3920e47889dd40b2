"""Positions are kept by day, and removed by day."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

from domain.database.connections import Connection
from domain.telematics import position_partitions
from tests.conftest import own_database
from tests.domain.helpers import positions_at, post
from tests.factories import JOLIET, Fleet, make_fleet
from tests.rows import named
from tests.service import eventually


def partitions_of(connection: Connection, fleet: Fleet) -> list[str]:
    """The partition of each fix of truck 101, in order of time."""
    rows = (
        named(connection)
        .execute(
            "SELECT tableoid::regclass::text AS name FROM positions WHERE vehicle_id = %s ORDER BY recorded_at",
            (fleet.trucks[0],),
        )
        .fetchall()
    )
    return [row.name for row in rows]


def test_positions_are_kept_by_day_and_dropped_after_the_retention(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    def keep(days_later: float) -> int:
        later = now + timedelta(days=days_later)
        removed = position_partitions.maintain_partitions(connection, retention_days=30, now=later)
        position_partitions.forget_positions(connection, days=30, now=later, limit=1_000_000)  # other tests', too
        return removed

    keep(0)
    for days in (-31, -29, 0, 7, 8):
        at = now + timedelta(days=days)
        post(connection, fleet.live, positions_at(JOLIET, at, count=1), now=at)
    post(connection, fleet.sandbox, positions_at(JOLIET, now, count=1), now=now)
    today, in_a_week, after = (f"positions_live_{now + timedelta(days=days):%Y%m%d}" for days in (0, 7, 8))
    other, sandbox = "positions_live_other", "positions_sandbox"
    assert sorted(partitions_of(connection, fleet)) == sorted([other, other, today, in_a_week, other, sandbox])

    assert keep(1) == 0  # what came in before its day had a partition moves into it
    assert sorted(partitions_of(connection, fleet)) == sorted([other, today, in_a_week, after, sandbox])
    assert keep(31) in (1, 2)  # a database that was made before midnight has the day before too
    assert sorted(partitions_of(connection, fleet)) == sorted([in_a_week, after])
    assert keep(100) > 7
    assert partitions_of(connection, fleet) == []


def test_positions_of_a_day_whose_partition_is_being_made_wait_for_it(now: datetime) -> None:
    """The feed was answered with a 500 before it waited."""
    with own_database("partitions") as database:
        with database.transaction() as connection:
            fleet = make_fleet(connection)

        def post_one() -> None:
            with database.transaction() as connection:
                post(connection, fleet.live, positions_at(JOLIET, now, count=1), now=now)

        with ThreadPoolExecutor(1) as threads:
            with database.transaction() as connection:
                position_partitions.maintain_partitions(connection, retention_days=30, now=now)
                posted = threads.submit(post_one)
                eventually(lambda: connection.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount, bool)
            posted.result()
        with database.transaction() as connection:
            assert partitions_of(connection, fleet) == [f"positions_live_{now:%Y%m%d}"]


def test_positions_that_move_into_the_partition_of_their_day_are_read_all_the_time(now: datetime) -> None:
    """A reader that knew the partitions from before looked in the one that the positions had left: a worker found no
    fix of a truck, and took its arrival for processed."""
    with own_database("moving_positions") as database:
        with database.transaction() as connection:
            fleet = make_fleet(connection)
            post(connection, fleet.live, positions_at(JOLIET, now, count=1), now=now)
        with ThreadPoolExecutor(1) as threads, database.transaction() as reading:
            with database.transaction() as connection:
                position_partitions.maintain_partitions(connection, retention_days=30, now=now)
                read = threads.submit(partitions_of, reading, fleet)
                eventually(lambda: connection.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount, bool)
            assert read.result() == [f"positions_live_{now:%Y%m%d}"]
