"""Matches held routes to vehicles and drivers, and imports those that wait for nothing.

The rule stands only here, as SQL: one statement looks up the records that each reference can mean, decides, and stores
the imported routes. Deciding in Python between two statements would cost a fifth of the routes a second. `imports`
words the reasons of the other routes from the statement's rows."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import Cursor

from domain.database.connections import Connection, as_array
from domain.database.statements import Statement
from domain.fleet.matching import MappingKind
from domain.lifecycle import PendingReason
from domain.magic_values import MAGIC_IMPORT, UNMAPPED


class RouteReference(NamedTuple):
    """A pushed value that may mean a vehicle or driver."""

    kind: MappingKind
    column: str
    """The column of `routes` that holds the pushed value."""
    table: str
    stored: str
    """The column of `table` that is compared with it."""


REFERENCES = (
    RouteReference("unit_number", "vehicle_unit_number", "vehicles", "unit_number"),
    RouteReference("vin", "vehicle_vin", "vehicles", "vin"),
    RouteReference("driver_name", "driver_name", "drivers", "name"),
    RouteReference("driver_external_id", "driver_external_id", "drivers", "external_id"),
)


class AttemptedRoute(NamedTuple):
    """A held route after its attempt."""

    id: UUID
    revision: int
    request_id: str | None
    reason: str | None
    """A `PendingReason`, or `error` if a magic value asks for it; None when the route waits for nothing."""
    has_visits: bool
    vehicle_id: UUID | None
    """The vehicle that all references mean, even while the route waits for something else."""
    unit_number: str | None
    driver_id: UUID | None
    driver_name: str | None
    held: dict[str, Any] | None
    """The findings from which `imports` words why the route waits; None when it waits for nothing."""


_CANDIDATES = """
    CASE {never} WHEN r.{column} IS NOT NULL THEN coalesce((SELECT ARRAY[target_id] FROM mappings
     WHERE company_id = r.company_id AND kind = '{kind}' AND value = r.{column}),
    {stored_ids}) END AS {kind}_ids"""
"""The target of a value's mapping, or else the records that store the value. Two of them show that it is ambiguous."""

_STORED = """ARRAY(SELECT id FROM {table}
    WHERE company_id = r.company_id AND {stored} = r.{column} AND retired_at IS NULL LIMIT 2)"""

_STORED_OR_BY_RULE = f"nullif({_STORED}, '{{{{}}}}'), units_by_rule(r.company_id, r.{{column}})"
"""The vehicles that store the value, or else those that the company's spelling rules make of it. Routes whose value is
stored read no rule."""

_NEVER = f"WHEN environment = 'sandbox' AND {{column}} = '{UNMAPPED}' THEN '{{{{}}}}'"
"""The sandbox's magic value means no record."""


def _candidates(reference: RouteReference) -> str:
    named = reference._asdict()
    never = _NEVER.format(**named) if reference.kind in ("unit_number", "driver_name") else ""
    stored = _STORED_OR_BY_RULE if reference.kind == "unit_number" else _STORED
    return _CANDIDATES.format(**named, never=never, stored_ids=stored.format(**named))


_UNCLEAR = """
    CASE WHEN cardinality({one}_ids) <> 1 THEN ARRAY['{one}']
         WHEN cardinality({other}_ids) <> 1 THEN ARRAY['{other}']
         WHEN {one}_ids <> {other}_ids THEN ARRAY['{one}', '{other}']
    END"""
"""The references that prevent a match: the first that fits no record or several, or else both if they lead to different
records. NULL when all that were pushed lead to one record. The candidates of a reference that was not pushed are
NULL."""


# Lookups for one route are subqueries: with joins, a batch would read a small table from end to end. The text has at
# most 4,096 characters: psycopg would parse a longer one again for each batch.
def _attempt(lock: str) -> str:
    """The statement. With SKIP LOCKED as `lock` it passes over the routes that another transaction has locked."""
    text = f"""
    WITH held AS MATERIALIZED (
        SELECT id, revision, request_id, updated_at, environment, status, pending_reason, pending_detail, vehicle_id,
               driver_id, scheduled_start, arrived_at IS NOT NULL AS has_visits,
               vehicle_unit_number, vehicle_vin, driver_name, driver_external_id,
               (SELECT import_window_days FROM companies WHERE id = r.company_id AND retired_at IS NULL),
               {MAGIC_IMPORT}, {", ".join(map(_candidates, REFERENCES))}
        FROM routes r
        WHERE id = ANY(%(ids)s::uuid[]) AND status IN ('pending', 'pending_mapping', 'pending_window')
        ORDER BY id FOR UPDATE {lock}
    ), compared AS (
        SELECT *,
               {_UNCLEAR.format(one="unit_number", other="vin")} AS unclear_vehicle,
               {_UNCLEAR.format(one="driver_name", other="driver_external_id")} AS unclear_driver
        FROM held WHERE import_window_days IS NOT NULL
    ), matched AS (
        SELECT *,
            CASE WHEN unclear_vehicle IS NULL THEN coalesce(unit_number_ids, vin_ids) END AS vehicle,
            CASE WHEN unclear_driver IS NULL THEN coalesce(driver_name_ids, driver_external_id_ids) END
                AS driver
        FROM compared
    ), attempted AS MATERIALIZED (
        SELECT *,
               CASE WHEN vehicle IS NULL THEN '{PendingReason.VEHICLE_UNMAPPED}'
                    WHEN driver IS NULL THEN '{PendingReason.DRIVER_UNMAPPED}'
                    WHEN scheduled_start > %(now)s::timestamptz + import_window_days * interval '1 day'
                    THEN '{PendingReason.OUTSIDE_IMPORT_WINDOW}'
                    WHEN magic = 'FUTURE' AND status = 'pending' THEN '{PendingReason.OUTSIDE_IMPORT_WINDOW}'
                    WHEN magic = 'IMPORT-ERROR' THEN '{PendingReason.ERROR}'
               END AS reason
        FROM matched
    ), stored AS (
        UPDATE routes r SET
            status = 'draft', pending_reason = NULL, pending_detail = NULL, vehicle_id = vehicle[1],
            driver_id = driver[1], attempts = 0, imported_at = %(now)s, retry_at = NULL, updated_at = clock_timestamp()
        FROM attempted a WHERE r.id = a.id AND a.reason IS NULL AND a.has_visits = %(visited)s
    )
    SELECT id, revision, request_id, reason, has_visits,
           vehicle[1] AS vehicle_id, (SELECT unit_number FROM vehicles WHERE id = vehicle[1]) AS unit_number,
           driver[1] AS driver_id, (SELECT name FROM drivers WHERE id = driver[1]) AS driver_name,
           CASE WHEN reason IS NOT NULL THEN to_jsonb(attempted) END AS held
    FROM attempted
    """
    return " ".join(text.split())


_ATTEMPT_FREE = Statement(AttemptedRoute, _attempt("SKIP LOCKED"))
_ATTEMPT_ALL = Statement(AttemptedRoute, _attempt(""))


def match_and_import(
    connection: Connection, route_ids: Sequence[UUID], *, visited: bool, wait: bool, now: datetime
) -> Cursor[AttemptedRoute]:
    """The held routes among `route_ids`, without those of retired companies. Those that wait for nothing are imported
    if they have visits from before and `visited` is True, or if they have none and it is False.

    Vehicle first, then driver, then the window; a start in the past is inside it. A route of an unknown truck that
    starts in 20 days waits for the mapping of the truck. Once that is made, it waits for its window. Only
    then does a route of the sandbox rehearse what its name asks for; the window that it rehearses opens at the second
    attempt.
    """
    attempt = _ATTEMPT_ALL if wait else _ATTEMPT_FREE
    return attempt.execute(connection, {"ids": as_array(route_ids), "visited": visited, "now": now})
