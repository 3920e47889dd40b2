"""What may happen to a route after its import: one function for each change of its status.

Each is a step inside the caller's transaction. Which status may follow which is in `lifecycle`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from domain.database import Connection, Tenant
from domain.fleet.matching import Matched
from domain.jobs import SWEEP_GRACE, Job
from domain.lifecycle import CANCELABLE, CANCELED_VIA_API, CancelEffect, RouteStatus, effect_of_cancel
from domain.messages.discarding import discard_messages
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


def cancel_route(
    connection: Connection, tenant: Tenant, route_id: str, *, now: datetime
) -> tuple[CancelEffect | None, list[Job]]:
    """DELETE of one route; the effect is None when the tenant has no such route. The jobs are for after the commit."""
    row = connection.execute(
        "SELECT status FROM routes WHERE company_id = %s AND environment = %s AND id = %s FOR UPDATE",
        (*tenant, route_id),
    ).fetchone()
    if row is None:
        return None, []
    effect = effect_of_cancel(RouteStatus(row.status))
    if effect != "cancel":
        return effect, []
    cancel_routes(connection, [route_id], CANCELED_VIA_API)
    return effect, recheck_trucks(connection, [route_id], now=now)


def cancel_routes(connection: Connection, route_ids: Sequence[str], reason: str) -> None:
    """Cancels those that may still be canceled, and leaves the others as they are."""
    connection.execute(
        "UPDATE routes SET status = 'canceled', closed_reason = %s, pending_reason = NULL, pending_detail = NULL,"
        " retry_at = NULL, updated_at = clock_timestamp() WHERE id = ANY(%s) AND status = ANY(%s)",
        (reason, list(route_ids), sorted(CANCELABLE)),
    )
    discard_messages(connection, route_ids, f"The route was canceled before delivery: {reason}")


_UNFINISHED = sorted(CANCELABLE | {RouteStatus.ACTIVE})


def _lock(wait: bool) -> str:
    """What a pass does not wait for is found by the next one."""
    return "FOR UPDATE" if wait else "FOR UPDATE SKIP LOCKED"


def lock_unfinished(
    connection: Connection, kind: Matched, record_ids: Sequence[str], *, wait: bool = True
) -> list[Any]:
    """The routes of these vehicles or drivers that may still move: id, environment, status. They are locked, all in
    the order of their ids; those that somebody else has locked are left out unless told to `wait` for them."""
    return connection.execute(
        f"SELECT id, environment, status FROM routes WHERE {kind}_id = ANY(%s) AND status = ANY(%s)"  # noqa: S608
        f" ORDER BY id {_lock(wait)}",
        (list(record_ids), _UNFINISHED),
    ).fetchall()


def match_again(connection: Connection, kind: Matched, route_ids: Sequence[str], *, now: datetime) -> None:
    """Locked routes of a retired vehicle or driver that are not active are to be imported again, by the caller:
    another record may fit, else they wait for a mapping."""
    ids = list(route_ids)
    if kind == "vehicle":  # another truck's visits are no visits
        connection.execute("DELETE FROM visits WHERE route_id = ANY(%s)", (ids,))
    connection.execute(f"UPDATE routes r SET {START_OVER} WHERE id = ANY(%s)", (now + SWEEP_GRACE, ids))  # noqa: S608
    discard_messages(connection, ids, f"The {kind} was retired before delivery")


def end_routes(connection: Connection, route_ids: Sequence[str], reason: str) -> None:
    """Whatever is not finished: what has not started is `canceled`, what is active becomes `error`."""
    cancel_routes(connection, route_ids, reason)
    connection.execute(
        "UPDATE routes SET status = 'error', closed_reason = %s, retry_at = NULL, updated_at = clock_timestamp()"
        " WHERE id = ANY(%s) AND status = 'active'",
        (reason, list(route_ids)),
    )


def unfinished_routes(connection: Connection, company_id: str, *, limit: int, wait: bool = True) -> list[str]:
    """Some of a company's routes that may still move, in both environments. They are locked; `wait` as above."""
    rows = connection.execute(
        "SELECT id FROM routes WHERE company_id = %s AND environment IN ('live', 'sandbox')"  # noqa: S608
        f" AND status = ANY(%s) ORDER BY id LIMIT %s {_lock(wait)}",
        (company_id, _UNFINISHED, limit),
    ).fetchall()
    return [row.id for row in rows]
