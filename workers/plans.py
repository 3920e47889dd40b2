"""The plans queue: compute the fuel plan of a route whose truck has arrived, and queue its message."""

from datetime import UTC, datetime

import dramatiq

from domain import plans
from domain.telemetry import PLANS_MADE, get_logger
from workers.context import Context

log = get_logger(__name__)


def register(broker: dramatiq.Broker, context: Context) -> None:
    roads = context.roads

    @dramatiq.actor(broker=broker, actor_name="plans.build", queue_name="plans")
    def build(route_id: str) -> None:
        now = datetime.now(UTC)
        try:
            with context.database.transaction() as connection:
                task = plans.load_task(connection, route_id, now=now)
            if task is None:
                return
            road = plans.road_ahead(task, roads)  # no transaction is open while roads are asked, nor while it computes
            route = task.route
            with context.database.transaction() as connection:
                stations = plans.stations_near(connection, route.company_id, road, route.max_detour_miles, now=now)
            result = plans.compute(task, road, stations, now=now)
            with context.database.transaction() as connection:
                outcome, jobs = plans.store(connection, task, result, now=now)
        except Exception:
            log.exception("plans.failed", route_id=route_id)
            with context.database.transaction() as connection:
                plans.record_failure(connection, route_id, most_attempts=context.settings.step_attempts, now=now)
            return
        context.jobs.put(*jobs)
        PLANS_MADE.labels(outcome).inc()
        log.info("plans.built", route_id=route_id, outcome=outcome)
