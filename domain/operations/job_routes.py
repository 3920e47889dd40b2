"""The companies and routes of jobs. A job carries only ids, so the database is asked for their companies and routes.
Some jobs carry none, but name their companies."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Statement
from domain.queue.dramatiq_messages import StoredJob, companies_of
from domain.queue.jobs import in_batches


class JobRoutes(NamedTuple):
    """The routes of a job, and the companies that it names, or those of its routes, trucks and messages."""

    company_of: dict[UUID, UUID]
    """The company of each route."""
    company_ids: frozenset[UUID]

    @property
    def route_ids(self) -> frozenset[UUID]:
        return frozenset(self.company_of)


class _Found(NamedTuple):
    id: UUID
    company_id: UUID
    route_id: UUID | None


_FOUND = Statement(
    _Found,
    """
    SELECT id, company_id, id AS route_id FROM routes WHERE id = ANY(%(ids)s)
    UNION ALL SELECT id, company_id, route_id FROM messages WHERE id = ANY(%(ids)s)
    UNION ALL SELECT id, company_id, route_id FROM plans WHERE id = ANY(%(ids)s)
    UNION ALL SELECT id, company_id, NULL::uuid FROM vehicles WHERE id = ANY(%(ids)s)
    UNION ALL SELECT id, company_id, NULL::uuid FROM webhook_endpoints WHERE id = ANY(%(ids)s)
    UNION ALL SELECT id, company_id, NULL::uuid FROM notices WHERE id = ANY(%(ids)s)
    UNION ALL SELECT id, id, NULL::uuid FROM companies WHERE id = ANY(%(ids)s)
    """,
)
_AT_ONCE = 1_000


def routes_of_jobs(connection: Connection, jobs: Sequence[StoredJob]) -> list[JobRoutes]:
    """The companies and routes of each job, in the order of the jobs."""
    return [one for batch in in_batches(jobs, _AT_ONCE) for one in _routes_of_batch(connection, batch)]


def _routes_of_batch(connection: Connection, jobs: Sequence[StoredJob]) -> list[JobRoutes]:
    ids = {id for job in jobs for id in _ids_of(job)}
    known = {row.id: row for row in _FOUND.all(connection, {"ids": list(ids)})} if ids else {}
    found = []
    for job in jobs:
        named = [known[id] for id in _ids_of(job) if id in known]
        company_of = {row.route_id: row.company_id for row in named if row.route_id is not None}
        company_ids = {*(row.company_id for row in named), *(companies_of(job.company_options) or ())}
        found.append(JobRoutes(company_of, frozenset(company_ids)))
    return found


def _ids_of(job: StoredJob) -> Iterable[UUID]:
    for value in job.payload.values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str) and len(one) == 32:
                try:
                    yield UUID(hex=one)
                except ValueError:
                    continue
