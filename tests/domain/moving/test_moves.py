"""A company moves to another cell with every row. It is never at work in both, and each step can be given again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

import psycopg
import pytest

from domain import clock
from domain.accounts.companies import set_policy
from domain.accounts.keys import PresentedKey, create_key, find_callers
from domain.accounts.policy import Policy
from domain.accounts.users import create_user
from domain.database import fence
from domain.database.fence import MovedCompany, is_key_of_paused
from domain.database.visibility import EVERYTHING
from domain.housekeeping.erasure import erase_company
from domain.ids import new_id
from domain.lifecycle import Environment, Role
from domain.moving import comparison, move, replication
from domain.moving.move import CannotMove
from domain.moving.moved_tables import STAY_BEHIND, moved_tables
from domain.moving.pause import PauseTooLong
from domain.moving.readiness import NotReady
from tests.domain.moving.conftest import Cells, count
from tests.domain.planted import TABLES, WALLED, Planted
from tests.factories import DOT

OF_COMPANY = [name for name in WALLED if "company_id" in TABLES[name].c or name == "companies"]
CARRIED = [table.name for table in moved_tables()]


@contextmanager
def planted_in(cells: Cells) -> Iterator[tuple[UUID, ...]]:
    """Two companies of the first cell with a row in every table, in both environments; erased at the end."""
    with cells.owner[1].transaction() as connection:
        planted = Planted(connection)
        connection.execute("UPDATE csv_imports SET finished_at = now()")
        connection.execute(
            "UPDATE positions p SET recorded_at = now() - interval '1 minute', received_at = now(), vehicle_id = v.id"
            " FROM vehicles v WHERE v.company_id = p.company_id"
        )
        connection.execute("UPDATE request_log r SET key_id = k.id FROM api_keys k WHERE k.company_id = r.company_id")
    yield planted.companies
    with suppress(CannotMove), cells.moving(planted.companies[0]) as company_move:
        company_move.cancel(lambda _: None)
    for cell in (1, 2):
        for company_id in planted.companies:
            with cells.owner[cell].transaction() as connection:
                connection.execute("DELETE FROM company_moves WHERE company_id = %s", (company_id,))
                there = count(connection, "companies", company_id)
            if there:
                erase_company(cells.owner[cell].transaction, company_id, now=clock.now())


@pytest.fixture
def companies(cells: Cells) -> Iterator[tuple[UUID, ...]]:
    with planted_in(cells) as both:
        yield both


@pytest.fixture
def company(companies: tuple[UUID, ...]) -> UUID:
    return companies[0]


def rows_of(cells: Cells, cell: int, company_id: UUID) -> dict[str, int]:
    with cells.owner[cell].transaction() as connection:
        return {name: count(connection, name, company_id) for name in OF_COMPANY if name != "sessions"}


def test_every_table_of_a_company_is_carried_or_stays_behind_for_a_reason() -> None:
    assert set(CARRIED) | set(STAY_BEHIND) == set(OF_COMPANY) | {"company_moves"}
    assert not set(CARRIED) & set(STAY_BEHIND)
    assert all(table.found_by is not None for table in moved_tables() if table.only_grows)


class Moved(NamedTuple):
    """A company that has moved, another one that has not, and the rows before: a test that changes nothing looks at
    what came of it."""

    company_id: UUID
    other: UUID
    rows_before: dict[str, int]


@pytest.fixture(scope="module")
def moved(cells: Cells) -> Iterator[Moved]:
    with planted_in(cells) as (company_id, other):
        with cells.owner[1].transaction() as connection:
            connection.execute("SELECT setval(pg_get_serial_sequence('webhook_deliveries', 'number'), 5000)")
            connection.execute("UPDATE webhook_deliveries SET number = DEFAULT WHERE company_id = %s", (company_id,))
            connection.execute("ALTER TABLE routes DISABLE TRIGGER note_change_of_route")
            connection.execute("UPDATE routes SET changed_in = 7 WHERE company_id = %s", (company_id,))
            connection.execute("ALTER TABLE routes ENABLE TRIGGER note_change_of_route")
        before = rows_of(cells, 1, company_id)
        cells.move(company_id)
        yield Moved(company_id, other, before)


def test_a_company_moves_with_every_row_and_no_other(cells: Cells, moved: Moved) -> None:
    company_id, other, before = moved
    after = rows_of(cells, 2, company_id)
    expected = before | {
        "route_count_deltas": 0,
        "last_writes": 0,
        "audit_log": after["audit_log"],
    }  # counts are summed up
    expected["route_counts"] = after["route_counts"]
    assert after == expected
    assert set(rows_of(cells, 2, other).values()) == {0}
    assert cells.routes_seen(1, company_id) == 0
    assert cells.routes_seen(1, other) == 2
    assert cells.routes_seen(2, company_id) == 2


def test_nothing_of_the_replication_is_left(cells: Cells, moved: Moved) -> None:
    for cell in (1, 2):
        with cells.owner[cell].transaction() as connection:
            left = connection.execute(
                "SELECT pubname FROM pg_publication UNION ALL SELECT slot_name FROM pg_replication_slots UNION ALL"
                " SELECT relname FROM pg_class WHERE relreplident = 'f' AND relnamespace = 'public'::regnamespace"
            ).fetchall()
        assert left == []


def test_webhooks_go_on_after_the_numbers_that_came_along(cells: Cells, moved: Moved) -> None:
    with cells.owner[2].transaction() as connection:
        rows = connection.execute(
            "SELECT max(number) > 5000, max(number) < nextval(pg_get_serial_sequence('webhook_deliveries', 'number'))"
            " FROM webhook_deliveries WHERE company_id = %s",
            (moved.company_id,),
        ).fetchall()
    assert rows == [(True, True)]


def test_routes_that_came_along_are_changes_of_this_cell(cells: Cells, moved: Moved) -> None:
    """Each cell counts its own transactions: a list of changes in the other cell must not miss them."""
    with cells.owner[2].transaction() as connection:
        rows = connection.execute(
            "SELECT bool_and(changed_in > 7 AND changed_in < pg_current_xact_id()::text::int8) FROM routes"
            " WHERE company_id = %s",
            (moved.company_id,),
        ).fetchall()
    assert rows == [(True,)]


def test_it_works_here_and_is_not_seen_there_while_it_is_copied(cells: Cells, company: UUID) -> None:
    with cells.moving(company) as company_move:
        company_move.copy()

        assert cells.routes_seen(1, company) == 2
        assert cells.routes_seen(2, company) == 0
        with cells.service[1].transaction(EVERYTHING) as connection:
            connection.execute(
                "UPDATE routes SET external_id = 'changed ' || external_id WHERE company_id = %s", (company,)
            )
            connection.execute("DELETE FROM mappings WHERE company_id = %s", (company,))
            connection.execute("UPDATE positions SET implausible = NOT implausible WHERE company_id = %s", (company,))
        with cells.owner[2].transaction() as connection, pytest.raises(MovedCompany, match="comes from cell 1"):
            set_policy(connection, company, Policy(name="Other"), DOT)
        rows = company_move.run(longest_pause_seconds=600).rows

    assert rows is not None
    assert rows["mappings"] == 0
    with cells.service[2].transaction(EVERYTHING) as connection:
        changed = connection.execute(
            "SELECT count(*) FROM routes WHERE company_id = %s AND starts_with(external_id, 'changed ')", (company,)
        ).fetchall()
        flagged = connection.execute("SELECT implausible FROM positions WHERE company_id = %s", (company,)).fetchall()
    assert changed == [(2,)]
    assert flagged == [(True,), (True,)]


STEPS = [
    (fence, "begin_copying"),
    (replication, "publish_growing"),
    (replication, "subscribe"),
    (replication, "publish_changing"),
    (replication, "subscribe_to_changes"),
    (move, "carry_flags"),
    (fence, "pause_company"),
    (fence, "close_fence"),
    (move, "write_unreplicated_rows"),
    (move, "compare"),
    (fence, "leave_cell"),
    (replication, "unsubscribe"),
    (move, "forget_erasure"),
    (fence, "open_fence"),
    (replication, "end_publishing"),
]


class Died(Exception):
    """The command was killed here."""


def test_a_command_that_died_is_given_again(cells: Cells, company: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    """It dies after each step in turn: given again, it repeats the step after which it died, and gets one step further.
    In the end it is left alone."""
    for module, step in STEPS:
        with monkeypatch.context() as patched:
            patched.setattr(module, step, dying_after(getattr(module, step)))
            patched.setattr(fence, "resume_company", lambda *_: None)  # what is killed tidies nothing up
            with pytest.raises(Died):
                cells.move(company)
        seen = (cells.routes_seen(1, company), cells.routes_seen(2, company))
        assert not all(seen), f"at work in both cells after {step}"

    with cells.moving(company) as company_move:
        company_move.run(longest_pause_seconds=600)

    assert (cells.routes_seen(1, company), cells.routes_seen(2, company)) == (0, 2)


def dying_after(step: Callable[..., object]) -> Callable[..., None]:
    def dies(*arguments: object, **named: object) -> None:
        step(*arguments, **named)
        raise Died

    return dies


def test_a_pause_ends_by_itself(cells: Cells, company: UUID) -> None:
    with cells.owner[1].transaction() as connection:
        key = create_key(connection, company, DOT, name="TMS", environment=Environment.LIVE, scopes=[])
        fence.begin_copying(connection, company, to_cell=2)
        fence.pause_company(connection, company, holds=timedelta(seconds=60))
    presented = PresentedKey.of(key.key)
    with cells.service[1].transaction(EVERYTHING) as connection:
        assert find_callers([presented]).on(connection) == [None]
        assert is_key_of_paused(presented.hash).on(connection)
        assert not is_key_of_paused(b"another").on(connection)
    assert cells.routes_seen(1, company) == 2  # what is under way goes on

    with cells.owner[1].transaction() as connection:
        connection.execute("UPDATE company_moves SET holds_until = now() WHERE company_id = %s", (company,))

    with cells.service[1].transaction(EVERYTHING) as connection:
        assert find_callers([presented]).on(connection) != [None]
        assert not is_key_of_paused(presented.hash).on(connection)
    with cells.owner[1].transaction() as connection, pytest.raises(fence.PauseOver):
        fence.close_fence(connection, company)


def test_a_message_that_is_being_sent_keeps_the_company_here(cells: Cells, company: UUID) -> None:
    with cells.owner[1].transaction() as connection:
        connection.execute(
            "UPDATE messages SET status = 'pending', claimed_until = now() + interval '1 hour'"
            " WHERE company_id = %s AND environment = 'live'",
            (company,),
        )

    with cells.moving(company) as company_move, pytest.raises(PauseTooLong, match="1 messages"):
        company_move.run(longest_pause_seconds=4)

    assert (cells.routes_seen(1, company), cells.routes_seen(2, company)) == (2, 0)


def test_a_transaction_that_began_before_is_waited_for(cells: Cells, company: UUID) -> None:
    with cells.moving(company) as company_move:
        company_move.copy()
        with cells.service[1].transaction(EVERYTHING) as connection:
            connection.execute("UPDATE routes SET reference = 'late' WHERE company_id = %s", (company,))
            with pytest.raises(PauseTooLong, match="a transaction of process"):
                company_move.switch(4)

    assert cells.move(company)["routes"] == 2


def test_rows_that_differ_keep_the_company_here(cells: Cells, company: UUID) -> None:
    with cells.moving(company) as company_move:
        company_move.copy()
        with cells.owner[2].transaction() as connection:
            connection.execute("UPDATE drivers SET name = 'Somebody else' WHERE company_id = %s", (company,))
        with pytest.raises(comparison.RowsDiffer, match="drivers"):
            company_move.run(longest_pause_seconds=600)

    assert (cells.routes_seen(1, company), cells.routes_seen(2, company)) == (2, 0)


def test_a_canceled_move_leaves_nothing_there(cells: Cells, company: UUID) -> None:
    with cells.moving(company) as company_move:
        company_move.copy()
        company_move.cancel(lambda _: None)

        assert cells.routes_seen(1, company) == 2
        assert set(rows_of(cells, 2, company).values()) == {0}
        with pytest.raises(CannotMove, match="nothing to cancel"):
            company_move.cancel(lambda _: None)

    assert cells.move(company)["routes"] == 2


def test_what_is_at_work_there_is_never_erased(cells: Cells, company: UUID) -> None:
    """A database_url may be that of another set-up, or somebody has meddled with rows."""
    with cells.moving(company) as company_move:
        company_move.copy()
        with cells.owner[2].transaction() as connection:
            fence.open_fence(connection, company)
        with pytest.raises(CannotMove, match="at work in cell 2"):
            company_move.cancel(lambda _: None)
        with cells.owner[2].transaction() as connection:
            fence.expect_arrival(connection, company, from_cell=1)
        company_move.switch(20)
        company_move.finish()
    nowhere = cells._replace(second=cells.first._replace(number=2))
    with nowhere.moving(new_id()) as company_move, pytest.raises(CannotMove, match="does not have the company"):
        company_move.finish()
    assert cells.routes_seen(2, company) == 2


def test_a_company_comes_back(cells: Cells, company: UUID) -> None:
    cells.move(company)
    back = cells._replace(first=cells.second, second=cells.first)
    with back.moving(company) as company_move, pytest.raises(NotReady, match="has rows of the company already"):
        company_move.run(longest_pause_seconds=600)
    with cells.moving(company) as company_move:
        company_move.erase_source(lambda _: None)
    assert set(rows_of(cells, 1, company).values()) == {0}

    back.move(company)

    assert (cells.routes_seen(1, company), cells.routes_seen(2, company)) == (2, 0)
    with back.moving(company) as company_move:
        company_move.erase_source(lambda _: None)


def test_one_company_leaves_a_cell_at_a_time(cells: Cells, companies: tuple[UUID, ...]) -> None:
    with cells.moving(companies[0]), pytest.raises(CannotMove, match="another company"), cells.moving(companies[1]):
        pass


def test_a_company_that_cannot_arrive_is_told_why(cells: Cells, company: UUID) -> None:
    with cells.owner[1].transaction() as connection:
        create_user(connection, DOT, email="ann@example.com", role=Role.OWNER, company_id=company)
        connection.execute("UPDATE drivers SET contact = 'sealed:abcdef01:xyz' WHERE company_id = %s", (company,))
        connection.execute("UPDATE stations SET retail_price = 3, priced_at = now()")
    with cells.owner[2].transaction() as connection:
        create_user(connection, DOT, email="ann@example.com", role=Role.OPERATOR, company_id=None)
    try:
        with cells.moving(company) as company_move, pytest.raises(NotReady) as told:
            company_move.run(longest_pause_seconds=600)
    finally:
        with cells.owner[2].transaction() as connection:
            connection.execute("DELETE FROM users WHERE email = 'ann@example.com'")

    assert ["ann@example.com" in fault for fault in told.value.faults] == [True, False]
    assert "FUELROUTE_CONTACT_KEY" in told.value.faults[1]
    with cells.moving(new_id()) as nobody, pytest.raises(NotReady, match="no such company"):
        nobody.check()


def test_a_server_that_cannot_replicate_is_told(cells: Cells, company: UUID) -> None:
    """The service's own role owns its database and nothing else."""
    poor = cells._replace(first=cells.first._replace(database_url=cells.owner[1].url))
    with poor.moving(company) as company_move, pytest.raises(NotReady, match="superuser"):
        company_move.check()


def test_the_service_cannot_end_a_move(cells: Cells, company: UUID) -> None:
    with (
        cells.service[1].transaction(EVERYTHING) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("DELETE FROM company_moves")
