"""Routes are counted as they change: whatever writes them, whatever is rolled back and whatever is summed up
meanwhile, the counts are those of the routes.
"""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.database.connections import Connection, Database, Tenant
from domain.ids import new_id
from domain.lifecycle import RouteStatus
from domain.routes.reading.counts import COUNTED_COLUMNS, fold, reconcile
from tests.conftest import own_database
from tests.factories import Fleet, make_fleet
from tests.repeatable import examples

MIDNIGHT = datetime(2026, 1, 2, tzinfo=UTC)
STATUSES = [RouteStatus.PENDING, RouteStatus.DRAFT, RouteStatus.COMPLETED]

_COUNTED_AND_REAL = f"""
    WITH counted AS (
        SELECT company_id, environment, status, day, sum(routes) AS routes FROM {COUNTED_COLUMNS} AS parts
        GROUP BY 1, 2, 3, 4 HAVING sum(routes) <> 0
    ), real AS (
        SELECT company_id, environment, status, date_trunc('day', scheduled_start, 'UTC'), count(*)
        FROM routes GROUP BY 1, 2, 3, 4)
    SELECT (SELECT array_agg(counted ORDER BY counted) FROM counted)::text,
           (SELECT array_agg(real ORDER BY real) FROM real)::text
"""


def counted_and_real(connection: Connection) -> tuple[Any, ...]:
    """The counts and the routes themselves, as of one moment."""
    row = connection.execute(_COUNTED_AND_REAL).fetchone()
    assert row is not None
    return row


def assert_exact(connection: Connection) -> None:
    counted, real = counted_and_real(connection)
    assert counted == real


def count_of(connection: Connection, table: str) -> int:
    row = connection.execute(f"SELECT coalesce(sum(routes), 0), count(*) FROM {table}").fetchone()
    assert row is not None
    return int(row[1])


def insert(connection: Connection, tenant: Tenant, *routes: tuple[RouteStatus, datetime]) -> list[UUID]:
    """All in one statement."""
    ids = [new_id() for _ in routes]
    connection.execute(
        "INSERT INTO routes (id, company_id, environment, external_id, scheduled_start, stops, status)"
        " SELECT id, %s, %s, id, start, '[]', status"
        " FROM unnest(%s::uuid[], %s::timestamptz[], %s::text[]) AS pushed (id, start, status)",
        (*tenant, ids, [start for _, start in routes], [str(status) for status, _ in routes]),
    )
    return ids


routes = st.tuples(
    st.sampled_from(STATUSES),
    st.sampled_from([-1, 0, 1, 86_399_999_999, 86_400_000_000]).map(
        lambda microseconds: MIDNIGHT + timedelta(microseconds=microseconds)
    ),
)
places = st.lists(st.integers(0, 20), max_size=4)
"""Numbers of stored routes."""
steps = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.booleans(), st.lists(routes, max_size=4)),
        st.tuples(st.just("update"), places, routes),
        st.tuples(st.just("delete"), places),
        st.tuples(st.just("fold"), st.integers(0, 4)),
        st.tuples(st.just("undone"), places),
        st.tuples(st.just("mend")),
    ),
    max_size=12,
)


@given(steps=steps)
@hypothesis_settings(max_examples=examples(75), deadline=None)
def test_every_statement_is_counted(database: Database, steps: list[Any]) -> None:
    """Inserts, updates of status and start, deletes, what is rolled back to a savepoint; summed up in any portions."""
    with database.transaction() as connection:
        fleet, ids = make_fleet(connection), list[UUID]()
        for step in steps:
            match step:
                case "insert", sandbox, pushed:
                    ids += insert(connection, fleet.sandbox if sandbox else fleet.live, *pushed)
                case "update", numbers, (status, start):
                    connection.execute(
                        "UPDATE routes SET status = %s, scheduled_start = %s, attempts = attempts + 1"
                        " WHERE id = ANY(%s)",
                        (status, start, [ids[number] for number in numbers if number < len(ids)]),
                    )
                case "delete", numbers:
                    gone = [ids[number] for number in numbers if number < len(ids)]
                    connection.execute("DELETE FROM routes WHERE id = ANY(%s)", (gone,))
                    ids = [one for one in ids if one not in gone]
                case "fold", limit:
                    assert fold(connection, limit=limit) <= limit
                case "undone", numbers:
                    with connection.transaction(force_rollback=True):
                        insert(connection, fleet.live, *[(STATUSES[0], MIDNIGHT)] * len(numbers))
                        connection.execute("UPDATE routes SET status = 'error' WHERE id = ANY(%s)", (ids,))
                case _:
                    assert reconcile(connection) == []
            assert_exact(connection)
        raise psycopg.Rollback


def test_an_empty_table_has_no_counts(fleet: Fleet, connection: Connection) -> None:
    insert(connection, fleet.live, *[(STATUSES[0], MIDNIGHT)] * 3)
    fold(connection, limit=100)
    insert(connection, fleet.live, (STATUSES[1], MIDNIGHT))

    connection.execute("TRUNCATE routes CASCADE")

    assert (count_of(connection, "route_counts"), count_of(connection, "route_count_deltas")) == (0, 0)


@pytest.fixture(scope="module")
def alone() -> Iterator[Database]:
    with own_database("counts") as opened:
        yield opened


@pytest.fixture
def company(alone: Database) -> Fleet:
    with alone.transaction() as connection:
        connection.execute("TRUNCATE companies CASCADE")
        return make_fleet(connection)


COMPARISONS = 20
WRITERS, FOLDERS = 4, 2


def change_until(stop: threading.Event, database: Database, company: Fleet, seed: int) -> int:
    """Insert, change and delete routes, and roll some of it back, at least a few times. Gives the number of commits."""
    chance, done = random.Random(seed), 0
    while done < 4 or not stop.is_set():
        with database.transaction() as connection:
            tenant = chance.choice([company.live, company.sandbox])
            new = [(chance.choice(STATUSES), MIDNIGHT + timedelta(hours=chance.randrange(72))) for _ in range(9)]
            insert(connection, tenant, *new)
            connection.execute(
                "WITH chosen AS MATERIALIZED (SELECT id FROM routes LIMIT 20 OFFSET %s FOR UPDATE SKIP LOCKED)"
                " UPDATE routes r SET status = %s, scheduled_start = scheduled_start + interval '7 h'"
                " FROM chosen WHERE r.id = chosen.id",
                (chance.randrange(200), chance.choice(STATUSES)),
            )
            connection.execute(
                "WITH chosen AS MATERIALIZED (SELECT id FROM routes LIMIT 8 OFFSET %s FOR UPDATE SKIP LOCKED)"
                " DELETE FROM routes r USING chosen WHERE r.id = chosen.id",
                (chance.randrange(50),),
            )
            if chance.random() < 0.3:
                raise psycopg.Rollback
            done += 1
    return done


def fold_until(stop: threading.Event, database: Database) -> int:
    """Sum up the changes of counts. Gives how many were summed up."""
    folded = 0
    while not stop.is_set():
        with database.transaction() as connection:
            folded += fold(connection, limit=7)
    return folded


def compare(database: Database) -> None:
    """Compare the counts with the routes, and find them exact."""
    for _ in range(COMPARISONS):
        with database.transaction() as connection:
            assert reconcile(connection) == []
        with database.transaction() as connection:
            assert_exact(connection)


def test_counts_are_exact_at_every_moment_among_writers_who_commit_and_roll_back(
    alone: Database, company: Fleet
) -> None:
    stop = threading.Event()
    with ThreadPoolExecutor(WRITERS + FOLDERS) as threads:
        writers = [threads.submit(change_until, stop, alone, company, seed) for seed in range(WRITERS)]
        folders = [threads.submit(fold_until, stop, alone) for _ in range(FOLDERS)]
        try:
            compare(alone)
        finally:
            stop.set()
    assert min(writer.result() for writer in writers) > 3
    assert sum(folder.result() for folder in folders) > 0

    with alone.transaction() as connection:
        while fold(connection, limit=100):
            pass
        assert count_of(connection, "route_count_deltas") == 0
        assert_exact(connection)


def test_writers_of_the_same_count_do_not_wait_for_one_another(alone: Database, company: Fleet) -> None:
    with alone.transaction() as one:
        insert(one, company.live, (STATUSES[0], MIDNIGHT))
        with alone.transaction() as other:
            other.execute("SET LOCAL lock_timeout = '100ms'")
            insert(other, company.live, (STATUSES[0], MIDNIGHT))
            fold(other, limit=100)

    with alone.transaction() as connection:
        assert_exact(connection)


def test_a_wrong_count_is_found_and_corrected(alone: Database, company: Fleet) -> None:
    """Whatever went wrong: a count that was changed, one that is missing, routes that were loaded without triggers."""
    with alone.transaction() as connection:
        kept = insert(connection, company.live, *[(STATUSES[0], MIDNIGHT)] * 3, (STATUSES[1], MIDNIGHT))
        fold(connection, limit=100)
        insert(connection, company.sandbox, (STATUSES[0], MIDNIGHT))
        assert reconcile(connection) == []

        connection.execute("UPDATE route_counts SET routes = routes + 5 WHERE status = %s", (STATUSES[0],))
        connection.execute("DELETE FROM route_counts WHERE status = %s", (STATUSES[1],))
        connection.execute("ALTER TABLE routes DISABLE TRIGGER USER")
        connection.execute("UPDATE routes SET status = %s WHERE id = %s", (STATUSES[2], kept[0]))
        connection.execute("ALTER TABLE routes ENABLE TRIGGER USER")
        differences = reconcile(connection)

        assert [(*one[:2], one.status, one.routes) for one in differences] == sorted(
            [
                (*company.live, STATUSES[0], -6),
                (*company.live, STATUSES[1], 1),
                (*company.live, STATUSES[2], 1),
            ]
        )
        assert_exact(connection)
        assert reconcile(connection) == []


def test_counts_that_became_zero_are_deleted(alone: Database, company: Fleet) -> None:
    with alone.transaction() as connection:
        ids = insert(connection, company.live, *[(status, MIDNIGHT) for status in STATUSES])
        fold(connection, limit=100)
        connection.execute("UPDATE routes SET status = 'draft' WHERE id = ANY(%s)", (ids,))
        fold(connection, limit=100)
        assert count_of(connection, "route_counts") == 3

        assert reconcile(connection) == []

        assert count_of(connection, "route_counts") == 1
        assert_exact(connection)


def test_one_of_two_concurrent_reconciliations_waits(alone: Database, company: Fleet) -> None:
    """Both would find the same difference and add it twice if neither waited."""
    with alone.transaction() as connection:
        insert(connection, company.live, (STATUSES[0], MIDNIGHT))
        connection.execute("DELETE FROM route_count_deltas")

    with ThreadPoolExecutor(1) as thread, alone.transaction() as first:
        assert len(reconcile(first)) == 1

        def mend_as_well() -> int:
            with alone.transaction() as second:
                return len(reconcile(second))

        waiting = thread.submit(mend_as_well)
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.3)
    assert waiting.result() == 0
    with alone.transaction() as connection:
        assert_exact(connection)
