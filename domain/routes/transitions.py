"""Transitions of a route after its import: one function for each change of its status.

Each is a step inside the caller's transaction. `lifecycle` lists the changes of status that are allowed.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, get_args
from uuid import UUID

from domain.backoff import RETRY_WAIT
from domain.burn.learning import let_trips_wait
from domain.database.connections import Connection, Tenant
from domain.database.fence import is_at_work
from domain.database.statements import Command, Parameters, Scalar, Statement
from domain.driven_lanes.learning import note_completed
from domain.fills.stored_verdicts import drop_verdicts, update_verdicts
from domain.fleet.matching import Matched
from domain.lifecycle import CANCELABLE, CANCELED_VIA_API, CancelEffect, RouteStatus, effect_of_cancel
from domain.messages.discarding import discard_messages
from domain.planning.stored_plans import ROAD_MILES
from domain.queue.jobs import SWEEP_GRACE
from domain.routes import events
from domain.routes.visits import FUEL_VISITS
from domain.savings.recording import drop_savings, record_savings
from domain.telematics.rechecks import recheck_trucks
from domain.telematics.tracks import free_trucks

NOT_ATTEMPTED = "Accepted and stored; the import has not been attempted yet. Nothing needs to be resent."

START_OVER = f"""
    revision = r.revision + 1,
    status = 'pending', pending_reason = 'not_attempted', pending_detail = '{NOT_ATTEMPTED}',
    closed_reason = NULL, attempts = 0, retry_at = %s,
    former_vehicle_id = coalesce(r.vehicle_id, r.former_vehicle_id),
    vehicle_id = NULL, driver_id = NULL, imported_at = NULL, plan_id = NULL, correction_id = NULL, corrected_at = NULL,
    review_at = NULL, review_cause = NULL, replan = NULL, fuel_visits = NULL, distance_miles = NULL,
    arrived_at = (SELECT min(arrived_at) FROM visits WHERE route_id = r.id), updated_at = clock_timestamp()
"""
"""The assignments that bring a route `r` back to before its import. The one parameter is when that import is due.

Its visits and its former truck stay until the import decides which visits could have begun the present route, and
whether the route lets that truck go. Until then no other draft of the truck starts. So a route that is pushed again
while its truck is at the first stop keeps it."""


# The ways to end


def end(
    connection: Connection, ending: Scalar[UUID], parameters: Parameters, undelivered: str, *, now: datetime
) -> list[UUID]:
    """Ends routes short of their last stop by the statement `ending`, which returns their ids. Every such end passes
    through here. Messages on their way to the drivers are not delivered, for the reason `undelivered`. The savings of
    the routes are deleted. Their trucks are processed again, because each may stand at the first stop of its next route
    and send nothing more.

    Locks tracks, so the caller locks no further routes. Returns the ids.
    """
    ids = end_but_keep_trucks(connection, ending, parameters, undelivered)
    recheck_trucks(connection, ids, now=now)
    return ids


def end_but_keep_trucks(
    connection: Connection, ending: Scalar[UUID], parameters: Parameters, undelivered: str
) -> list[UUID]:
    """Ends routes like `end`, for a caller that locks further routes, and afterwards has the trucks processed again by
    `recheck_trucks`."""
    ids = ending.all(connection, parameters)
    if ids:
        discard_messages(connection, ids, undelivered)
        drop_savings(connection, ids)
        drop_verdicts(connection, ids)
    return ids


# Canceled, ended, or back to before its import


_LOCK = Scalar(str, "SELECT status FROM routes WHERE company_id = %s AND environment = %s AND id = %s FOR UPDATE")


def cancel_route(
    connection: Connection, tenant: Tenant, route_id: UUID, *, now: datetime, reason: str = CANCELED_VIA_API
) -> CancelEffect | None:
    """Cancels one route, for the API's DELETE or for a dispatcher in the console. Returns its effect; None: the tenant
    has no such route."""
    status = _LOCK.first(connection, (*tenant, route_id))
    if status is None:
        return None
    effect = effect_of_cancel(RouteStatus(status))
    if effect == "cancel":
        end(connection, CANCEL, *canceling([route_id], reason), now=now)
    return effect


CANCEL = Scalar(
    UUID,
    "UPDATE routes SET status = 'canceled', closed_reason = %s, pending_reason = NULL, pending_detail = NULL,"
    " retry_at = NULL, updated_at = clock_timestamp() WHERE id = ANY(%s) AND status = ANY(%s) RETURNING id",
)
"""Cancels the routes that may still be canceled, and leaves the others as they are."""


def canceling(route_ids: Sequence[UUID], reason: str) -> tuple[Parameters, str]:
    """The arguments of `end` that follow CANCEL."""
    return (reason, list(route_ids), sorted(CANCELABLE)), f"The route was canceled before delivery: {reason}"


_UNFINISHED = sorted(CANCELABLE | {RouteStatus.ACTIVE})


class UnfinishedRoute(NamedTuple):
    """A route that may still move."""

    id: UUID
    environment: str
    status: str


_WAITING = "FOR UPDATE"
_SKIPPING = "FOR UPDATE SKIP LOCKED"
_LOCK_UNFINISHED = {
    (kind, lock): Statement(
        UnfinishedRoute,
        f"SELECT id, environment, status FROM routes WHERE {kind}_id = ANY(%s) AND status = ANY(%s) ORDER BY id {lock}",
    )
    for kind in get_args(Matched)
    for lock in (_WAITING, _SKIPPING)
}
_LOCK_COMPANYS_UNFINISHED = {
    lock: Scalar(
        UUID,
        "SELECT id FROM routes WHERE company_id = %s AND environment IN ('live', 'sandbox')"
        f" AND status = ANY(%s) ORDER BY id LIMIT %s {lock}",
    )
    for lock in (_WAITING, _SKIPPING)
}


def lock_unfinished(
    connection: Connection, kind: Matched, record_ids: Sequence[UUID], *, wait: bool = True
) -> list[UnfinishedRoute]:
    """The routes of these vehicles or drivers that may still move, locked in the order of their ids. Without `wait`,
    routes that another transaction has locked are left out: the next pass finds them."""
    lock = _WAITING if wait else _SKIPPING
    return _LOCK_UNFINISHED[kind, lock].all(connection, (list(record_ids), _UNFINISHED))


def unfinished_routes(connection: Connection, company_id: UUID, *, limit: int, wait: bool = True) -> list[UUID]:
    """Some of a company's routes that may still move, in both environments, locked; `wait` as in `lock_unfinished`."""
    lock = _WAITING if wait else _SKIPPING
    return _LOCK_COMPANYS_UNFINISHED[lock].all(connection, (company_id, _UNFINISHED, limit))


_START_OVER = Command(f"UPDATE routes r SET {START_OVER} WHERE id = ANY(%s)")


def match_again(connection: Connection, kind: Matched, route_ids: Sequence[UUID], *, now: datetime) -> None:
    """Brings routes of a retired vehicle or driver back to before their import. The caller has them imported again:
    another record may fit, or they wait for a mapping. They are locked, and none of them is active."""
    ids = list(route_ids)
    _START_OVER.execute(connection, (now + SWEEP_GRACE, ids))
    discard_messages(connection, ids, f"The {kind} was retired before delivery")


_END = Scalar(
    UUID,
    "UPDATE routes SET status = CASE status WHEN 'active' THEN 'error' ELSE 'canceled' END, closed_reason = %s,"
    " pending_reason = NULL, pending_detail = NULL, retry_at = NULL, updated_at = clock_timestamp()"
    " WHERE id = ANY(%s) AND status = ANY(%s) RETURNING id",
)


def end_routes(connection: Connection, route_ids: Sequence[UUID], reason: str, *, now: datetime) -> None:
    """Ends routes that are not finished: `active` ones become `error`, the others `canceled`."""
    undelivered = f"The route was canceled before delivery: {reason}"
    end(connection, _END, (reason, list(route_ids), _UNFINISHED), undelivered, now=now)


# A fuel plan is made: planned, or error

_LOCK_FOR_PLAN = Command(
    "SELECT FROM routes WHERE id = %s AND status = 'draft' AND revision = %s AND arrived_at IS NOT NULL FOR UPDATE"
)

_PLANNED = Command(
    "UPDATE routes SET status = 'planned', plan_id = %s, distance_miles = %s, attempts = 0, retry_at = NULL,"
    " updated_at = clock_timestamp() WHERE id = %s"
)

_NO_PLAN = Scalar(
    UUID,
    "UPDATE routes SET status = 'error', closed_reason = %s, plan_id = %s, distance_miles = %s, attempts = 0,"
    " retry_at = NULL, updated_at = clock_timestamp() WHERE id = %s RETURNING id",
)


_RETRY_PLAN = Scalar(
    int,
    f"""
    UPDATE routes SET attempts = attempts + 1, retry_at = %(now)s::timestamptz + {RETRY_WAIT}
    WHERE id = %(id)s AND status = 'draft' AND arrived_at IS NOT NULL
    RETURNING attempts
    """,
)

_PLANNING_ENDED = Scalar(
    UUID,
    "UPDATE routes SET status = 'error', closed_reason = %s, retry_at = NULL, updated_at = clock_timestamp()"
    " WHERE id = %s RETURNING id",
)
_PLAN_LATER = Command(
    "UPDATE routes SET retry_at = %s WHERE id = %s AND revision = %s AND status = 'draft' AND arrived_at IS NOT NULL"
)
_UNPLANNED = "The route ended without a plan before delivery"


def lock_for_plan(connection: Connection, route_id: UUID, revision: int) -> bool:
    """True if the route still waits for the plan of this revision of its input; it is locked then."""
    return _LOCK_FOR_PLAN.first(connection, (route_id, revision)) is not None


def planned(connection: Connection, route_id: UUID, plan_id: UUID, distance_miles: float) -> None:
    """Gives a locked draft its plan."""
    _PLANNED.execute(connection, (plan_id, distance_miles, route_id))


def plan_later(connection: Connection, route_id: UUID, revision: int, *, at: datetime) -> None:
    """Makes a draft whose truck has arrived wait for its plan until `at`."""
    _PLAN_LATER.execute(connection, (at, route_id, revision))


def no_plan_feasible(
    connection: Connection, route_id: UUID, plan_id: UUID, distance_miles: float, reason: str, *, now: datetime
) -> None:
    """A locked draft ends as `error`. The stored attempt, `plan_id`, explains why."""
    parameters = (f"No feasible fuel plan: {reason}", plan_id, distance_miles, route_id)
    end(connection, _NO_PLAN, parameters, _UNPLANNED, now=now)


def planning_failed(connection: Connection, route_id: UUID, *, max_attempts: int, now: datetime) -> None:
    """An attempt at a plan failed unexpectedly: it is repeated after a growing wait, then the route is `error`."""
    attempts = _RETRY_PLAN.first(connection, {"now": now, "id": route_id})
    if attempts is None:
        return
    events.record_event(connection, route_id, "plan_failed", "it failed on our side; see the log", now=now)
    if attempts >= max_attempts:
        reason = f"Planning failed {attempts} times; see the log. Push the route again to retry."
        end(connection, _PLANNING_ENDED, (reason, route_id), _UNPLANNED, now=now)


# The message of its plan was sent, or failed for good

_ACTIVATE = Scalar(
    UUID,
    f"""
    UPDATE routes r SET status = 'active', retry_at = NULL, fuel_visits = {FUEL_VISITS}, updated_at = clock_timestamp()
    FROM plans p
    WHERE r.id = %s AND r.plan_id = %s AND p.id = r.plan_id AND r.status = 'planned'
    RETURNING r.id
    """,
)

_CORRECT = Scalar(
    UUID,
    f"""
    UPDATE routes r SET plan_id = p.id, distance_miles = {ROAD_MILES}, fuel_visits = {FUEL_VISITS},
        correction_id = NULL, corrected_at = %s, replan = NULL, updated_at = clock_timestamp()
    FROM plans p
    WHERE r.id = %s AND r.correction_id = %s AND p.id = r.correction_id AND r.status IN ('active', 'completed')
    RETURNING r.id
    """,
)


_COMPLETED_MEANWHILE = Command("SELECT FROM routes WHERE id = %s AND plan_id = %s AND status = 'completed'")
"""Finds a route whose truck was at the last stop before its message was handed over."""


def driver_has_plan(connection: Connection, route_id: UUID, plan_id: UUID, *, now: datetime) -> bool:
    """The driver has this plan, by its message or since he asked for it on his page: a planned route becomes active,
    and a correction becomes the plan that is shown. Any other plan of the route changes nothing. Returns True if the
    route is on its way with the plan from now on."""
    route_and_plan = (route_id, plan_id)
    is_new = (
        _ACTIVATE.first(connection, route_and_plan) is not None
        or _CORRECT.first(connection, (now, *route_and_plan)) is not None
    )
    if is_new or _COMPLETED_MEANWHILE.first(connection, route_and_plan) is not None:
        record_savings(connection, route_id)
        update_verdicts(connection, [route_id], lock=False)
    return is_new


_DROP_CORRECTION = Scalar(
    UUID, "UPDATE routes SET correction_id = NULL, replan = NULL WHERE id = %s AND correction_id = %s RETURNING id"
)


def message_given_up(connection: Connection, route_id: UUID, plan_id: UUID) -> bool:
    """Stores that the driver cannot be given this plan. If it is a correction, the plan that was sent stays, and
    another correction may follow. A planned route stays as it is, and so does a driver who has the plan by his page.
    Returns True if it was a correction."""
    return _DROP_CORRECTION.first(connection, (route_id, plan_id)) is not None


# The truck on its way: the first arrival, the last stop, no stop for weeks


class _ArrivedRoute(NamedTuple):
    id: UUID
    status: str


_STORE_FIRST_ARRIVALS = Statement(
    _ArrivedRoute,
    """
    UPDATE routes r SET arrived_at = first.arrived_at, updated_at = clock_timestamp(),
        retry_at = CASE WHEN r.arrived_at IS NULL AND r.status = 'draft' THEN %(due)s ELSE r.retry_at END
    FROM (SELECT route_id, min(arrived_at) AS arrived_at FROM visits WHERE route_id = ANY(%(ids)s) GROUP BY 1) AS first
    WHERE r.id = ANY(%(ids)s) AND r.id = first.route_id
    RETURNING r.id, r.status
    """,
)


def store_first_arrivals(connection: Connection, route_ids: Sequence[UUID], *, now: datetime) -> set[UUID]:
    """Sets the arrival of each of these routes to the first of its visits, which have just changed.

    Returns those of the routes that are drafts: they wait for a plan.
    """
    if not route_ids:
        return set()
    rows = _STORE_FIRST_ARRIVALS.all(connection, {"due": now + SWEEP_GRACE, "ids": list(route_ids)})
    return {row.id for row in rows if row.status == RouteStatus.DRAFT}


_COMPLETE = Scalar(
    UUID,
    """
    UPDATE routes r SET status = 'completed', completed_at = v.arrived_at, retry_at = NULL,
                        updated_at = clock_timestamp()
    FROM visits v
    WHERE r.id = ANY(%s) AND v.route_id = r.id AND v.stop = jsonb_array_length(r.stops) - 1
      AND (r.status = 'active' OR r.status = 'planned' AND EXISTS (
          SELECT FROM messages m WHERE m.plan_id = r.plan_id
          AND (m.status = 'failed' OR m.status = 'pending' AND (m.attempts > 0 OR m.withheld_since IS NOT NULL))))
    RETURNING r.id
    """,
)


def complete_routes(connection: Connection, route_ids: Iterable[UUID], *, now: datetime) -> None:
    """Completes those of the routes whose truck has reached the last stop. A planned route must wait until its message
    was tried at least once, or is withheld. The trucks are processed again: each may already stand at the first stop of
    its next route.
    """
    ids = list(route_ids)
    if not ids:
        return
    completed = _COMPLETE.all(connection, (ids,))
    if not completed:
        return
    note_completed(connection, completed)
    let_trips_wait(connection, completed)
    discard_messages(connection, completed, "The route was completed before delivery")
    update_verdicts(connection, completed, lock=False)
    free_trucks(connection, completed, now=now)


_EXPIRE_STARTED = Scalar(
    UUID,
    f"""
    UPDATE routes r SET status = 'error', retry_at = NULL, review_at = NULL, updated_at = clock_timestamp(),
        closed_reason = CASE status WHEN 'draft' THEN 'Without a plan' ELSE initcap(status) END
                        || ', and no stop was reached for ' || %(days)s || ' days'
    WHERE id = ANY(ARRAY(
        SELECT id FROM routes o
        WHERE (status IN ('planned','active') OR status = 'draft' AND arrived_at IS NOT NULL)
          AND imported_at < %(since)s AND {is_at_work("o.company_id")}
          AND NOT EXISTS (SELECT FROM visits v WHERE v.route_id = o.id AND v.stored_at >= %(since)s OFFSET 0)
        FOR UPDATE SKIP LOCKED))
    RETURNING id
    """,
)


def expire_started_routes(connection: Connection, *, expiry_days: float, now: datetime) -> int:
    """Started routes whose truck has reached and left no stop for so many days become `error`, so that its next route
    can start. Only visits show that a truck is on its way; new plans and messages do not.

    Returns how many.
    """
    parameters = {"days": expiry_days, "since": now - timedelta(days=expiry_days)}
    undelivered = "The route was closed before delivery: its truck reached no stop"
    return len(end(connection, _EXPIRE_STARTED, parameters, undelivered, now=now))
