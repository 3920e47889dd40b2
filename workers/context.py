"""The shared context of a worker process's actors: one database, one job queue, settings, roads and truck stops; and
the traces of the routes that they work on."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import psycopg

from domain.database.connections import Connection, Database
from domain.ids import shown_id
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import WorkingAt, never_fatal
from domain.routes.traces import trace_of_message, traces_of
from domain.settings import Settings
from domain.telemetry import tracing
from domain.telemetry.logs import get_logger
from domain.telemetry.tracing import Trace
from workers.job_companies import JobCompanies

if TYPE_CHECKING:
    from domain.planning.planner import Planner
    from domain.roads import Roads
    from domain.stations.corridor_offers import StationPlaces

log = get_logger(__name__)

Found = TypeVar("Found")


@dataclass(frozen=True)
class Context:
    settings: Settings
    database: Database
    jobs: JobQueue
    companies: JobCompanies = field(default_factory=JobCompanies)
    """The companies of the thread's present job."""
    working_at: WorkingAt = never_fatal
    """The work of jobs that may kill their process."""

    @cached_property
    def roads(self) -> "Roads":
        """The roads, loaded when first used, with the libraries of numerics: only the plans queue needs them."""
        from domain.roads.default_roads import default_roads

        return default_roads(self.settings.valhalla_url)

    @cached_property
    def network(self) -> "StationPlaces":
        """The truck stops' places, read once and shared by all plans."""
        from domain.stations.corridor_offers import StationPlaces

        return StationPlaces()

    @property
    def planner(self) -> "Planner":
        """The planner of this process's plans."""
        from domain.planning.planner import Planner

        return Planner(
            self.settings, partial(self.database.pipelined_transaction, snapshot=True), self.roads, self.network
        )

    @contextmanager
    def about_route(self, job: str, route_id: UUID) -> Iterator[None]:
        """The work of a job on one route, as a part of the trace of its push."""
        trace = self.traces_of([route_id]).get(route_id)
        with tracing.working(job, "consumer", trace, route_id=shown_id("rte", route_id)):
            yield

    @contextmanager
    def about_message(self, job: str, message_id: UUID) -> Iterator[None]:
        """The work of a job on one message, as a part of the trace of its route's push."""
        found = self._ask(lambda connection: trace_of_message(connection, message_id))
        attributes = {"message_id": shown_id("msg", message_id)}
        if found is not None:
            attributes["route_id"] = shown_id("rte", found[0])
        with tracing.working(job, "consumer", found[1] if found is not None else None, **attributes):
            yield

    def traces_of(self, route_ids: Iterable[UUID]) -> dict[UUID, Trace]:
        return self._ask(lambda connection: traces_of(connection, route_ids)) or {}

    def _ask(self, read: Callable[[Connection], Found]) -> Found | None:
        """The result of `read`; None if the database fails, because no work may fail for want of its trace."""
        try:
            with self.database.single_statements() as connection:
                return read(connection)
        except psycopg.Error as error:
            log.warning("traces.not_read", error=str(error))
            return None
