"""One of many schedulers leads, for exactly as long as its session with the database lives."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import psycopg
import pytest

from domain.database.connections import LEADER_LOCKS
from scheduler.leader import Leadership, LeadershipLost
from tests.conftest import make_database
from tests.rows import named
from tests.service import eventually


@pytest.fixture(scope="module")
def database_url(settings: object) -> str:
    """A database where no other scheduler runs."""
    return make_database("leader")


@pytest.fixture
def candidate(database_url: str) -> Iterator[Callable[[], Leadership]]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(Leadership(database_url)))
    with psycopg.connect(database_url, autocommit=True) as connection:  # a session keeps its lock until it has ended
        query = f"SELECT pid {_LEADERS}"
        eventually(lambda: connection.execute(query, (LEADER_LOCKS,)).fetchall(), lambda pids: not pids)


_LEADERS = (
    "FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
    " WHERE l.locktype = 'advisory' AND l.classid = %s AND d.datname = current_database()"
)


def end_leader_s_session(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        ended = named(connection).execute(f"SELECT pg_terminate_backend(pid) {_LEADERS}", (LEADER_LOCKS,)).fetchall()
    assert ended == [(True,)]


def test_one_of_two_schedulers_leads(candidate: Callable[[], Leadership]) -> None:
    one, other = candidate(), candidate()

    assert one.try_to_lead()
    assert not other.try_to_lead()
    one.check()
    with pytest.raises(LeadershipLost):
        other.check()


def test_another_scheduler_leads_when_the_leader_stops(candidate: Callable[[], Leadership]) -> None:
    one, other = candidate(), candidate()
    assert one.try_to_lead()

    one.close()

    assert eventually(other.try_to_lead, lambda leads: leads)
    other.check()


def test_a_leader_whose_connection_is_ended_learns_that_it_lost_the_lead(
    candidate: Callable[[], Leadership], database_url: str
) -> None:
    one, other = candidate(), candidate()
    assert one.try_to_lead()

    end_leader_s_session(database_url)

    with pytest.raises(LeadershipLost):
        one.check()
    assert eventually(other.try_to_lead, lambda leads: leads)
    with pytest.raises(LeadershipLost):
        one.check()


def test_a_scheduler_without_the_lead_cannot_lose_it(candidate: Callable[[], Leadership]) -> None:
    with pytest.raises(LeadershipLost, match="not held"):
        candidate().check()


@pytest.mark.parametrize(
    "lock", [f"{LEADER_LOCKS}", f"{LEADER_LOCKS}, 1", f"{LEADER_LOCKS + 1}, 0", f"{LEADER_LOCKS}::bigint << 32"]
)
def test_another_advisory_lock_is_not_the_lead(
    candidate: Callable[[], Leadership], database_url: str, lock: str
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"SELECT pg_advisory_lock({lock})")
        assert candidate().try_to_lead()
