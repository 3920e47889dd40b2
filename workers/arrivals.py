"""The arrivals queue: compare new positions with the stops of the routes that the trucks are on."""

from collections.abc import Sequence
from datetime import UTC, datetime

import dramatiq
import psycopg

from domain.database import is_away
from domain.jobs import process_positions
from domain.observability import get_logger
from domain.routes.tracking import process_vehicles
from domain.telematics.tracks import record_failed_processing
from workers.context import Context

log = get_logger(__name__)


def register(broker: dramatiq.Broker, context: Context) -> None:
    @dramatiq.actor(broker=broker, actor_name="arrivals.judge", queue_name="arrivals")
    def process(environment: str, vehicle_ids: list[str]) -> None:
        process_batch(context, environment, vehicle_ids)


def process_batch(context: Context, environment: str, vehicle_ids: Sequence[str]) -> None:
    """One transaction for all; when it fails, a job for each truck, so that a bad one costs the others nothing.

    Raises psycopg.OperationalError where another attempt may soon succeed: for one truck whose route somebody else
    holds, or when PostgreSQL is away.
    """
    now = datetime.now(UTC)
    try:
        with context.database.transaction() as connection:
            jobs = process_vehicles(connection, environment, vehicle_ids, settings=context.settings, now=now)
    except Exception as error:
        if is_away(error):
            raise
        if len(vehicle_ids) > 1:
            log.warning("arrivals.batch_failed", trucks=len(vehicle_ids), exc_info=True)
            jobs = [
                process_positions(environment, [one], key=f"arrivals.judge {environment} {one}") for one in vehicle_ids
            ]
        elif isinstance(error, psycopg.OperationalError):
            raise
        else:
            log.exception("arrivals.failed", environment=environment, vehicle_id=vehicle_ids[0])
            with context.database.transaction() as connection:
                record_failed_processing(connection, environment, vehicle_ids[0], now=now)
            return
    context.jobs.put(*jobs)
    for job in jobs:
        log.info("arrivals.judged", next_job=job.name, **job.payload)
