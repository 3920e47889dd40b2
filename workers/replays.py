"""The replays queue: solves replays of driven trips, portion by portion. Each job solves one, and asks for the next."""

from uuid import UUID

import dramatiq

from domain import clock
from domain.queue.jobs import run_replay_job
from domain.replay.portions import finish_replay, solve_next_portion
from domain.telemetry.logs import get_logger
from workers.context import Context

log = get_logger(__name__)


def register(broker: dramatiq.Broker, context: Context) -> None:
    @dramatiq.actor(broker=broker, actor_name="replays.run", queue_name="replays")
    def run(replay_id: str, chain: int, company_id: str) -> None:
        run_replay(context, UUID(replay_id), chain, UUID(company_id))


def run_replay(context: Context, replay_id: UUID, chain: int, company_id: UUID) -> None:
    """Solves one portion and asks for the next; without one left, finishes the replay. Portions of several companies
    take turns, since each asks for one job at a time."""
    trips = solve_next_portion(context.database.transaction, replay_id, working_at=context.working_at, now=clock.now())
    if trips is not None:
        context.jobs.put(run_replay_job(replay_id, chain, company_id))
    elif finish_replay(context.database.transaction, replay_id, now=clock.now()):
        log.info("replays.finished", replay_id=replay_id)
