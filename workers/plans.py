"""The plans queue: the fuel plan of a route whose truck has arrived, its review when fuel or prices change, and the
plan that is made anew on the way."""

from datetime import UTC, datetime
from uuid import UUID

import dramatiq
from psycopg.errors import LockNotAvailable

from domain.database import is_away
from domain.observability import PLANS_MADE, get_logger
from domain.planning.fuel_plan import ComputedPlan, NoPlan
from domain.planning.plan_tasks import PlanTask, load_plan_task, road_ahead
from domain.planning.relaxation import FURTHEST_DETOUR_MILES
from domain.planning.stored_plans import plan_for_task
from domain.routes import transitions
from domain.routes.plans import first_plan, replans, reviews
from domain.routes.plans.replans import Replan, ReplanOutcome
from domain.routes.plans.reviews import ReviewOutcome
from domain.stations.candidates import Corridor, offers_along
from workers.context import Context

log = get_logger(__name__)


def register(broker: dramatiq.Broker, context: Context) -> None:
    database, roads, network = context.database, context.roads, context.network

    def made(task: PlanTask, now: datetime) -> tuple[Corridor, ComputedPlan | NoPlan]:
        """No transaction is open while the road is looked up, the plan is computed and its explanation is packed."""
        road = road_ahead(task, roads).up_to(context.settings.plan_horizon_miles)
        route = task.route

        def corridor_within(miles: float) -> Corridor:
            with database.transaction_by_key(snapshot=True) as connection:
                return offers_along(connection, route.company_id, road, miles, network, now=now)

        corridor = corridor_within(route.max_detour_miles)
        plan = plan_for_task(task, road, corridor, now=now)
        if isinstance(plan, NoPlan):
            further = corridor_within(max(route.max_detour_miles, FURTHEST_DETOUR_MILES))
            plan = plan_for_task(task, road, corridor, further=further, now=now)
        _ = plan.packed_explanation
        return corridor, plan

    @dramatiq.actor(broker=broker, actor_name="plans.build", queue_name="plans")
    def build(route_id: str) -> None:
        build_one(UUID(route_id))

    def build_one(route_id: UUID) -> None:
        now = datetime.now(UTC)
        try:
            with database.transaction_by_key() as connection:
                task = load_plan_task(connection, route_id, now=now)
            if task is None:
                return
            corridor, plan = made(task, now)
            with database.transaction_by_key() as connection:
                outcome, jobs = first_plan.finish_plan(connection, task, corridor, plan, now=now)
        except Exception as error:
            if _is_no_fault(error):
                raise
            log.exception("plans.failed", route_id=route_id)
            with database.transaction() as connection:
                jobs = transitions.planning_failed(
                    connection, route_id, max_attempts=context.settings.step_attempts, now=now
                )
            context.jobs.put(*jobs)
            return
        context.jobs.put(*jobs)
        PLANS_MADE.labels(outcome).inc()
        log.info("plans.built", route_id=route_id, outcome=outcome)

    @dramatiq.actor(broker=broker, actor_name="plans.review", queue_name="plans")
    def review(route_id: str) -> None:
        review_one(UUID(route_id))

    def review_one(route_id: UUID) -> None:
        now = datetime.now(UTC)
        try:
            with database.transaction_by_key() as connection:
                due = replans.begin_replan(connection, route_id, now=now) or reviews.begin_review(
                    connection, route_id, now=now
                )
            if due is None:
                return
            corridor, plan = made(due.task, now)
            outcome: ReviewOutcome | ReplanOutcome
            with database.transaction_by_key() as connection:
                if isinstance(due, Replan):
                    outcome, jobs = replans.finish_replan(connection, due, corridor, plan, now=now)
                else:
                    outcome, jobs = reviews.finish_review(connection, due, corridor, plan, now=now)
        except Exception as error:
            if _is_no_fault(error):
                raise
            log.exception("plans.review_failed", route_id=route_id)
            with database.transaction() as connection:
                given_up = reviews.review_failed(
                    connection, route_id, max_attempts=context.settings.step_attempts, now=now
                )
            if given_up:
                log.error("plans.review_given_up", route_id=route_id, attempts=context.settings.step_attempts)
            return
        context.jobs.put(*jobs)
        PLANS_MADE.labels(outcome).inc()
        log.info("plans.reviewed", route_id=route_id, outcome=outcome)


def _is_no_fault(error: Exception) -> bool:
    """The database is away, or another transaction holds the route: no attempt is counted, and the work stays due."""
    return is_away(error) or isinstance(error, LockNotAvailable)
