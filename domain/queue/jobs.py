"""The background jobs: their names, queues and payloads.

A job carries ids, never data, and is only a hint: whatever it asks for can be derived from the database, and the
sweep asks again when a hint is lost.

Jobs ride on the transaction: what changes the database calls `after_commit`, and nobody passes jobs on.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

if TYPE_CHECKING:
    from domain.database.connections import Connection  # loads psycopg


class Workers(NamedTuple):
    """The workers of a queue, as a cluster runs them."""

    target_seconds: int
    """The age of the oldest job that is aimed at: a cluster starts workers while jobs are older."""
    reach_the_world: bool = False
    """They call gateways and endpoints on the internet."""


WORKERS: Mapping[str, Workers] = {
    "imports": Workers(2),
    "arrivals": Workers(10),
    "plans": Workers(10),
    "messages": Workers(15, reach_the_world=True),
    "webhooks": Workers(15, reach_the_world=True),
    "replays": Workers(120),
}
"""The workers of each queue, by its name. `python -m deploy.worker_files` writes them into the deploy files."""

QUEUES = tuple(WORKERS)
JOB_ITEMS = 256
"""Most ids in one job: large enough that a job's fixed cost vanishes, small enough for a short transaction."""

JOB_TRUCKS = 64
"""Most trucks in one job: each may bring many positions, and its route stays locked until all are processed."""

SWEEP_GRACE = timedelta(seconds=10)
"""The time for a job to do its work before the sweep asks again."""


@dataclass(frozen=True, slots=True)
class Job:
    """One hint for the workers of `queue`."""

    name: str
    queue: str
    payload: dict[str, Any]
    key: str | None = None
    """Names what the job is about, where one job about it is enough; None: each job counts."""
    company_id: UUID | None = field(default=None, compare=False)
    """The company in whose backlog the job waits; None for a job of several companies, or a small one."""
    company_ids: Collection[UUID] = field(default=(), compare=False)
    """All companies whose data the job touches, where it waits in no backlog."""


WorkingAt = Callable[[str], AbstractContextManager[bool]]
"""The work of a job, by the job's name. It yields True where the job seems to kill its process; see
`unfinished_jobs`."""


def never_fatal(_job: str) -> AbstractContextManager[bool]:
    """The work of a job where nobody counts the processes that die over it."""
    return nullcontext(False)


class FatalJob(Exception):
    """A job seems to kill its process. It counts as failed, and nothing is computed."""


def after_commit(connection: "Connection", *jobs: Job) -> None:
    """Put these jobs once the transaction has committed. If it rolls back, or the savepoint around this call does, they
    are dropped."""
    connection.collected_jobs += jobs


def import_routes_job(
    route_ids: Sequence[UUID],
    company_id: UUID | None = None,
    *,
    company_ids: Collection[UUID] = (),
    reply_to: str | None = None,
    key: str | None = None,
) -> Job:
    """Match these routes and import or hold them. The ingress process `reply_to` is told the outcomes."""
    payload = {"route_ids": list(route_ids), "reply_to": reply_to}
    return Job("imports.run", "imports", payload, key, company_id, company_ids)


def import_due_job(company_id: UUID, portion: int) -> Job:
    """Import a batch of the company's routes that are due when the job runs. Jobs with different portions may run side
    by side."""
    payload = {"portion": portion, "company_id": company_id}
    return Job("imports.due", "imports", payload, f"imports.due {company_id} {portion}", company_id)


def process_positions_job(
    environment: str,
    vehicle_ids: Sequence[UUID],
    company_id: UUID | None = None,
    *,
    company_ids: Collection[UUID] = (),
    key: str | None = None,
) -> Job:
    """Compare the new positions of these vehicles, at most `JOB_TRUCKS`, with the stops of their routes."""
    payload = {"environment": environment, "vehicle_ids": list(vehicle_ids)}
    return Job("arrivals.process", "arrivals", payload, key, company_id, company_ids)


def build_plan_job(route_id: UUID, company_id: UUID | None = None) -> Job:
    """Compute the fuel plan of a route whose truck has arrived."""
    return Job("plans.build", "plans", {"route_id": route_id}, f"plans.build {route_id}", company_id)


def review_plan_job(route_id: UUID, company_id: UUID | None = None) -> Job:
    """Review the plan of a route: its fuel or prices have changed while the truck was at its first stop."""
    return Job("plans.review", "plans", {"route_id": route_id}, f"plans.review {route_id}", company_id)


def make_menu_job(plan_id: UUID, company_id: UUID | None = None) -> Job:
    """Find what the driver of a stored plan may choose in its place."""
    return Job("plans.menu", "plans", {"plan_id": plan_id}, f"plans.menu {plan_id}", company_id)


def after_prices_job(company_id: UUID | None) -> Job:
    """Ask for reviews of the plans that new prices may change: the company's, or with None those of all companies."""
    companies = () if company_id is None else (company_id,)
    payload = {"company_id": company_id}
    return Job("plans.after_prices", "plans", payload, f"plans.after_prices {company_id}", company_ids=companies)


def send_message_job(message_id: UUID, company_id: UUID | None = None) -> Job:
    """Send one message to its driver."""
    return Job("messages.send", "messages", {"message_id": message_id}, f"messages.send {message_id}", company_id)


def ask_read_status_job(company_id: UUID) -> Job:
    """Ask the vendor of the app in the cab which of the company's messages were read."""
    return Job("messages.read_status", "messages", {}, f"messages.read_status {company_id}", company_id)


def send_notice_job(notice_id: UUID, company_id: UUID) -> Job:
    """Send one notice to its subscription."""
    return Job("notices.send", "messages", {"notice_id": notice_id}, f"notices.send {notice_id}", company_id)


def deliver_webhooks_job(endpoint_id: UUID, company_id: UUID) -> Job:
    """Deliver the events that are due to one endpoint of webhooks."""
    payload = {"endpoint_id": endpoint_id, "company_id": company_id}
    return Job("webhooks.deliver", "webhooks", payload, f"webhooks.deliver {endpoint_id}", company_id)


def run_replay_job(replay_id: UUID, chain: int, company_id: UUID) -> Job:
    """Solve the next portion of a replay. Each chain of jobs goes on until none is left."""
    payload = {"replay_id": replay_id, "chain": chain, "company_id": company_id}
    return Job("replays.run", "replays", payload, f"replays.run {replay_id} {chain}", company_id)


Id = TypeVar("Id")


def in_batches(ids: Iterable[Id], size: int = JOB_ITEMS) -> Iterable[list[Id]]:
    """`ids` in lists of at most `size`."""
    batch: list[Id] = []
    for one in ids:
        batch.append(one)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
