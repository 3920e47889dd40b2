"""What is done at each tick. Every pass reads what is due from the database and enqueues it; none keeps anything."""

from dataclasses import dataclass
from datetime import UTC, datetime

from domain import feed, imports, messaging, plans, reviews, tracking
from domain.database import Database
from domain.jobs import Job, JobQueue, build_plan, import_routes, in_batches, judge_positions, review_plan, send_message
from domain.settings import Settings
from domain.telemetry import get_logger

log = get_logger(__name__)


_IMPORT_PORTION = 10_000
_MOST_IMPORT_JOBS = 400
"""Of 256 routes each: what one worker process does until the next sweep. What waits longer would be claimed again."""


@dataclass(frozen=True, slots=True)
class Passes:
    """The scheduled work over one database and one job queue."""

    settings: Settings
    database: Database
    jobs: JobQueue

    def import_pass(self) -> None:
        """Every five minutes: held routes that can move now are imported; those long past their start become error."""
        now = datetime.now(UTC)
        with self.database.transaction() as connection:
            expired = imports.expire_held_routes(connection, expiry_days=self.settings.held_route_expiry_days, now=now)
            movable = imports.routes_that_can_move(connection, now=now)
        self.jobs.put(*(import_routes(batch) for batch in in_batches(movable)))
        log.info("passes.imports", movable=len(movable), expired=expired)

    def sweep(self) -> None:
        """Every few seconds: work whose job was lost, or whose next attempt is due."""
        now = datetime.now(UTC)
        with self.database.transaction() as connection:
            tracks = tracking.claim_lost_judgements(connection, now=now)
            planless = plans.claim_lost_plans(connection, now=now)
            doubtful = reviews.claim_lost_reviews(connection, now=now)
            # not claimed, for their due time is also the workers': a backlog is not added to instead
            behind = self.jobs.backlog("messages") > 0
            messages = [] if behind else messaging.due_messages(connection, now=now)
        jobs: list[Job] = [
            judge_positions(environment, batch)
            for environment, vehicles in tracks.items()
            for batch in in_batches(vehicles)
        ]
        jobs += map(build_plan, planless)
        jobs += map(review_plan, doubtful)
        jobs += map(send_message, messages)
        pending = self._sweep_imports(now)
        if jobs or pending:
            self.jobs.put(*jobs)
            log.info(
                "passes.swept",
                imports=pending,
                vehicles=sum(map(len, tracks.values())),
                plans=len(planless),
                reviews=len(doubtful),
                messages=len(messages),
            )

    def _sweep_imports(self, now: datetime) -> int:
        """A whole backlog, a portion at a time, as long as the workers keep up. Returns how many routes."""
        swept = 0
        while self.jobs.backlog("imports") < _MOST_IMPORT_JOBS:
            with self.database.transaction() as connection:
                claimed = imports.claim_lost_imports(connection, now=now, limit=_IMPORT_PORTION)
            enqueued = self.jobs.put(*(import_routes(batch) for batch in in_batches(claimed)))
            swept += len(claimed)
            if len(claimed) < _IMPORT_PORTION or not enqueued:
                break
        return swept

    def housekeeping(self) -> None:
        """Every hour: routes that stayed active without a sign of life free their truck; old positions go."""
        now = datetime.now(UTC)
        with self.database.transaction() as connection:
            expired = tracking.expire_active_routes(
                connection, expiry_days=self.settings.active_route_expiry_days, now=now
            )
        with self.database.transaction() as connection:
            removed = feed.keep_positions(connection, retention_days=self.settings.position_retention_days, now=now)
        log.info("passes.housekeeping", position_days_removed=removed, active_routes_expired=expired)
