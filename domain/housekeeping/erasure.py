"""Companies and drivers erased for good, in portions of one transaction each: nobody waits for long, and a command that
broke off is given again. The subject is retired first, so that nothing new comes in.

Of a driver stays what the books need: routes with miles, gallons and cost, without anything that says whose they were.
Of a company stays nothing but that it was erased.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import psycopg

from domain.accounts.companies import UnknownCompany, lock_company, require_company, retire_company
from domain.database import Connection
from domain.housekeeping.retention import delete_routes
from domain.jobs import in_batches
from domain.routes.progress import end_routes
from domain.routes.retiring import is_driven, retire

Transaction = Callable[[], AbstractContextManager[Connection]]
Progress = Callable[[int], object]
"""Told how many routes were erased."""

_PORTION = 1_000
"""Routes of one transaction."""

_VEHICLES = 10
"""Whose positions are removed in one transaction: a vehicle may have 100,000."""

_MAX_TRIES = 5
_IN_FLIGHT_SECONDS = 0.5

ERASED = "The driver was erased"


# --- Companies -------------------------------------------------------------------------------------------------


def count_routes(connection: Connection, company_id: str) -> int:
    """How many routes there are to erase. Raises UnknownCompany, not for one that is erased already."""
    try:
        require_company(connection, company_id, even_retired=True)
    except UnknownCompany:
        if not _is_erased(connection, company_id):
            raise
    row = connection.execute("SELECT count(*) AS count FROM routes WHERE company_id = %s", (company_id,)).fetchone()
    return int(row.count) if row is not None else 0


def erase_company(
    transaction: Transaction, company_id: str, *, now: datetime, progress: Progress = lambda _: None
) -> None:
    """Raises UnknownCompany; not for one that is erased already."""
    with transaction() as connection:
        try:
            retire_company(connection, company_id, now=now)
        except UnknownCompany:
            if _is_erased(connection, company_id):
                return
            raise
    for attempt in range(1, _MAX_TRIES + 1):
        try:
            _erase_history(transaction, company_id, progress)
            _erase_rest(transaction, company_id, now)
            return
        except (psycopg.errors.ForeignKeyViolation, psycopg.errors.DeadlockDetected):
            # a request or a job that was in flight when the company was retired has stored something since
            if attempt == _MAX_TRIES:
                raise
            time.sleep(_IN_FLIGHT_SECONDS)


def _erase_history(transaction: Transaction, company_id: str, progress: Progress) -> None:
    portion = _PORTION
    while portion == _PORTION:
        with transaction() as connection:
            rows = connection.execute(
                "SELECT id FROM routes WHERE company_id = %s ORDER BY id LIMIT %s FOR UPDATE",
                (company_id, _PORTION),
            ).fetchall()
            delete_routes(connection, [row.id for row in rows])
        portion = len(rows)
        progress(portion)
    with transaction() as connection:
        vehicles = _vehicles(connection, company_id)
    for batch in in_batches(vehicles, _VEHICLES):
        with transaction() as connection:
            _delete_positions(connection, batch)


def _erase_rest(transaction: Transaction, company_id: str, now: datetime) -> None:
    with transaction() as connection:
        lock_company(connection, company_id, even_retired=True)
        vehicles = _vehicles(connection, company_id)
        connection.execute("DELETE FROM tracks WHERE vehicle_id = ANY(%s)", (vehicles,))
        for table in ("mappings", "api_keys", "deals", "dropped_fixes", "price_sets", "vehicles", "drivers"):
            connection.execute(f"DELETE FROM {table} WHERE company_id = %s", (company_id,))  # noqa: S608
        _delete_positions(connection, vehicles)  # of a request that had to be waited for
        connection.execute("DELETE FROM companies WHERE id = %s", (company_id,))
        _record(connection, company_id, now)


def _vehicles(connection: Connection, company_id: str) -> list[str]:
    rows = connection.execute("SELECT id FROM vehicles WHERE company_id = %s ORDER BY id", (company_id,)).fetchall()
    return [row.id for row in rows]


def _delete_positions(connection: Connection, vehicle_ids: Sequence[str]) -> None:
    connection.execute("DELETE FROM positions WHERE vehicle_id = ANY(%s)", (list(vehicle_ids),))


# --- Drivers ---------------------------------------------------------------------------------------------------


def erase_driver(transaction: Transaction, company_id: str, driver_id: str, *, force: bool, now: datetime) -> int:
    """Returns how many routes named the driver. Unfinished ones are ended: without a driver they cannot go on.

    Raises UnknownCompany, UnknownTarget; StillDriving, unless by force.
    """
    with transaction() as connection:
        lock_company(connection, company_id, even_retired=True)
        routes = _routes_naming(connection, company_id, driver_id)
        end_routes(
            connection,
            [route.id for route in routes if force or not is_driven(route.environment, route.status)],
            ERASED,
        )
        retire(connection, company_id, "driver", driver_id, force=force, now=now)
    for batch in in_batches([route.id for route in routes], _PORTION):
        with transaction() as connection:
            _blank_routes(connection, batch)
    with transaction() as connection:
        _forget_texts_to(connection, driver_id)
        connection.execute(
            "UPDATE drivers SET name = NULL, display_name = NULL, external_id = NULL, contact = NULL WHERE id = %s",
            (driver_id,),
        )
        _record(connection, driver_id, now)
    return len(routes)


def _routes_naming(connection: Connection, company_id: str, driver_id: str) -> list[Any]:
    """The driver's routes, and those that were never matched but name nobody else. They are locked."""
    return connection.execute(
        """
        SELECT id, environment, status FROM routes WHERE company_id = %(company_id)s AND id IN (
            SELECT id FROM routes WHERE driver_id = %(driver_id)s
            UNION ALL
            SELECT r.id FROM drivers d JOIN routes r ON r.company_id = d.company_id AND r.driver_id IS NULL
            WHERE d.id = %(driver_id)s AND (r.driver_external_id = d.external_id OR r.driver_name = d.name)
              AND NOT EXISTS (
                  SELECT FROM drivers other WHERE other.company_id = d.company_id AND other.id <> d.id
                  AND other.retired_at IS NULL
                  AND coalesce(r.driver_external_id = other.external_id, r.driver_name = other.name)))
        ORDER BY id FOR UPDATE
        """,
        {"company_id": company_id, "driver_id": driver_id},
    ).fetchall()


def _blank_routes(connection: Connection, route_ids: Sequence[str]) -> None:
    """What is left are the stops with their times, the plan with its figures, and that a message was sent. One that was
    pushed again meanwhile names whomever it names now."""
    finished = connection.execute(
        "SELECT id FROM routes WHERE id = ANY(%s) AND status IN ('completed', 'canceled', 'error')"
        " ORDER BY id FOR UPDATE",
        (list(route_ids),),
    ).fetchall()
    ids = ([row.id for row in finished],)
    connection.execute(
        """
        UPDATE routes SET driver_name = NULL, driver_external_id = NULL, updated_at = clock_timestamp(),
            closed_reason = CASE
                WHEN strpos(closed_reason, driver_name) > 0 OR strpos(closed_reason, driver_external_id) > 0
                THEN 'It named a driver who was erased' ELSE closed_reason END
        WHERE id = ANY(%s)
        """,
        ids,
    )
    connection.execute("UPDATE messages SET text = NULL, error = NULL WHERE route_id = ANY(%s)", ids)
    connection.execute("UPDATE plans SET explanation = NULL WHERE route_id = ANY(%s)", ids)
    connection.execute(
        "UPDATE visits SET arrival_evidence = NULL, departure_evidence = NULL WHERE route_id = ANY(%s)", ids
    )


def _forget_texts_to(connection: Connection, driver_id: str) -> None:
    """Also those of routes that somebody else drives now; but for one that is yet to be sent, whose route an import in
    flight has just given to the driver."""
    routes = connection.execute(
        "SELECT id FROM routes WHERE id IN (SELECT route_id FROM messages WHERE driver_id = %s AND text IS NOT NULL)"
        " ORDER BY id FOR UPDATE",
        (driver_id,),
    ).fetchall()
    connection.execute(
        "UPDATE messages m SET text = NULL, error = NULL FROM routes r"
        " WHERE r.id = ANY(%s) AND m.route_id = r.id AND m.driver_id = %s AND (m.status <> 'pending'"
        " OR m.plan_id IS DISTINCT FROM r.plan_id AND m.plan_id IS DISTINCT FROM r.correction_id)",
        ([route.id for route in routes], driver_id),
    )


def _is_erased(connection: Connection, subject_id: str) -> bool:
    return connection.execute("SELECT FROM erasures WHERE subject_id = %s", (subject_id,)).fetchone() is not None


def _record(connection: Connection, subject_id: str, now: datetime) -> None:
    connection.execute(
        "INSERT INTO erasures (subject_id, erased_at) VALUES (%s, %s)"
        " ON CONFLICT (subject_id) DO UPDATE SET erased_at = excluded.erased_at",
        (subject_id, now),
    )
