"""The request log forgets: days go as a whole, a key has a bound, an erased company leaves nothing."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from domain.database.connections import Connection, Database
from domain.database.daily_partitions import DAYS_AHEAD
from domain.ids import new_id
from domain.requests.log import forget_requests, maintain_request_partitions
from tests.conftest import own_database
from tests.domain.requests.entries import entry_of, new_caller, store
from tests.factories import make_fleet

NOW = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def alone() -> Iterator[Database]:
    with own_database("requests") as database:
        yield database


@pytest.fixture
def connection(alone: Database, now: datetime) -> Iterator[Connection]:
    """A connection to a database in which no other test logs."""
    with alone.transaction() as connection:
        connection.execute("TRUNCATE request_log")
        yield connection


def places(connection: Connection) -> dict[str, int]:
    """The number of entries of each partition."""
    rows = connection.execute("SELECT tableoid::regclass::text, count(*) FROM request_log GROUP BY 1").fetchall()
    return dict(rows)


def partitions(connection: Connection) -> list[str]:
    rows = connection.execute(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'request_log'::regclass ORDER BY 1"
    ).fetchall()
    return [name for (name,) in rows]


def test_days_are_deleted_whole(connection: Connection) -> None:
    assert maintain_request_partitions(connection, days=7, now=NOW) == 0
    assert len(partitions(connection)) == DAYS_AHEAD + 1
    assert maintain_request_partitions(connection, days=7, now=NOW) == 0, "again is fine"
    caller = new_caller(connection, make_fleet(connection).company_id)
    tomorrow = NOW.replace(hour=0, minute=0) + timedelta(days=1)
    moments = [NOW, tomorrow - timedelta(milliseconds=1), tomorrow, tomorrow + timedelta(days=DAYS_AHEAD)]
    store(connection, [entry_of(caller=caller, at=moment) for moment in moments])
    assert places(connection) == {"request_log_other": 3, "request_log_20261123": 1}

    later = NOW + timedelta(days=8)
    assert maintain_request_partitions(connection, days=7, now=later) == 0
    assert maintain_request_partitions(connection, days=7, now=later + timedelta(days=1)) == 1
    assert places(connection) == {"request_log_other": 3}
    assert partitions(connection)[0] == "request_log_20261124"
    assert "request_log_20261130" not in partitions(connection), "nobody made it in time: that day's are in the other"

    def forget(limit: int) -> int:
        return forget_requests(connection, days=7, rows_per_key=1000, now=later, limit=limit)

    assert forget(1) == 1
    assert forget(10) == 1
    assert forget(10) == 0
    assert places(connection) == {"request_log_other": 1}


def test_the_newest_requests_of_a_key_are_kept(connection: Connection) -> None:
    company_id = make_fleet(connection).company_id
    busy, quiet = new_caller(connection, company_id), new_caller(connection, company_id)
    at = [NOW + timedelta(milliseconds=n) for n in range(50)]
    busy_ones = [entry_of(caller=busy, at=moment) for moment in at]
    store(connection, [*busy_ones, *(entry_of(caller=quiet, at=moment) for moment in at[:10])])

    def forget() -> int:
        return forget_requests(connection, days=7, rows_per_key=10, now=NOW, limit=25)

    assert [forget(), forget(), forget()] == [25, 15, 0]
    left = connection.execute("SELECT key_id, id FROM request_log ORDER BY id").fetchall()
    assert [id.hex for key_id, id in left if key_id == busy.key_id] == [one.id for one in busy_ones[-10:]]
    assert len(left) == 20


def test_entries_that_come_in_after_an_erasure_are_removed(connection: Connection) -> None:
    company_id: UUID = new_id()
    other = new_caller(connection, make_fleet(connection).company_id)
    store(connection, [entry_of(caller=other, at=NOW)])
    caller = other.__class__(new_id(), company_id, other.environment, other.scopes)
    store(connection, [entry_of(caller=caller, at=NOW)])
    connection.execute("INSERT INTO erasures (subject_id, erased_at) VALUES (%s, %s)", (company_id, NOW))

    assert forget_requests(connection, days=7, rows_per_key=1000, now=NOW, limit=10) == 1

    assert connection.execute("SELECT key_id FROM request_log").fetchall() == [(other.key_id,)]
