"""A route gets its fuel plan: the plan is stored, the route moves on, and its message is queued, in one transaction."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from domain.database import Connection
from domain.messages.new_messages import queue_message
from domain.planning.directions import directions_of
from domain.planning.fuel_plan import ComputedPlan, NoPlan
from domain.planning.plan_tasks import PlanTask, RouteToPlan
from domain.planning.stored_plans import store_plan
from domain.queue.jobs import Job, send_message_job
from domain.routes import transitions
from domain.statements import OwnedRow, Statement, in_turns
from domain.stations.corridor_offers import Corridor

PlanOutcome = Literal["planned", "infeasible", "outdated"]


def finish_plan(
    connection: Connection, task: PlanTask, corridor: Corridor, plan: ComputedPlan | NoPlan, *, now: datetime
) -> tuple[PlanOutcome, list[Job]]:
    """Stores a first plan and its message, and moves the route on: `planned`, or `error` where no plan is feasible.

    Returns the outcome and the jobs to enqueue after the commit. `outdated`: the route was changed while the plan was
    computed, so nothing is stored. The change of the route has enqueued the work that is due now.
    """
    route = task.route
    if not transitions.lock_for_plan(connection, route.id, route.revision):
        return "outdated", []
    plan_id = store_plan(connection, task, corridor, plan, now=now)
    if isinstance(plan, NoPlan):
        reason, road_miles = plan.infeasible.reason, plan.inputs.road_miles
        return "infeasible", transitions.no_plan_feasible(connection, route.id, plan_id, road_miles, reason, now=now)
    transitions.planned(connection, route.id, plan_id, plan.inputs.road_miles)
    return "planned", [queue_message_of(connection, route, plan_id, plan, now=now)]


def queue_message_of(
    connection: Connection, route: RouteToPlan, plan_id: UUID, plan: ComputedPlan, *, now: datetime
) -> Job:
    """Stores the message that tells the driver of a stored plan. Returns the job that sends it."""
    return send_message_job(
        queue_message(
            connection,
            route,
            plan_id,
            plan.document(),
            road_miles=plan.inputs.road_miles,
            now=now,
            directions=directions_of(plan),
            low_fuel=plan.is_low_on_fuel,
        ),
        route.company_id,
    )


_DUE_PLANS = Statement(
    OwnedRow,
    in_turns(
        "id, company_id",
        "SELECT id, company_id, retry_at AS since FROM routes"
        " WHERE status = 'draft' AND arrived_at IS NOT NULL AND retry_at <= %s",
    ),
)


def due_plans(connection: Connection, *, now: datetime, limit: int = 10_000) -> dict[UUID, UUID]:
    """Routes whose plan is due, each with its company: its job was lost, or its next attempt is due."""
    return dict(_DUE_PLANS.all(connection, (now, limit)))
