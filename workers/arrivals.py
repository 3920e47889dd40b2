"""The arrivals queue: compares new positions with the stops of the routes that the trucks are on."""

from collections.abc import Sequence
from uuid import UUID

import dramatiq
import psycopg

from domain import clock
from domain.database.health import is_away
from domain.queue.jobs import Job, process_positions_job
from domain.routes.progress.tracking import process_vehicles
from domain.telematics.tracks import record_failed_processing
from domain.telemetry.logs import get_logger
from domain.telemetry.metrics import BATCH_ITEMS, VISITS
from domain.telemetry.tracing import NO_TRACE
from workers.context import Context

log = get_logger(__name__)


def register(broker: dramatiq.Broker, context: Context) -> None:
    @dramatiq.actor(broker=broker, actor_name="arrivals.process", queue_name="arrivals")
    def process(environment: str, vehicle_ids: list[str]) -> None:
        process_batch(context, environment, [UUID(vehicle_id) for vehicle_id in vehicle_ids])


def process_batch(context: Context, environment: str, vehicle_ids: Sequence[UUID]) -> None:
    """Processes all these trucks in one transaction. When that fails, each truck gets a job
    of its own, so that one that always fails does not hold up the others.

    Raises psycopg.OperationalError when another attempt may soon succeed: another transaction has locked the route of a
    single truck, or PostgreSQL is away.
    """
    now = clock.now()
    try:
        with context.database.pipelined_transaction() as connection:
            arrivals, departures = process_vehicles(
                connection, environment, vehicle_ids, settings=context.settings, now=now
            )
            jobs = connection.collected_jobs
    except Exception as error:
        if is_away(error):
            raise
        if len(vehicle_ids) > 1:
            log.warning("arrivals.batch_failed", trucks=len(vehicle_ids), exc_info=True)
            again = _one_by_one(context, environment, vehicle_ids)
            context.jobs.put(*again)
            _tell(context, again)
            return
        if isinstance(error, psycopg.OperationalError):
            raise
        log.exception("arrivals.failed", environment=environment, vehicle_id=vehicle_ids[0])
        with context.database.transaction() as connection:
            record_failed_processing(connection, environment, vehicle_ids[0], now=now)
        return
    BATCH_ITEMS.labels("trucks").observe(len(vehicle_ids))
    VISITS.labels("arrival").inc(arrivals)
    VISITS.labels("departure").inc(departures)
    _tell(context, jobs)


def _one_by_one(context: Context, environment: str, vehicle_ids: Sequence[UUID]) -> list[Job]:
    return [
        process_positions_job(
            environment, [one], company_ids=context.companies.ids, key=f"arrivals.process {environment} {one}"
        )
        for one in vehicle_ids
    ]


def _tell(context: Context, jobs: Sequence[Job]) -> None:
    """Log each following job, with the request that its route came with."""
    route_ids = [job.payload["route_id"] for job in jobs if "route_id" in job.payload]
    traces = context.traces_of(route_ids) if route_ids else {}
    for job in jobs:
        trace = traces.get(job.payload["route_id"], NO_TRACE) if "route_id" in job.payload else NO_TRACE
        log.info("arrivals.enqueued", enqueued=job.name, request_id=trace.request_id, **job.payload)
