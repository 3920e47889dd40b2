"""The fence is on every table of companies' data."""

from datetime import UTC, datetime, timedelta

import psycopg

from domain.database import fence
from domain.database.connections import Connection
from domain.settings import Settings
from tests.domain.planted import TABLES, WALLED
from tests.factories import Fleet

BY_USER = {"devices", "openid_proofs", "password_links", "recovery_codes", "sessions", "table_columns"}
"""Their policies ask that of users."""


def test_every_table_of_a_company_is_fenced_off(settings: Settings) -> None:
    """A new table is fenced off by its migration: `fence_off(table, not_fenced())`."""
    with psycopg.connect(settings.require_database_url()) as connection:
        fenced = connection.execute(
            "SELECT polrelid::regclass::text FROM pg_policy WHERE polname = 'fence' AND NOT polpermissive"
        ).fetchall()
    assert {name for (name,) in fenced} == set(WALLED) - BY_USER
    assert all("company_id" in TABLES[name].c or name == "companies" for name in set(WALLED) - BY_USER)


def test_housekeeping_waits_for_a_move_but_not_for_ever(connection: Connection, fleet: Fleet) -> None:
    now = datetime.now(UTC)
    fence.begin_copying(connection, fleet.company_id, to_cell=2)
    assert not fence.keeps_housekeeping_waiting(connection, now=now)
    fence.pause_company(connection, fleet.company_id, holds=timedelta(seconds=30))
    assert fence.keeps_housekeeping_waiting(connection, now=now)
    assert not fence.keeps_housekeeping_waiting(connection, now=now + timedelta(days=2))


def test_the_stages_follow_one_another(connection: Connection, fleet: Fleet) -> None:
    def stage() -> str | None:
        move = fence.read_move(connection, fleet.company_id)
        return move.stage if move is not None else None

    fence.begin_copying(connection, fleet.company_id, to_cell=2)
    fence.begin_copying(connection, fleet.company_id, to_cell=3)
    fence.open_fence(connection, fleet.company_id)
    assert stage() == "copying"  # only a company that arrives is let in
    fence.pause_company(connection, fleet.company_id, holds=timedelta(seconds=30))
    fence.close_fence(connection, fleet.company_id)
    fence.leave_cell(connection, fleet.company_id)
    for change in (fence.resume_company, fence.forget_move, fence.open_fence):
        change(connection, fleet.company_id)
    assert stage() == "left"  # nothing brings it back
