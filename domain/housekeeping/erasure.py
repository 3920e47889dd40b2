"""Erases a company or a driver for good.

The subject is retired first, so that nothing new comes in. The work is done in portions, each in a transaction of its
own. So no other transaction waits for long, and a command that broke off can be given again.

The books need a driver's routes with miles, gallons and cost. They stay, without any data that identifies the driver.
Of an erased company only the record of its erasure stays.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple
from urllib.parse import unquote_plus
from uuid import UUID

import psycopg

from domain.accounts.companies import UnknownCompany, lock_company, require_company, retire_company
from domain.audit.entries import service_actor, subject_of
from domain.database.connections import Connection, Transaction
from domain.database.statements import Command, Scalar, Statement
from domain.fleet.drivers import blank_driver
from domain.fleet.former_names import forget_former_names
from domain.housekeeping.retention import delete_routes
from domain.queue.jobs import in_batches
from domain.routes.intake.retiring import is_driven, retire
from domain.routes.transitions import UnfinishedRoute, end_routes
from domain.routes.visits import DISPATCHER, WITHOUT_EVIDENCE

ErasureProgress = Callable[[int], object]
"""A function that is called with the number of routes erased since the last call."""

_PORTION = 1_000
"""Routes erased in one transaction."""

_VEHICLES = 10
"""Vehicles whose positions are deleted in one transaction: each may have 100,000."""

_REQUESTS = 10_000
"""Entries of the request log, or fills, erased in one transaction. An ingress process may write entries later that it
collected before: `requests.forget_requests` removes them within the hour."""

_MAX_TRIES = 5
_IN_FLIGHT_SECONDS = 0.5

ERASED = "The driver was erased"
NAMED = "It named a driver who was erased"


# --- Companies -------------------------------------------------------------------------------------------------


_COUNT_ROUTES = Scalar(int, "SELECT count(*) FROM routes WHERE company_id = %s")
_LOCK_ROUTES = Scalar(UUID, "SELECT id FROM routes WHERE company_id = %s ORDER BY id LIMIT %s FOR UPDATE")
_LIST_VEHICLES = Scalar(UUID, "SELECT id FROM vehicles WHERE company_id = %s ORDER BY id")
_DELETE_POSITIONS = Command("DELETE FROM positions WHERE vehicle_id = ANY(%s)")
_DELETE_TRACKS = Command("DELETE FROM tracks WHERE vehicle_id = ANY(%s)")
_DELETE_REQUESTS = Command(
    "DELETE FROM request_log WHERE (key_id, id) IN (SELECT it.key_id, it.id FROM api_keys k"
    " JOIN request_log it ON it.key_id = k.id WHERE k.company_id = %s LIMIT %s)"
)
_DELETE_FILLS = Command("DELETE FROM fills WHERE id = ANY(ARRAY(SELECT id FROM fills WHERE company_id = %s LIMIT %s))")
_DELETE_OF_COMPANY = [
    Command(f"DELETE FROM {table} WHERE company_id = %s")
    for table in (
        *(
            "mappings",
            "spelling_rules",
            "former_names",
            *("fills", "fill_tellings", "card_assignments"),
            "api_keys",
            *("notice_subscriptions", "notices"),  # in this order: notices are made under the lock of a subscription
            *("connectors", "connector_vehicles"),  # in this order: vehicles are stored under the lock of a connector
            "saved_filters",
            "users",
            "deals",
            *("quotes", "station_codes", "held_prices", "price_sources", "price_runs", "file_profiles"),
            "station_closures",
            *("driver_links", "plan_choices"),
            *("replay_portions", "replays", "trip_inputs"),
            "demo_fleets",
            "dropped_fixes",
            "driven_lanes",
            "learned_burns",
            "price_sets",
            *("savings_statements", "statement_trips", "ifta_filings"),
            "vehicles",
            "drivers",
            "former_units",  # triggers on mappings and vehicles write it
        ),
        "last_writes",
        *("audit_log", "csv_imports", "webhook_events", "webhook_endpoints", "company_moves"),
        *("route_count_deltas", "route_counts"),  # in this order: what is being folded goes from the one to the other
    )
]
"""Deletions of everything else that belongs to a company, after its routes, positions and tracks."""
_DELETE_COMPANY = Command("DELETE FROM companies WHERE id = %s")


def count_routes(connection: Connection, company_id: UUID) -> int:
    """The number of routes to erase: 0 for a company that is erased already. Raises UnknownCompany where there never
    was one."""
    try:
        require_company(connection, company_id, even_retired=True, even_moved=True)
    except UnknownCompany:
        if not _is_erased(connection, company_id):
            raise
    return _COUNT_ROUTES.one(connection, (company_id,))


def erase_company(
    transaction: Transaction, company_id: UUID, *, now: datetime, progress: ErasureProgress = lambda _: None
) -> None:
    """Erases a company; again without effect if it is erased already. Raises UnknownCompany where there never was
    one."""
    with transaction() as connection:
        try:
            retire_company(connection, company_id, service_actor("The company is erased"), now=now)
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
            # A request or a job in flight when the company was retired has stored something since.
            if attempt == _MAX_TRIES:
                raise
            time.sleep(_IN_FLIGHT_SECONDS)


def _erase_history(transaction: Transaction, company_id: UUID, progress: ErasureProgress) -> None:
    portion = _PORTION
    while portion == _PORTION:
        with transaction() as connection:
            ids = _LOCK_ROUTES.all(connection, (company_id, _PORTION))
            delete_routes(connection, ids)
        portion = len(ids)
        progress(portion)
    portion = _REQUESTS
    while portion == _REQUESTS:
        with transaction() as connection:
            portion = _DELETE_REQUESTS.execute(connection, (company_id, _REQUESTS)).rowcount
    portion = _REQUESTS
    while portion == _REQUESTS:
        with transaction() as connection:
            portion = _DELETE_FILLS.execute(connection, (company_id, _REQUESTS)).rowcount
    with transaction() as connection:
        vehicles = _vehicles(connection, company_id)
    for batch in in_batches(vehicles, _VEHICLES):
        with transaction() as connection:
            _delete_positions(connection, batch)


def _erase_rest(transaction: Transaction, company_id: UUID, now: datetime) -> None:
    with transaction() as connection:
        lock_company(connection, company_id, even_retired=True, even_moved=True)
        vehicles = _vehicles(connection, company_id)
        _DELETE_TRACKS.execute(connection, (vehicles,))
        for delete in _DELETE_OF_COMPANY:
            delete.execute(connection, (company_id,))
        _delete_positions(connection, vehicles)  # of a request that had to be waited for
        _DELETE_COMPANY.execute(connection, (company_id,))
        _record(connection, company_id, now)


def _vehicles(connection: Connection, company_id: UUID) -> list[UUID]:
    return _LIST_VEHICLES.all(connection, (company_id,))


def _delete_positions(connection: Connection, vehicle_ids: Sequence[UUID]) -> None:
    _DELETE_POSITIONS.execute(connection, (list(vehicle_ids),))


# --- Drivers ---------------------------------------------------------------------------------------------------


def erase_driver(transaction: Transaction, company_id: UUID, driver_id: UUID, *, force: bool, now: datetime) -> int:
    """Erases a driver and ends the driver's unfinished routes. Returns how many routes named the driver. Raises
    UnknownCompany or UnknownTarget where there is none, MovedCompany, and StillDriving for a driver with an active
    route unless `force` is set."""

    @contextmanager
    def at_work() -> Iterator[Connection]:
        """A transaction of a company that is here. After it has begun to leave, nothing more reaches the other cell."""
        with transaction() as connection:
            require_company(connection, company_id, even_retired=True)
            yield connection

    with at_work() as connection:
        lock_company(connection, company_id, even_retired=True)
        routes = _routes_naming(connection, company_id, driver_id)
        end_routes(
            connection,
            [route.id for route in routes if force or not is_driven(route.environment, route.status)],
            ERASED,
            now=now,
        )
        retire(connection, company_id, "driver", driver_id, service_actor(ERASED), force=force, now=now)
        blank_driver(connection, company_id, driver_id)  # now: what is made of a route from here on names nobody
    route_ids = [route.id for route in routes]
    for batch in in_batches(route_ids, _PORTION):
        with at_work() as connection:
            _blank_routes(connection, batch)
    written = (*_BLANK_WRITTEN, *_BLANK_ENTERED, _FORGET_REFUSED_ROWS)
    for blank in (_BLANK_PAYLOADS, *written, *_FORGET_CARDS):  # payloads first: no answer to them is kept then
        with at_work() as connection:  # of its own: it locks rows here and there
            blank.execute(connection, {"company_id": company_id, "driver_id": driver_id, "routes": route_ids})
    with at_work() as connection:
        _forget_texts_to(connection, driver_id)
        _forget_filters(connection, company_id, driver_id)
        for delete in _DELETE_OF_DRIVER:
            delete.execute(connection, (company_id, driver_id))
        forget_former_names(connection, company_id, driver_id)
        _DELETE_ENTRIES.execute(connection, (company_id, subject_of("drv", driver_id)))
        _record(connection, driver_id, now)
    return len(routes)


_KNOWN = """
    SELECT kind, value FROM former_names WHERE company_id = %(company_id)s AND driver_id = %(driver_id)s
    UNION SELECT 'driver_name', name FROM drivers WHERE company_id = %(company_id)s AND id = %(driver_id)s
    UNION SELECT 'driver_external_id', external_id FROM drivers WHERE company_id = %(company_id)s AND id = %(driver_id)s
    UNION SELECT 'display_name', display_name FROM drivers WHERE company_id = %(company_id)s AND id = %(driver_id)s
"""
"""Every name that the driver has or had. Mappings are among the former names once the driver is retired."""

_WORDS = r"' ' || regexp_replace(lower({}), '\W+', ' ', 'g') || ' '"

_NAMED_IN = rf"""
    EXISTS (
        SELECT FROM ({_KNOWN}) known WHERE known.value !~ '^(.|\d\d?\d?)$'
        AND (strpos({_WORDS.format("{0}")}, {_WORDS.format("known.value")}) > 0
             OR octet_length(known.value) > length(known.value) AND strpos(lower({{0}}), lower(known.value)) > 0))
"""
"""The condition that a text has a driver's name in it, in whole words. Languages without spaces between words have no
ASCII letters. A single letter, or a number of up to three digits, also stands in texts that do not mean the driver."""

_BLANK_WRITTEN = [
    Command(f"UPDATE {table} SET {column} = '{NAMED}' WHERE company_id = %(company_id)s AND {_NAMED_IN.format(column)}")
    for table, column in (
        ("audit_log", "reason"),
        ("routes", "closed_reason"),
        ("route_events", "detail"),
        ("messages", "error"),
        ("webhook_attempts", "answer"),
        ("station_closures", "reason"),
        ("csv_imports", "fault"),
    )
]
"""Texts that name the driver, also on routes of another driver. Subjects in the audit log are ids only."""
_BLANK_ENTERED = [
    Command(
        f"""
        UPDATE visits SET {evidence} = jsonb_set({evidence}, '{{reason}}', to_jsonb('{NAMED}'::text))
        WHERE company_id = %(company_id)s AND {evidence}->>'source' = '{DISPATCHER}'
          AND {_NAMED_IN.format(f"({evidence}->>'reason')")}
        """
    )
    for evidence in ("arrival_evidence", "departure_evidence")
]
"""The reasons of arrivals and departures that dispatchers entered."""
_FORGET_REFUSED_ROWS = Command(
    "UPDATE csv_imports SET rejected = NULL WHERE company_id = %(company_id)s AND finished_at IS NOT NULL"
    f" AND {_NAMED_IN.format('rejected::text')}"
)
"""The message of a refused row may repeat its cells."""
_BLANK_PAYLOADS = Command(
    f"""
    WITH named AS (
        SELECT id FROM webhook_events WHERE company_id = %(company_id)s
          AND (payload IS NULL AND route_id = ANY(%(routes)s) OR {_NAMED_IN.format("payload")})
        ORDER BY id FOR UPDATE)
    UPDATE webhook_events it SET payload = NULL FROM named WHERE it.id = named.id
    """
)
"""A delivery still to be made tells of the route as it is at that time. Workers lock the events in this order, too, and
before they read the routes: this waits for payloads that are being prepared with the name."""
_SORTED_WORDS = r"(SELECT array_agg(w ORDER BY w) FROM regexp_split_to_table(lower({}), '\W+') w WHERE w <> '')"
_IS_NAME = (
    f"EXISTS (SELECT FROM ({_KNOWN}) known WHERE known.kind <> 'driver_external_id'"
    f" AND {_SORTED_WORDS.format('known.value')} = {_SORTED_WORDS.format('driver_name')})"
)
"""The condition that a name on a card is the driver's, whatever the order of its words."""
_FORGET_CARDS = [
    Command(
        "UPDATE fills f SET driver_name = NULL FROM card_assignments a WHERE f.company_id = %(company_id)s"
        " AND a.company_id = f.company_id AND a.driver_id = %(driver_id)s AND a.card_last_four = f.card_last_four"
        " AND f.driver_name IS NOT NULL AND a.driver_name IN ('', f.driver_name)"
    ),
    Command(
        "UPDATE fills SET driver_name = NULL WHERE company_id = %(company_id)s AND driver_name IS NOT NULL"
        f" AND {_IS_NAME}"
    ),
    Command(
        "DELETE FROM card_assignments WHERE company_id = %(company_id)s"
        f" AND (driver_id = %(driver_id)s OR driver_name <> '' AND {_IS_NAME})"
    ),
]
"""Forget drivers' names beside cards without a unit, and who holds those cards."""
_DELETE_OF_DRIVER = [
    Command(f"DELETE FROM {table} WHERE company_id = %s AND driver_id = %s")
    for table in ("driver_links", "driver_answers", "told_stops")
]
_DELETE_ENTRIES = Command("DELETE FROM audit_log WHERE company_id = %s AND subject = %s")
"""Deletes the entries about changes of a driver by hand: the reason of a retirement may name the driver."""


_LOCK_NAMING = Statement(
    UnfinishedRoute,
    f"""
    WITH known AS (
        SELECT kind, value FROM mappings WHERE company_id = %(company_id)s AND target_id = %(driver_id)s
        UNION
        SELECT kind, value FROM ({_KNOWN}) it
        WHERE NOT EXISTS (SELECT FROM mappings m WHERE m.company_id = %(company_id)s
                          AND m.kind = it.kind AND m.value = it.value AND m.target_id <> %(driver_id)s)
          AND NOT EXISTS (SELECT FROM drivers other WHERE other.company_id = %(company_id)s
                          AND other.id <> %(driver_id)s AND other.retired_at IS NULL AND it.value = CASE it.kind
                              WHEN 'driver_name' THEN other.name WHEN 'driver_external_id' THEN other.external_id END))
    SELECT id, environment, status FROM routes WHERE company_id = %(company_id)s AND id IN (
        SELECT id FROM routes WHERE driver_id = %(driver_id)s
        UNION ALL
        SELECT r.id FROM known JOIN routes r ON r.company_id = %(company_id)s AND r.driver_id IS NULL
        WHERE known.value = CASE known.kind
            WHEN 'driver_name' THEN r.driver_name WHEN 'driver_external_id' THEN r.driver_external_id END)
    ORDER BY id FOR UPDATE
    """,
)


def _routes_naming(connection: Connection, company_id: UUID, driver_id: UUID) -> list[UnfinishedRoute]:
    """The driver's routes, and the routes that were never matched but name only this driver. They are locked."""
    return _LOCK_NAMING.all(connection, {"company_id": company_id, "driver_id": driver_id})


_LOCK_FINISHED = Scalar(
    UUID,
    "SELECT id FROM routes WHERE id = ANY(%s) AND status IN ('completed', 'canceled', 'error') ORDER BY id FOR UPDATE",
)
_BLANK = [
    Command(
        f"""
        UPDATE routes SET driver_name = NULL, driver_external_id = NULL, closed_reason = CASE
            WHEN strpos(closed_reason, driver_name) > 0 OR strpos(closed_reason, driver_external_id) > 0
            THEN '{NAMED}' ELSE closed_reason END
        WHERE id = ANY(%s)
        """
    ),
    Command("UPDATE messages SET text = NULL, error = NULL, taken_by = NULL WHERE route_id = ANY(%s)"),
    Command("UPDATE route_events SET detail = NULL WHERE route_id = ANY(%s)"),
    Command("UPDATE plans SET explanation = NULL WHERE route_id = ANY(%s)"),
    Command(f"UPDATE visits SET {WITHOUT_EVIDENCE} WHERE route_id = ANY(%s)"),
]


def _blank_routes(connection: Connection, route_ids: Sequence[UUID]) -> None:
    """Removes every name from finished routes. The stops with their times, the plan with its figures, and the fact that
    a message was sent stay. A route that was pushed again meanwhile is left alone: its names are new ones."""
    finished = _LOCK_FINISHED.all(connection, (list(route_ids),))
    for blank in _BLANK:
        blank.execute(connection, (finished,))


_LOCK_WITH_TEXTS = Scalar(
    UUID,
    "SELECT id FROM routes WHERE id IN (SELECT route_id FROM messages WHERE driver_id = %s AND text IS NOT NULL)"
    " ORDER BY id FOR UPDATE",
)
_FORGET_TEXTS = Command(
    "UPDATE messages m SET text = NULL, error = NULL, taken_by = NULL FROM routes r"
    " WHERE r.id = ANY(%s) AND m.route_id = r.id AND m.driver_id = %s AND (m.status <> 'pending'"
    " OR m.plan_id IS DISTINCT FROM r.plan_id AND m.plan_id IS DISTINCT FROM r.correction_id)"
)


def _forget_texts_to(connection: Connection, driver_id: UUID) -> None:
    """Removes the remaining texts to the driver, also on routes that another driver has now. A message of a current
    plan that is still to be sent stays: an import in flight has just given its route to the driver."""
    routes = _LOCK_WITH_TEXTS.all(connection, (driver_id,))
    _FORGET_TEXTS.execute(connection, (routes, driver_id))


class _Filter(NamedTuple):
    user_id: UUID
    list_name: str
    name: str
    query: str


_FILTERS = Statement(
    _Filter,
    "SELECT user_id, list_name, name, query FROM saved_filters WHERE company_id = %s ORDER BY user_id FOR UPDATE",
)
_NAMING = Scalar(
    int,
    "SELECT number::int FROM unnest(%(texts)s::text[]) WITH ORDINALITY AS written (text, number)"
    f" WHERE {_NAMED_IN.format('written.text')}",
)
_FORGET_FILTER = Command(
    "DELETE FROM saved_filters WHERE company_id = %s AND user_id = %s AND list_name = %s AND name = %s"
)


def _forget_filters(connection: Connection, company_id: UUID, driver_id: UUID) -> None:
    """Deletes saved filters of lists that name the driver. They are stored as in an address, so they are decoded."""
    filters = _FILTERS.all(connection, (company_id,))
    texts = [f"{one.name} {unquote_plus(one.query)}" for one in filters]
    for number in _NAMING.all(connection, {"company_id": company_id, "driver_id": driver_id, "texts": texts}):
        found = filters[number - 1]
        _FORGET_FILTER.execute(connection, (company_id, found.user_id, found.list_name, found.name))


# --- That it was done ------------------------------------------------------------------------------------------

_FIND_ERASURE = Command("SELECT FROM erasures WHERE subject_id = %s")
_FORGET_ERASURE = Command("DELETE FROM erasures WHERE subject_id = %s")
_RECORD = Command(
    "INSERT INTO erasures (subject_id, erased_at) VALUES (%s, %s)"
    " ON CONFLICT (subject_id) DO UPDATE SET erased_at = excluded.erased_at"
)


def _is_erased(connection: Connection, subject_id: UUID) -> bool:
    return _FIND_ERASURE.first(connection, (subject_id,)) is not None


def _record(connection: Connection, subject_id: UUID, now: datetime) -> None:
    _RECORD.execute(connection, (subject_id, now))


def forget_erasure(connection: Connection, company_id: UUID) -> None:
    """Forgets that a company was erased here: it has come back from another cell."""
    _FORGET_ERASURE.execute(connection, (company_id,))
