"""The plans queue: first plans of routes whose truck has arrived, reviews of plans, replans on the way, and the menus
of plans."""

from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

import dramatiq

from domain import clock
from domain.database.health import is_servers_fault, were_rows_held
from domain.database.visibility import EVERYTHING, of_companies
from domain.planning.fuel_plan import ComputedPlan, NoPlan
from domain.planning.menu import find_choices
from domain.planning.plan_tasks import PlanTask
from domain.planning.stored_plans import end_menu
from domain.queue.jobs import FatalJob
from domain.routes import transitions
from domain.routes.plans import first_plan, menus, replans, review_requests, reviews
from domain.routes.plans.first_plan import PlanOutcome
from domain.routes.plans.replans import Replan, ReplanOutcome
from domain.routes.plans.reviews import ReviewOutcome
from domain.stations.corridor_offers import Corridor
from domain.telemetry.logs import get_logger
from domain.telemetry.metrics import PLANNED_AVERAGE_COST, PLANNED_COST, PLANNED_GALLONS, PLANS_MADE, PLANS_RELAXED
from workers.context import Context

log = get_logger(__name__)

_STORED = {"planned", "replaced", "corrected", "not_told"}
"""Outcomes by which a computed plan becomes the route's."""


def register(broker: dramatiq.Broker, context: Context) -> None:
    _ = context.roads, context.network  # loaded now, so that the first job does not wait for them

    @dramatiq.actor(broker=broker, actor_name="plans.build", queue_name="plans")
    def build(route_id: str) -> None:
        with (
            context.about_route("plans.build", UUID(route_id)),
            context.working_at(f"plans.build {route_id}") as is_fatal,
        ):
            build_plan(context, UUID(route_id), is_fatal=is_fatal)

    @dramatiq.actor(broker=broker, actor_name="plans.review", queue_name="plans")
    def review(route_id: str) -> None:
        with (
            context.about_route("plans.review", UUID(route_id)),
            context.working_at(f"plans.review {route_id}") as is_fatal,
        ):
            review_plan(context, UUID(route_id), is_fatal=is_fatal)

    @dramatiq.actor(broker=broker, actor_name="plans.menu", queue_name="plans")
    def menu(plan_id: str) -> None:
        make_menu(context, UUID(plan_id))

    @dramatiq.actor(broker=broker, actor_name="plans.after_prices", queue_name="plans")
    def after_prices(company_id: str | None) -> None:
        ask_for_reviews(context, UUID(company_id) if company_id is not None else None)


def build_plan(context: Context, route_id: UUID, *, is_fatal: bool = False) -> None:
    """Computes and stores the first plan of a route. A failed attempt is counted, and the last one ends the route in
    error. With `is_fatal`, the plan seems to kill its process, and the attempt fails."""
    now = clock.now()
    try:
        if is_fatal:
            raise FatalJob
        with context.database.pipelined_transaction() as connection:
            task = first_plan.begin_plan(connection, route_id, wait=_wait(context), now=now)
        if task is None:
            return
        corridor, plan = _compute(context, task, now)
        if isinstance(plan, NoPlan):
            with context.database.pipelined_transaction() as connection:
                other = first_plan.without_disputed_level(connection, task, wait=_wait(context), now=now)
            if other == "waits":
                log.info("plans.wait_for_level", route_id=route_id)
                return
            if other != "certain":
                task = other
                corridor, plan = _compute(context, task, now)
        with context.database.pipelined_transaction() as connection:
            outcome = first_plan.finish_plan(connection, task, corridor, plan, now=now)
    except Exception as error:
        if _is_no_fault(error):
            raise
        log.exception("plans.failed", route_id=route_id)
        with context.database.transaction() as connection:
            transitions.planning_failed(connection, route_id, max_attempts=context.settings.step_attempts, now=now)
        return
    _count("first", outcome, plan)
    if outcome == "planned":
        _count_fuel(task, plan)
    log.info("plans.built", route_id=route_id, outcome=outcome)


def review_plan(context: Context, route_id: UUID, *, is_fatal: bool = False) -> None:
    """Replans a route on its way, or reviews its plan. Failed attempts are counted; after the last one the plan
    stays. With `is_fatal`, the new plan seems to kill its process, and the attempt fails."""
    now = clock.now()
    try:
        if is_fatal:
            raise FatalJob
        with context.database.pipelined_transaction() as connection:
            due = replans.begin_replan(connection, route_id, now=now) or reviews.begin_review(
                connection, route_id, now=now
            )
        if due is None:
            return
        corridor, plan = _compute(context, due.task, now)
        outcome: ReviewOutcome | ReplanOutcome
        with context.database.pipelined_transaction() as connection:
            if isinstance(due, Replan):
                outcome = replans.finish_replan(connection, due, corridor, plan, now=now)
            else:
                outcome = reviews.finish_review(connection, due, corridor, plan, now=now)
    except Exception as error:
        if _is_no_fault(error):
            raise
        log.exception("plans.review_failed", route_id=route_id)
        with context.database.transaction() as connection:
            was_last = reviews.review_failed(connection, route_id, max_attempts=context.settings.step_attempts, now=now)
        if was_last:
            log.error("plans.review_attempts_used_up", route_id=route_id, attempts=context.settings.step_attempts)
        return
    _count("replan" if isinstance(due, Replan) else "review", outcome, plan)
    log.info("plans.reviewed", route_id=route_id, outcome=outcome)


def make_menu(context: Context, plan_id: UUID) -> None:
    """Finds and stores what the driver of a plan may choose in its place. The plan stays as it is, whatever happens
    here; a menu that cannot be made is given up."""
    now = clock.now()
    try:
        with context.database.pipelined_transaction() as connection:
            menu = menus.begin_menu(connection, plan_id, max_attempts=context.settings.step_attempts)
        if menu is None:
            return
        _, plan = context.planner.plan(menu.task, now)
        choices = find_choices(plan) if isinstance(plan, ComputedPlan) and menus.is_same_plan(menu, plan) else []
        with context.database.pipelined_transaction() as connection:
            menus.finish_menu(connection, menu, choices)
    except Exception as error:
        if _is_no_fault(error):
            raise
        log.exception("plans.menu_failed", plan_id=plan_id)
        with context.database.transaction() as connection:
            end_menu(connection, plan_id)
        return
    log.info("plans.menu_made", plan_id=plan_id, choices=len(choices))


def ask_for_reviews(context: Context, company_id: UUID | None) -> None:
    """Asks for reviews of the plans that new prices may change; None for prices that all companies share."""
    visible = EVERYTHING if company_id is None else of_companies([company_id])
    with context.database.transaction(visible) as connection:
        review_requests.after_price_changes(connection, company_id, now=clock.now())


def _count(
    kind: Literal["first", "review", "replan"],
    outcome: PlanOutcome | ReviewOutcome | ReplanOutcome,
    plan: ComputedPlan | NoPlan,
) -> None:
    """Count a computed plan, and, if it was stored, the limits that it relaxes."""
    PLANS_MADE.labels(kind, outcome).inc()
    if isinstance(plan, ComputedPlan) and outcome in _STORED:
        for relaxed in plan.relaxed:
            PLANS_RELAXED.labels(relaxed.limit).inc()


def _count_fuel(task: PlanTask, plan: ComputedPlan | NoPlan) -> None:
    """Count the fuel of a first plan. Counting the route's later plans would count it twice."""
    if isinstance(plan, ComputedPlan):
        environment = task.route.environment
        PLANNED_GALLONS.labels(environment).inc(plan.total_gallons)
        PLANNED_COST.labels(environment).inc(plan.total_cost)
        PLANNED_AVERAGE_COST.labels(environment).inc(max(0.0, plan.total_cost + (plan.savings_total or 0.0)))


def _compute(context: Context, task: PlanTask, now: datetime) -> tuple[Corridor, ComputedPlan | NoPlan]:
    """Computes a plan that is stored. No transaction is open while its explanation is packed."""
    corridor, plan = context.planner.plan(task, now)
    _ = plan.packed_explanation
    return corridor, plan


def _wait(context: Context) -> timedelta:
    return timedelta(seconds=context.settings.fuel_reading_wait_seconds)


def _is_no_fault(error: Exception) -> bool:
    """True if the database is away or full, or another transaction holds the route: no attempt is counted, and the work
    stays due."""
    return is_servers_fault(error) or were_rows_held(error)
