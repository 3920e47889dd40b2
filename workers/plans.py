"""The plans queue: the fuel plan of a route whose truck has arrived, and a second look at it when its inputs change."""

from datetime import UTC, datetime

import dramatiq
from psycopg.errors import LockNotAvailable

from domain.database import is_away
from domain.observability import PLANS_MADE, get_logger
from domain.planning import plans
from domain.planning.plan import FuelPlan, NoPlan
from domain.planning.plans import Task
from domain.stations.candidates import Corridor, offers_along
from workers.context import Context

log = get_logger(__name__)


def register(broker: dramatiq.Broker, context: Context) -> None:
    database, roads, network = context.database, context.roads, context.network

    def made(task: Task, now: datetime) -> tuple[Corridor, FuelPlan | NoPlan]:
        """No transaction is open while roads are asked, nor while it computes."""
        road = plans.road_ahead(task, roads)
        route = task.route
        with database.transaction(snapshot=True) as connection:
            corridor = offers_along(connection, route.company_id, road, route.max_detour_miles, network, now=now)
        return corridor, plans.compute(task, road, corridor, now=now)

    @dramatiq.actor(broker=broker, actor_name="plans.build", queue_name="plans")
    def build(route_id: str) -> None:
        now = datetime.now(UTC)
        try:
            with database.transaction() as connection:
                task = plans.load_task(connection, route_id, now=now)
            if task is None:
                return
            corridor, plan = made(task, now)
            with database.transaction() as connection:
                outcome, jobs = plans.store(connection, task, corridor, plan, now=now)
        except Exception as error:
            if _is_no_fault(error):
                raise
            log.exception("plans.failed", route_id=route_id)
            with database.transaction() as connection:
                plans.record_failure(connection, route_id, most_attempts=context.settings.step_attempts, now=now)
            return
        context.jobs.put(*jobs)
        PLANS_MADE.labels(outcome).inc()
        log.info("plans.built", route_id=route_id, outcome=outcome)

    @dramatiq.actor(broker=broker, actor_name="plans.review", queue_name="plans")
    def review(route_id: str) -> None:
        now = datetime.now(UTC)
        try:
            with database.transaction() as connection:
                found = plans.load_review(connection, route_id, now=now)
            if found is None:
                return
            corridor, plan = made(found.task, now)
            with database.transaction() as connection:
                outcome, jobs = plans.store_review(connection, found, corridor, plan, now=now)
        except Exception as error:
            if _is_no_fault(error):
                raise
            log.exception("plans.review_failed", route_id=route_id)
            with database.transaction() as connection:
                given_up = plans.record_failed_review(
                    connection, route_id, most_attempts=context.settings.step_attempts, now=now
                )
            if given_up:
                log.error("plans.review_given_up", route_id=route_id, attempts=context.settings.step_attempts)
            return
        context.jobs.put(*jobs)
        PLANS_MADE.labels(outcome).inc()
        log.info("plans.reviewed", route_id=route_id, outcome=outcome)


def _is_no_fault(error: Exception) -> bool:
    """The database is away, or somebody else holds the route: that is no attempt, and the work is still due."""
    return is_away(error) or isinstance(error, LockNotAvailable)
