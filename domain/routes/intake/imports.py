"""Imports held routes: each becomes a draft, or keeps waiting for its vehicle, its driver or its import window.

`import_routes` makes one attempt at a batch of routes. `route_matching` decides, and imports the routes that wait for
nothing. This module words and stores the reasons of the other routes. `holds` finds the routes that are due.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct

from domain.database.connections import Connection, as_json, pipelined
from domain.database.statements import Scalar, Statement
from domain.fleet.matching import GivenReference, MappingKind, Matched, why_unclear
from domain.lifecycle import HELD, Environment, PendingReason, RouteStatus
from domain.magic_values import UNMAPPED
from domain.queue.jobs import after_commit, build_plan_job
from domain.routes.intake.route_matching import AttemptedRoute, match_and_import
from domain.routes.visits import keep_what_could_begin
from domain.telematics.rechecks import process_trucks, recheck_imported, recheck_left


class ImportOutcome(Struct, frozen=True, array_like=True):
    """The state after an import attempt, with the fields of the route's vehicle and driver that an answer shows."""

    status: RouteStatus
    reason: PendingReason | None
    detail: str | None
    vehicle_id: UUID | None
    unit_number: str | None
    driver_id: UUID | None
    driver_name: str | None
    revision: int = 0
    """The revision of the input that was tried; 0 from a worker of an earlier release."""
    request_id: str | None = None
    """The request that brought the input."""


def import_routes(
    connection: Connection,
    route_ids: Sequence[UUID],
    *,
    now: datetime,
    early: timedelta = timedelta(hours=12),
    wait: bool = False,
) -> dict[UUID, ImportOutcome]:
    """One import attempt of each held route among `route_ids`, as one batch.

    Returns the outcome of each. Routes that are not held are left alone, so the same job may run twice. Routes that
    another transaction has locked are left alone too, unless told to `wait`.

    It needs no transaction around it. The first two statements go out together, which makes them one transaction: a
    route that waits for nothing is a draft, and its truck is rechecked. Routes that had started before follow in a
    second transaction. The reasons of the rest follow in a third, except for routes that have changed meanwhile.
    """
    with pipelined(connection):
        attempt = match_and_import(connection, route_ids, visited=False, wait=wait, now=now)
        trucks = recheck_imported(connection, route_ids, now=now)
    routes = attempt.fetchall()
    process_trucks(connection, trucks)
    outcomes = {route.id: _imported(route) for route in routes if route.reason is None and not route.has_visits}
    held = [route for route in routes if route.reason is not None]
    visited = [route.id for route in routes if route.reason is None and route.has_visits]
    if visited:
        again = _import_visited(connection, visited, early=early, now=now, wait=wait)
        outcomes |= {route.id: _imported(route) for route in again if route.reason is None and route.has_visits}
        held += [route for route in again if route.reason is not None]
    outcomes |= {route.id: _failing(route) for route in held if route.reason == PendingReason.ERROR}
    held = [route for route in held if route.reason != PendingReason.ERROR]
    if held:
        outcomes |= _hold(connection, held, now=now)
    return outcomes


def _import_visited(
    connection: Connection, route_ids: Sequence[UUID], *, early: timedelta, now: datetime, wait: bool
) -> list[AttemptedRoute]:
    """The attempt at routes with visits, which hardly any route has, in one transaction. Only visits that could have
    begun the route as it is now stay: such a route has arrived, and its plan is due. The recheck locks the trucks, so
    that none of their other routes starts before the visits are judged."""
    with pipelined(connection):
        attempt = match_and_import(connection, route_ids, visited=True, wait=wait, now=now)
        trucks = recheck_imported(connection, route_ids, now=now)
        judged = keep_what_could_begin(connection, route_ids, early=early, now=now)
    process_trucks(connection, trucks)
    for route in judged.fetchall():
        if route.has_arrived:
            after_commit(connection, build_plan_job(route.route_id, route.company_id))
    return attempt.fetchall()


def _imported(route: AttemptedRoute) -> ImportOutcome:
    return ImportOutcome(
        RouteStatus.DRAFT,
        None,
        None,
        route.vehicle_id,
        route.unit_number,
        route.driver_id,
        route.driver_name,
        route.revision,
        route.request_id,
    )


def _failing(route: AttemptedRoute) -> ImportOutcome:
    return ImportOutcome(
        RouteStatus.PENDING, PendingReason.ERROR, None, None, None, None, None, route.revision, route.request_id
    )


class _Held(Struct):
    """A route that waits for something: the findings of `route_matching`, and the state of the route before."""

    updated_at: str
    environment: str
    status: str
    pending_reason: str | None
    pending_detail: str | None
    vehicle_id: UUID | None
    driver_id: UUID | None
    import_window_days: float
    vehicle_unit_number: str | None
    vehicle_vin: str | None
    driver_name: str | None
    driver_external_id: str | None
    unit_number_ids: list[UUID] | None
    vin_ids: list[UUID] | None
    driver_name_ids: list[UUID] | None
    driver_external_id_ids: list[UUID] | None
    unclear_vehicle: list[MappingKind] | None
    unclear_driver: list[MappingKind] | None
    magic: str | None
    reason: PendingReason

    def reference(self, kind: MappingKind) -> GivenReference:
        named, value, candidates = {
            "unit_number": ("unit number", self.vehicle_unit_number, self.unit_number_ids),
            "vin": ("VIN", self.vehicle_vin, self.vin_ids),
            "driver_name": ("name", self.driver_name, self.driver_name_ids),
            "driver_external_id": ("external id", self.driver_external_id, self.driver_external_id_ids),
        }[kind]
        return GivenReference(named, value or "", candidates or ())

    def why(self) -> str:
        """The sentence about the missing reference, or about the import window."""
        if self.reason is PendingReason.VEHICLE_UNMAPPED:
            return self._why_unclear("vehicle", [self.reference(kind) for kind in self.unclear_vehicle or ()])
        if self.reason is PendingReason.DRIVER_UNMAPPED:
            return self._why_unclear("driver", [self.reference(kind) for kind in self.unclear_driver or ()])
        if self.magic == "FUTURE":
            return "The sandbox takes the start for one too far ahead, as asked for. The next import pass imports it."
        days = "1 day" if self.import_window_days == 1 else f"{self.import_window_days:g} days"
        return (
            f"The scheduled start is more than {days} ahead. The route is imported by itself when its start enters the "
            "import window."
        )

    def _why_unclear(self, subject: Matched, unclear: Sequence[GivenReference]) -> str:
        if self.environment == Environment.SANDBOX and unclear[0].value == UNMAPPED:
            return (
                f"'{UNMAPPED}' matches no {subject} of the sandbox, ever. Push the route again with one of the fleet."
            )
        return why_unclear(subject, unclear)


class _Change(Struct):
    """A route that now waits for something else."""

    id: UUID
    updated_at: str
    """The time of the last change that the attempt saw."""
    status: RouteStatus
    reason: PendingReason
    detail: str
    vehicle_id: UUID | None
    driver_id: UUID | None

    def differs_from(self, held: _Held) -> bool:
        return (self.status, self.reason, self.detail, self.vehicle_id, self.driver_id) != (
            held.status,
            held.pending_reason,
            held.pending_detail,
            held.vehicle_id,
            held.driver_id,
        )


_HOLD = Scalar(
    UUID,
    """
    WITH unchanged AS MATERIALIZED (
        SELECT o.* FROM jsonb_to_recordset(%s)
             AS o (id uuid, updated_at timestamptz, status text, reason text, detail text, vehicle_id uuid,
                   driver_id uuid)
        JOIN routes r ON r.id = o.id AND r.updated_at = o.updated_at
        ORDER BY r.id FOR UPDATE OF r SKIP LOCKED)
    UPDATE routes r SET
        status = o.status, pending_reason = o.reason, pending_detail = o.detail, vehicle_id = o.vehicle_id,
        driver_id = o.driver_id, attempts = 0, imported_at = NULL, retry_at = NULL, updated_at = clock_timestamp()
    FROM unchanged o WHERE r.id = o.id
    RETURNING r.id
    """,
)


def _hold(connection: Connection, routes: Sequence[AttemptedRoute], *, now: datetime) -> dict[UUID, ImportOutcome]:
    """Stores the reasons why these routes wait, and has their former trucks rechecked. Routes that have changed since
    the attempt, or are locked, are left out."""
    outcomes: dict[UUID, ImportOutcome] = {}
    changes: list[_Change] = []
    for route in routes:
        held = msgspec.convert(route.held, _Held)
        outside = held.reason is PendingReason.OUTSIDE_IMPORT_WINDOW
        status = RouteStatus.PENDING_WINDOW if outside else RouteStatus.PENDING_MAPPING
        change = _Change(route.id, held.updated_at, status, held.reason, held.why(), route.vehicle_id, route.driver_id)
        outcomes[route.id] = ImportOutcome(
            status,
            held.reason,
            change.detail,
            route.vehicle_id,
            route.unit_number,
            route.driver_id,
            route.driver_name,
            route.revision,
            route.request_id,
        )
        if change.differs_from(held):
            changes.append(change)
    if changes:
        ids = [change.id for change in changes]
        with pipelined(connection):
            holding = _HOLD.execute(connection, (as_json(changes),))
            trucks = recheck_left(connection, ids, now=now)
        process_trucks(connection, trucks)
        for missed in set(ids) - set(holding.fetchall()):
            del outcomes[missed]
    return outcomes


class _Revision(NamedTuple):
    id: UUID
    revision: int


_SETTLED = Statement(_Revision, "SELECT id, revision FROM routes WHERE id = ANY(%s) AND status <> ALL(%s)")


def revisions_settled(connection: Connection, route_ids: Iterable[UUID]) -> dict[UUID, int]:
    """The current revision of each of these routes, without those that are still held."""
    return {row.id: row.revision for row in _SETTLED.all(connection, (list(route_ids), sorted(HELD)))}
