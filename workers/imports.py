"""The imports queue: matches, holds or imports a batch of routes, and announces the outcomes."""

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import dramatiq
import psycopg

from domain import clock
from domain.database.health import is_away, is_servers_fault, were_rows_held
from domain.database.options import ONE_BY_ONE, TimeLimits
from domain.encoding import write
from domain.ids import shown_id
from domain.lifecycle import PendingReason, RouteStatus
from domain.queue.jobs import SWEEP_GRACE
from domain.routes.intake import holds, imports
from domain.routes.intake.failed_imports import MAGIC_ATTEMPTS, record_failed_import
from domain.routes.intake.imports import ImportOutcome
from domain.telematics.rechecks import recheck_trucks
from domain.telemetry import tracing
from domain.telemetry.logs import get_logger
from domain.telemetry.metrics import BATCH_ITEMS, ROUTES_IMPORTED
from domain.text import Harmless
from workers.context import Context

log = get_logger(__name__)


def register(broker: dramatiq.Broker, context: Context) -> None:
    @dramatiq.actor(broker=broker, actor_name="imports.run", queue_name="imports")
    def run(route_ids: list[str], reply_to: str | None = None) -> None:
        started = time.monotonic()
        ids = [UUID(route_id) for route_id in route_ids]
        outcomes = import_batch(context, ids)
        if outcomes:
            report(context, list(outcomes), outcomes, reply_to)
            trace(context, outcomes, seconds=time.monotonic() - started)
        others = [route_id for route_id in ids if route_id not in outcomes]
        if others:  # not held any more, or another transaction had them locked
            outcomes = import_batch(context, others, wait=True)
            report(context, others, outcomes, reply_to)
            trace(context, outcomes, seconds=time.monotonic() - started)

    @dramatiq.actor(broker=broker, actor_name="imports.due", queue_name="imports")
    def due(portion: int, company_id: str | None = None) -> None:
        """Imports due routes. Jobs of an earlier release name no company."""
        started = time.monotonic()
        outcomes = import_due(context, UUID(company_id) if company_id is not None else None)
        report(context, list(outcomes), outcomes, None)
        trace(context, outcomes, seconds=time.monotonic() - started)


def import_due(context: Context, company_id: UUID | None = None) -> dict[UUID, ImportOutcome]:
    """Imports a batch of a company's due routes, without those that another job is importing at this moment."""
    now = clock.now()
    route_ids: list[UUID] = []
    try:
        with context.database.pipelined_transaction() as connection:
            route_ids = holds.take_due_imports(connection, now=now, company_id=company_id)
            attempted = imports.import_routes(connection, route_ids, early=_early(context), now=now)
        _look_again(context, attempted, began_at=now)
        return _with_magic_failures(context, attempted, now=now)
    except Exception as error:
        if is_servers_fault(error):
            raise DatabaseAway from error
        if not route_ids:
            raise
        log.warning("imports.batch_failed", routes=len(route_ids), exc_info=True)
        return _one_by_one(context, route_ids, wait=False)


def report(
    context: Context,
    route_ids: Sequence[UUID],
    outcomes: dict[UUID, ImportOutcome],
    reply_to: str | None,
) -> None:
    """Announces the outcomes to the ingress process that waits for these routes."""
    if reply_to is not None:
        context.jobs.announce(reply_to, write(_announced(context, route_ids, outcomes)))
    if outcomes:
        BATCH_ITEMS.labels("imports").observe(len(outcomes))
    for status, count in Counter(outcome.status for outcome in outcomes.values()).items():
        ROUTES_IMPORTED.labels(status).inc(count)


def trace(context: Context, outcomes: Mapping[UUID, ImportOutcome], *, seconds: float) -> None:
    """Log all imported routes in one line, with the request that each came with. It follows the announcement, so that
    no push waits for it."""
    if not outcomes:
        return
    if log.is_enabled_for(logging.INFO):
        log.info(
            "routes.imported",
            routes=Harmless({shown_id("rte", id): outcome.request_id for id, outcome in outcomes.items()}),
            outcomes=dict(Counter(outcome.status for outcome in outcomes.values())),
            seconds=round(seconds, 4),
        )
    if tracing.spans is not None:
        traces = context.traces_of(outcomes)
        tracing.record("imports.run", traces.values(), seconds=seconds, routes=len(outcomes))


def _announced(
    context: Context, route_ids: Sequence[UUID], outcomes: Mapping[UUID, ImportOutcome]
) -> Mapping[UUID, ImportOutcome | int]:
    """The outcomes to announce. For a route that was no longer held, it is the route's revision."""
    others = [route_id for route_id in route_ids if route_id not in outcomes]
    if not others:
        return outcomes
    with context.database.single_statements() as connection:
        return {**outcomes, **imports.revisions_settled(connection, others)}


def import_batch(
    context: Context, route_ids: Sequence[UUID], *, wait: bool = False, limits: TimeLimits | None = None
) -> dict[UUID, ImportOutcome]:
    """Imports all together; if that fails, each route in a transaction of its own, so that a bad one does not affect
    others. Routes that another transaction has locked are left, with `wait` only after the lock's time limit; they stay
    due."""
    now = clock.now()
    database = context.database
    try:
        with (
            database.single_statements()
            if limits is None
            else database.pipelined_transaction(limits=limits) as connection
        ):
            attempted = imports.import_routes(connection, route_ids, early=_early(context), now=now, wait=wait)
        _look_again(context, attempted, began_at=now)
        return _with_magic_failures(context, attempted, now=now)
    except Exception as error:
        if is_servers_fault(error):  # no attempt is counted
            raise DatabaseAway from error
        if len(route_ids) > 1:
            log.warning("imports.batch_failed", routes=len(route_ids), exc_info=True)
            return _one_by_one(context, route_ids, wait)
        if were_rows_held(error):
            log.warning("imports.route_locked", route_id=route_ids[0])
            return {}
        return _record_failure(context, route_ids[0], now)


def _look_again(context: Context, attempted: Mapping[UUID, ImportOutcome], *, began_at: datetime) -> None:
    """Rechecks the trucks of an import that stood still before its commit: the sweep, which waits `SWEEP_GRACE` for it,
    may have had a truck's first fix processed by then (`telematics.feed`)."""
    drafts = [route_id for route_id, outcome in attempted.items() if outcome.status is RouteStatus.DRAFT]
    now = clock.now()
    if drafts and now - began_at > SWEEP_GRACE / 2:
        with context.database.transaction() as connection:
            recheck_trucks(connection, drafts, now=now)


def _one_by_one(context: Context, route_ids: Sequence[UUID], wait: bool) -> dict[UUID, ImportOutcome]:
    outcomes: dict[UUID, ImportOutcome] = {}
    for route_id in route_ids:
        outcomes |= import_batch(context, [route_id], wait=wait, limits=ONE_BY_ONE)
    return outcomes


def _record_failure(context: Context, route_id: UUID, now: datetime) -> dict[UUID, ImportOutcome]:
    log.exception("imports.failed", route_id=route_id)
    try:
        with context.database.transaction() as connection:
            outcome = record_failed_import(connection, route_id, max_attempts=context.settings.step_attempts, now=now)
    except psycopg.OperationalError as error:
        if is_away(error):
            raise DatabaseAway from error
        log.warning("imports.failure_not_recorded", route_id=route_id, error=str(error))
        return {}  # the route is still due, so the sweep finds it
    return {route_id: outcome} if outcome is not None else {}


def _with_magic_failures(
    context: Context, outcomes: dict[UUID, ImportOutcome], *, now: datetime
) -> dict[UUID, ImportOutcome]:
    """The outcomes, after the failures that the sandbox rehearses were recorded like real ones. Rehearsed failures are
    in no log and no alert."""
    for route_id in [route_id for route_id, outcome in outcomes.items() if outcome.reason is PendingReason.ERROR]:
        with context.database.transaction() as connection:
            outcome = record_failed_import(
                connection, route_id, max_attempts=MAGIC_ATTEMPTS, now=now, detail="the sandbox rehearsed a failure"
            )
        del outcomes[route_id]
        outcomes |= {route_id: outcome} if outcome is not None else {}
    return outcomes


def _early(context: Context) -> timedelta:
    return timedelta(hours=context.settings.early_arrival_hours)


class DatabaseAway(Exception):
    """Nothing could be stored. The job is retried, and its work stays due in the database."""
