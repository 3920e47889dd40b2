"""What may happen to a route after its import: one function for each change of its status.

Each is a step inside the caller's transaction. Which status may follow which is in `lifecycle`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, get_args

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
    """DELETE of one route. Returns its effect (None: the tenant has no such route) and jobs for after the commit."""
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


_WAITING = "FOR UPDATE"
_SKIPPING = "FOR UPDATE SKIP LOCKED"
_LOCK_UNFINISHED = {
    (kind, lock): Statement(
        UnfinishedRoute,
        f"SELECT id, environment, status FROM routes WHERE {kind}_id = ANY(%s) AND status = ANY(%s)"  # noqa: S608
        f" ORDER BY id {lock}",
    )
    for kind in get_args(Matched)
    for lock in (_WAITING, _SKIPPING)
}
_LOCK_COMPANYS_UNFINISHED = {
    lock: Statement(
        IdRow,
        "SELECT id FROM routes WHERE company_id = %s AND environment IN ('live', 'sandbox')"  # noqa: S608
        f" AND status = ANY(%s) ORDER BY id LIMIT %s {lock}",
    )
    for lock in (_WAITING, _SKIPPING)
}


def lock_unfinished(
    connection: Connection, kind: Matched, record_ids: Sequence[str], *, wait: bool = True
) -> list[UnfinishedRoute]:
    """The routes of these vehicles or drivers that may still move. They are locked, in the order of their ids.

    Without `wait`, those that another transaction has locked are left out: the next pass finds them.
    """
    lock = _WAITING if wait else _SKIPPING
    return _LOCK_UNFINISHED[kind, lock].all(connection, (list(record_ids), _UNFINISHED))


def unfinished_routes(connection: Connection, company_id: str, *, limit: int, wait: bool = True) -> list[str]:
    """Some of a company's routes that may still move, in both environments. They are locked; `wait` as above."""
    lock = _WAITING if wait else _SKIPPING
    return [row.id for row in _LOCK_COMPANYS_UNFINISHED[lock].all(connection, (company_id, _UNFINISHED, limit))]


_FORGET_VISITS = Command("DELETE FROM visits WHERE route_id = ANY(%s)")
_START_OVER = Command(f"UPDATE routes r SET {START_OVER} WHERE id = ANY(%s)")  # noqa: S608


def match_again(connection: Connection, kind: Matched, route_ids: Sequence[str], *, now: datetime) -> None:
    """Brings routes of a retired vehicle or driver back to before their import. The caller has them imported again:
    another record may fit, else they wait for a mapping. They are locked, and none of them is active."""
    ids = list(route_ids)
    if kind == "vehicle":  # the visits of the retired truck are not those of the next one
        _FORGET_VISITS.execute(connection, (ids,))
    _START_OVER.execute(connection, (now + SWEEP_GRACE, ids))
    discard_messages(connection, ids, f"The {kind} was retired before delivery")


_FAIL_ACTIVE = Command(
    "UPDATE routes SET status = 'error', closed_reason = %s, retry_at = NULL, updated_at = clock_timestamp()"
    " WHERE id = ANY(%s) AND status = 'active'"
)


def end_routes(connection: Connection, route_ids: Sequence[str], reason: str) -> None:
    """Ends routes that are not finished: `active` ones become `error`, the others `canceled`."""
    cancel_routes(connection, route_ids, reason)
    _FAIL_ACTIVE.execute(connection, (reason, list(route_ids)))
