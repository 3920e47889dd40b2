"""Hints for webhooks: after each job, the couriers of its companies' endpoints are woken.

A job may have changed routes, and a trigger has captured the events then. The hint makes their delivery start at once;
without it the sweep finds them."""

import time
from typing import Any
from uuid import UUID

import dramatiq
import psycopg
from dramatiq.middleware import Middleware

from domain.database.visibility import of_companies
from domain.queue.dramatiq_messages import companies_of
from domain.queue.jobs import Job
from domain.telemetry.logs import get_logger
from domain.webhooks.endpoints import delivery_jobs
from workers.context import Context

log = get_logger(__name__)

_REMEMBERED_SECONDS = 3.0
"""Longest time in which a new endpoint may miss hints."""

_MOST_REMEMBERED = 10_000


class WebhookHints(Middleware):
    """The middleware of one broker. Dramatiq calls it after each job, in the thread of the job."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._jobs: dict[UUID, tuple[float, list[Job]]] = {}
        """The jobs for each company's endpoints, and until when they are remembered."""

    def after_process_message(
        self, broker: dramatiq.Broker, message: Any, *, result: Any = None, exception: BaseException | None = None
    ) -> None:
        if message.queue_name == "webhooks" or exception is not None:
            return
        try:
            jobs = self._jobs_of(companies_of(message.options) or ())
        except psycopg.Error as error:
            log.debug("webhooks.no_hint", error=str(error))
            return
        if jobs:
            self._context.jobs.put(*jobs)

    def _jobs_of(self, company_ids: Any) -> list[Job]:
        now = time.monotonic()
        unknown = [one for one in company_ids if one not in self._jobs or self._jobs[one][0] < now]
        if unknown:
            if len(self._jobs) > _MOST_REMEMBERED:
                self._jobs = {}
            found: dict[UUID, list[Job]] = {one: [] for one in unknown}
            with self._context.database.single_statements(of_companies(unknown)) as connection:
                for job in delivery_jobs(connection, unknown):
                    if job.company_id is not None:
                        found[job.company_id].append(job)
            self._jobs |= {one: (now + _REMEMBERED_SECONDS, jobs) for one, jobs in found.items()}
        known = [self._jobs.get(one, (0.0, []))[1] for one in company_ids]
        return [job for jobs in known for job in jobs]
