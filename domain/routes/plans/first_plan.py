"""Gives a route its fuel plan: stores the plan, moves the route on, and queues its message, in one transaction."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import OwnedRow, Statement, in_turns
from domain.documents import PlanCause
from domain.languages.tags import Language
from domain.languages.words import Words, text_to_say, words_for
from domain.messages.new_messages import queue_message
from domain.planning.directions import directions_of
from domain.planning.fuel_plan import ComputedPlan, NoPlan
from domain.planning.plan_tasks import PlanTask, RouteToPlan, load_plan_task
from domain.planning.stored_plans import await_menu, store_plan
from domain.queue.jobs import SWEEP_GRACE, after_commit, build_plan_job, make_menu_job, send_message_job
from domain.routes import transitions
from domain.routes.plans import review_requests
from domain.routes.plans.closed_meanwhile import is_closed_meanwhile
from domain.stations.corridor_offers import Corridor
from domain.stations.price_sets import newest_price_set

PlanOutcome = Literal["planned", "infeasible", "outdated"]


def begin_plan(connection: Connection, route_id: UUID, *, wait: timedelta, now: datetime) -> PlanTask | None:
    """The task of a route's first plan. None if no plan is due, or if it waits for the truck's next fuel level because
    miles and time do not explain the newest one. After `wait` the plan is made by the level before, less the fuel
    burned since."""
    task = load_plan_task(connection, route_id, now=now)
    if task is not None and task.fuel is not None and task.fuel.doubted is not None:
        return None if _wait_for_level(connection, task, wait=wait, now=now) else task
    return task


def without_disputed_level(
    connection: Connection, task: PlanTask, *, wait: timedelta, now: datetime
) -> PlanTask | Literal["certain", "waits"]:
    """The task to try when no plan is feasible with this one: with the policy's assumed level, because no route may end
    in error on a level that one reading alone says, or that the newest reading contradicts. `waits`: the next level may
    come soon."""
    if task.fuel is None or task.fuel.disputed_since is None:
        return "certain"
    return "waits" if _wait_for_level(connection, task, wait=wait, now=now) else replace(task, fuel=None)


def _wait_for_level(connection: Connection, task: PlanTask, *, wait: timedelta, now: datetime) -> bool:
    since = task.fuel.disputed_since if task.fuel is not None else None
    if since is None or since + wait <= now:
        return False
    transitions.plan_later(connection, task.route.id, task.route.revision, at=since + wait)
    return True


_AWAITED = Statement(
    OwnedRow,
    "SELECT id, company_id FROM routes WHERE id = ANY(%s) AND status = 'draft' AND arrived_at IS NOT NULL"
    " AND attempts = 0 AND retry_at > %s",
)


def plan_with_new_levels(connection: Connection, route_ids: Sequence[UUID], *, now: datetime) -> None:
    """Makes the plans that wait for a fuel level, after the commit: new fixes may have brought it."""
    if route_ids:
        rows = _AWAITED.all(connection, (list(route_ids), now + SWEEP_GRACE))
        after_commit(connection, *(build_plan_job(row.id, row.company_id) for row in rows))


def finish_plan(
    connection: Connection, task: PlanTask, corridor: Corridor, plan: ComputedPlan | NoPlan, *, now: datetime
) -> PlanOutcome:
    """Stores a first plan and its message, and moves the route on: `planned`, or `error` where no plan is feasible.

    `outdated`: nothing is stored. The route was changed while the plan was computed, and the change has enqueued the
    work that is due now; or a station of the plan was closed, and the plan is computed once more.

    Prices that came meanwhile have the plan reviewed: reviews were asked for only where a route had a plan by then.
    """
    route = task.route
    if not transitions.lock_for_plan(connection, route.id, route.revision):
        return "outdated"
    if is_closed_meanwhile(connection, route, plan, now=now):
        transitions.plan_later(connection, route.id, route.revision, at=now + SWEEP_GRACE)
        after_commit(connection, build_plan_job(route.id, route.company_id))
        return "outdated"
    plan_id = store_plan(connection, task, corridor, plan, now=now)
    if isinstance(plan, NoPlan):
        reason, road_miles = plan.infeasible.reason, plan.inputs.road_miles
        transitions.no_plan_feasible(connection, route.id, plan_id, road_miles, reason, now=now)
        return "infeasible"
    transitions.planned(connection, route.id, plan_id, plan.inputs.road_miles)
    queue_message_of(connection, route, plan_id, plan, now=now)
    if newest_price_set(connection, route.company_id) != (corridor.price_set or 0):
        review_requests.of_routes(connection, [route.id], now=now)
    return "planned"


def queue_message_of(
    connection: Connection,
    route: RouteToPlan,
    plan_id: UUID,
    plan: ComputedPlan,
    *,
    now: datetime,
    why: PlanCause | None = None,
) -> None:
    """Stores the message that tells the driver of a stored plan, and why he gets another one, if he should know. It is
    sent after the commit, and then the plan gets its menu."""
    words = words_for(route.language, route.time_zone)
    message_id = queue_message(
        connection,
        route,
        plan_id,
        plan.document(),
        road_miles=plan.inputs.road_miles,
        now=now,
        directions=directions_of(plan, words, tells_prices=route.prices_for_drivers),
        low_fuel=plan.is_low_on_fuel,
        why=_in_words(why, words) if why is not None else "",
        words=words,
    )
    await_menu(connection, plan_id, now=now)
    after_commit(connection, send_message_job(message_id, route.company_id), make_menu_job(plan_id, route.company_id))


_CAUSES = {
    "station_closed": text_to_say("a planned fuel stop cannot be used"),
    "refused": text_to_say("a planned fuel stop cannot be used"),
    "burn": text_to_say("the truck burns more fuel than planned"),
    "level": text_to_say("the next fill needs a higher level than planned"),
    "choice": text_to_say("another plan was chosen"),
}
_OTHER_CAUSE = text_to_say("the plan has changed")


def _in_words(cause: PlanCause, words: Words) -> str:
    """The cause for the driver. Its sentence, with all figures, is stored in English; other languages name its kind."""
    if words.language is Language.ENGLISH:
        return cause["text"]
    return words.say(_CAUSES.get(cause["kind"], _OTHER_CAUSE))


_DUE_PLANS = Statement(
    OwnedRow,
    in_turns(
        "id, company_id",
        "SELECT id, company_id, retry_at AS since FROM routes"
        " WHERE status = 'draft' AND arrived_at IS NOT NULL AND retry_at <= %s",
    ),
)


def due_plans(connection: Connection, *, now: datetime, limit: int = 10_000) -> dict[UUID, UUID]:
    """Routes whose plan is due, each with its company: the job was lost, or the next attempt is due."""
    return dict(_DUE_PLANS.all(connection, (now, limit)))
