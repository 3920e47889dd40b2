"""Entries of the audit log are kept for a time, and say nothing of whom was erased."""

from datetime import datetime, timedelta

from domain.audit.entries import Action, Actor, forget_entries, record_action, search_actions
from domain.database.connections import Connection, Database
from domain.housekeeping.erasure import NAMED, erase_driver
from domain.ids import first_id_of
from tests.conftest import own_database
from tests.factories import Fleet, make_fleet


def keep(connection: Connection, fleet: Fleet, reason: str, now: datetime) -> None:
    by = Actor("ann@example.com", reason)
    record_action(connection, by, Action("route_actions.cancel"), "rte_1", company_id=fleet.company_id)


def reasons(connection: Connection, fleet: Fleet, text: str = "") -> list[str]:
    return [one.reason for one in search_actions(connection, fleet.company_id, text, limit=10)]


def test_long_texts_are_cut(connection: Connection, fleet: Fleet, now: datetime) -> None:
    by = Actor("ann@example.com", " x" * 1_000)
    record_action(connection, by, Action("keys.create"), "y" * 1_000, company_id=fleet.company_id)
    (entry,) = search_actions(connection, fleet.company_id, limit=10)
    assert (len(entry.reason), len(entry.subject)) == (500, 300)


def test_old_entries_are_deleted_in_portions(now: datetime) -> None:
    with own_database("audit") as database, database.transaction() as connection:
        fleet = make_fleet(connection)
        for number in range(5):
            keep(connection, fleet, f"{number}", now)
            connection.execute(
                "UPDATE audit_log SET id = %s WHERE reason = %s",
                (first_id_of(now - timedelta(days=100 * (5 - number))), f"{number}"),
            )
        forgotten = [forget_entries(connection, days=250, now=now, limit=2) for _ in range(3)]
        assert forgotten == [2, 1, 0]
        assert reasons(connection, fleet) == ["4", "3"]


def test_an_erasure_removes_audit_entries_about_the_driver(database: Database, now: datetime) -> None:
    with database.transaction() as connection:
        fleet, other = make_fleet(connection), make_fleet(connection)
        connection.execute("UPDATE drivers SET name = 'Zoë Quill' WHERE id = %s", (fleet.drivers[0],))
        keep(connection, fleet, "zoë quill called in sick", now)
        keep(connection, fleet, "the customer called", now)
        keep(connection, other, "Zoë Quill called", now)
    erase_driver(database.transaction, fleet.company_id, fleet.drivers[0], force=False, now=now)
    with database.transaction() as connection:
        assert reasons(connection, fleet) == ["the customer called", NAMED]
        assert reasons(connection, other) == ["Zoë Quill called"], "of another company"
