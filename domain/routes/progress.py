"""What may happen to a route after its import: one function for each change of its status.

Each is a step inside the caller's transaction. Which status may follow which is in `lifecycle`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from domain.database import Connection, Tenant
from domain.fleet.matching import Matched
from domain.jobs import SWEEP_GRACE, Job
from domain.lifecycle import CANCELABLE, CANCELED_VIA_API, CancelEffect, RouteStatus, effect_of_cancel
from domain.messages.discarding import discard_messages
from domain.statements import Command, IdRow, Statement
from domain.telematics.rechecks import recheck_trucks

NOT_ATTEMPTED = "Accepted and stored; the import has not been attempted yet. Nothing needs to be resent."

START_OVER = f"""
    revision = r.revision + 1,
    status = 'pending', pending_reason = 'not_attempted', pending_detail = '{NOT_ATTEMPTED}',
    closed_reason = NULL, attempts = 0, retry_at = %s,
    vehicle_id = NULL, driver_id = NULL, imported_at = NULL, plan_id = NULL, correction_id = NULL,
    distance_miles = NULL,
    arrived_at = (SELECT min(arrived_at) FROM visits WHERE route_id = r.id), updated_at = clock_timestamp()
"""  # noqa: S608 (constants of this module)
"""The assignments that bring a route `r` back to before its import. Its one parameter is when that is due."""


# Canceled, ended, or back to before its import


class _Status(NamedTuple):
    status: str


_LOCK = Statement(
    _Status, "SELECT status FROM routes WHERE company_id = %s AND environment = %s AND id = %s FOR UPDATE"
)


def cancel_route(
    connection: Connection, tenant: Tenant, route_id: str, *, now: datetime
) -> tuple[CancelEffect | None, list[Job]]:
    """DELETE of one route; the effect is None when the tenant has no such route. The jobs are for after the commit."""
    row = _LOCK.first(connection, (*tenant, route_id))
    if row is None:
        return None, []
    effect = effect_of_cancel(RouteStatus(row.status))
    if effect != "cancel":
        return effect, []
    cancel_routes(connection, [route_id], CANCELED_VIA_API)
    return effect, recheck_trucks(connection, [route_id], now=now)


_CANCEL = Command(
    "UPDATE routes SET status = 'canceled', closed_reason = %s, pending_reason = NULL, pending_detail = NULL,"
    " retry_at = NULL, updated_at = clock_timestamp() WHERE id = ANY(%s) AND status = ANY(%s)"
)


def cancel_routes(connection: Connection, route_ids: Sequence[str], reason: str) -> None:
    """Cancels those that may still be canceled, and leaves the others as they are."""
    _CANCEL.execute(connection, (reason, list(route_ids), sorted(CANCELABLE)))
    discard_messages(connection, route_ids, f"The route was canceled before delivery: {reason}")


_UNFINISHED = sorted(CANCELABLE | {RouteStatus.ACTIVE})


class UnfinishedRoute(NamedTuple):
    """A route that may still move."""

    id: str
    environment: str
    status: str


_OF_VEHICLES = (
    "SELECT id, environment, status FROM routes WHERE vehicle_id = ANY(%s) AND status = ANY(%s) ORDER BY id FOR UPDATE"
)
_OF_DRIVERS = (
    "SELECT id, environment, status FROM routes WHERE driver_id = ANY(%s) AND status = ANY(%s) ORDER BY id FOR UPDATE"
)
_LOCK_UNFINISHED: dict[Matched, Statement[UnfinishedRoute]] = {
    "vehicle": Statement(UnfinishedRoute, _OF_VEHICLES),
    "driver": Statement(UnfinishedRoute, _OF_DRIVERS),
}
_LOCK_FREE_UNFINISHED: dict[Matched, Statement[UnfinishedRoute]] = {
    "vehicle": Statement(UnfinishedRoute, _OF_VEHICLES + " SKIP LOCKED"),
    "driver": Statement(UnfinishedRoute, _OF_DRIVERS + " SKIP LOCKED"),
}


def lock_unfinished(
    connection: Connection, kind: Matched, record_ids: Sequence[str], *, wait: bool = True
) -> list[UnfinishedRoute]:
    """The routes of these vehicles or drivers that may still move. They are locked, all in the order of their ids.
    Those that somebody else has locked are left out unless told to `wait` for them: the next pass finds them."""
    statements = _LOCK_UNFINISHED if wait else _LOCK_FREE_UNFINISHED
    return statements[kind].all(connection, (list(record_ids), _UNFINISHED))


_FORGET_VISITS = Command("DELETE FROM visits WHERE route_id = ANY(%s)")
_START_OVER = Command(f"UPDATE routes r SET {START_OVER} WHERE id = ANY(%s)")  # noqa: S608


def match_again(connection: Connection, kind: Matched, route_ids: Sequence[str], *, now: datetime) -> None:
    """Locked routes of a retired vehicle or driver that are not active are to be imported again, by the caller:
    another record may fit, else they wait for a mapping."""
    ids = list(route_ids)
    if kind == "vehicle":  # another truck's visits are no visits
        _FORGET_VISITS.execute(connection, (ids,))
    _START_OVER.execute(connection, (now + SWEEP_GRACE, ids))
    discard_messages(connection, ids, f"The {kind} was retired before delivery")


_FAIL_ACTIVE = Command(
    "UPDATE routes SET status = 'error', closed_reason = %s, retry_at = NULL, updated_at = clock_timestamp()"
    " WHERE id = ANY(%s) AND status = 'active'"
)


def end_routes(connection: Connection, route_ids: Sequence[str], reason: str) -> None:
    """Whatever is not finished: what has not started is `canceled`, what is active becomes `error`."""
    cancel_routes(connection, route_ids, reason)
    _FAIL_ACTIVE.execute(connection, (reason, list(route_ids)))


_OF_A_COMPANY = (
    "SELECT id FROM routes WHERE company_id = %s AND environment IN ('live', 'sandbox')"
    " AND status = ANY(%s) ORDER BY id LIMIT %s FOR UPDATE"
)
_LOCK_OF_A_COMPANY = Statement(IdRow, _OF_A_COMPANY)
_LOCK_FREE_OF_A_COMPANY = Statement(IdRow, _OF_A_COMPANY + " SKIP LOCKED")


def unfinished_routes(connection: Connection, company_id: str, *, limit: int, wait: bool = True) -> list[str]:
    """Some of a company's routes that may still move, in both environments. They are locked; `wait` as above."""
    statement = _LOCK_OF_A_COMPANY if wait else _LOCK_FREE_OF_A_COMPANY
    return [row.id for row in statement.all(connection, (company_id, _UNFINISHED, limit))]
