"""The arrivals queue: compare new positions with the stops of the routes that the trucks are on."""

from datetime import UTC, datetime

import dramatiq

from domain.telemetry import get_logger
from domain.tracking import judge_vehicles
from workers.context import Context

log = get_logger(__name__)


def register(broker: dramatiq.Broker, context: Context) -> None:
    @dramatiq.actor(broker=broker, actor_name="arrivals.judge", queue_name="arrivals")
    def judge(environment: str, vehicle_ids: list[str]) -> None:
        with context.database.transaction() as connection:
            jobs = judge_vehicles(
                connection, environment, vehicle_ids, settings=context.settings, now=datetime.now(UTC)
            )
        context.jobs.put(*jobs)
        for job in jobs:
            log.info("arrivals.judged", next_job=job.name, **job.payload)
