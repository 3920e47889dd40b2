"""Takes a batch of pushes from step to step: admit, store, have a worker import, answer."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg
from msgspec import Struct

from domain import clock
from domain.contract.shapes import Route, RouteInput
from domain.database.async_connections import AsyncDatabase
from domain.database.connections import Database, wait_until_durable
from domain.database.health import is_away
from domain.lifecycle import Environment, PushEffect, RouteStatus
from domain.magic_values import magic_error_code, waits_for_sweep
from domain.queue.job_queue import AsyncJobQueue
from domain.queue.jobs import import_routes_job, in_batches
from domain.routes.intake.pushes import Push, Pushed, create_routes
from domain.routes.reading.answers import fresh_route
from domain.routes.reading.lookups import read_routes
from domain.telemetry.logs import get_logger
from domain.telemetry.metrics import ROUTES_PUSHED
from domain.telemetry.tracing import Trace
from ingress.api.authenticator import Admitted, Authenticator, Submitted
from ingress.api.outcome_listener import Expectation, ExpectedOutcome, OutcomeListener
from ingress.api.push_storage import STORING_SECONDS, PushStorage, Result, of_pushes, request_ids
from ingress.api.replica import ReplicaReads
from ingress.http.problems import ApiError, MagicError

log = get_logger(__name__)

_HOLD_SECONDS = 0.25
"""Longest time that a batch keeps its place until its import is announced; the next batch grows meanwhile. After one
that was not announced in time, no batch keeps its place until an outcome comes again."""

_STORING_THREADS = 2


class ReceivedPush(Struct, frozen=True, gc=False):
    """The body of a push, and its trace."""

    route: RouteInput
    trace: Trace


class RouteAnswer(Struct, frozen=True, gc=False):
    """The answer to a push."""

    effect: PushEffect
    route: Route


WaitingPush = Submitted[ReceivedPush, RouteAnswer]


class _Stored(Struct, frozen=True):
    """A stored push that waits for its answer."""

    admitted: Admitted[ReceivedPush, RouteAnswer]
    push: Push
    pushed: Pushed

    def answer(self, route: Route) -> None:
        self.admitted.settle(RouteAnswer(self.pushed.effect, route))


class PushPipeline:
    """The pushes of one process, a batch at a time."""

    def __init__(
        self,
        authenticator: Authenticator,
        async_database: AsyncDatabase,
        database: Database,
        jobs: AsyncJobQueue,
        outcome_listener: OutcomeListener,
        import_wait_seconds: float,
        replica: ReplicaReads | None = None,
    ) -> None:
        self._authenticator = authenticator
        self._async_database = async_database
        self._database = database
        self._jobs = jobs
        self._outcome_listener = outcome_listener
        self._import_wait_seconds = import_wait_seconds
        self._replica = replica
        self._threads = ThreadPoolExecutor(_STORING_THREADS, thread_name_prefix="push-storage")
        self._workers_answer = True
        self._answering: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Waits until the stored pushes are answered."""
        await asyncio.gather(*self._answering)
        self._threads.shutdown()

    async def work(self, batch: Sequence[WaitingPush]) -> None:
        """Settles every push of a batch. Returns when the batch gives up its place."""
        admitted = _without_magic_errors(await self._authenticator.admit(batch))
        if not admitted:
            return
        pushes = [
            Push(one.caller.tenant, one.asked.item.item.route, one.caller.key_id, one.asked.item.item.trace)
            for one in admitted
        ]
        try:
            results = await self._store(pushes)
        except Exception as error:
            for one in admitted:
                one.settle(error)
            return
        stored = []
        for one, push, result in zip(admitted, pushes, results, strict=True):
            if isinstance(result, Pushed):
                stored.append(_Stored(one, push, result))
            else:
                if isinstance(result, ApiError):  # its key is not valid any more
                    self._authenticator.forget(one.asked.item.by)
                one.settle(result)
        for effect, count in Counter(one.pushed.effect for one in stored).items():
            ROUTES_PUSHED.labels(effect).inc(count)
        answering = asyncio.create_task(self._answer_all(stored))
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)
        if self._workers_answer:
            await asyncio.wait((answering,), timeout=_HOLD_SECONDS)
            self._workers_answer = answering.done()

    async def _store(self, pushes: Sequence[Push]) -> Sequence[Result]:
        """The result of each push, in order. One statement stores new routes. A thread stores the others in a
        transaction: updates, and routes that may supersede others."""
        until = time.monotonic() + STORING_SECONDS
        storage = PushStorage(self._database, until=until)
        store = storage.store_together
        try:
            created = await self._async_database.store(create_routes(pushes, now=clock.now()), of_pushes(pushes))
        except psycopg.Error as error:
            if is_away(error):
                raise
            log.warning("push.batch_failed", request_ids=request_ids(pushes), error=str(error))
            created = [None] * len(pushes)
            store = partial(storage.store_apart, failure=error)
        results: list[Result | None] = [*created]
        left = [position for position, result in enumerate(results) if result is None]
        if left:
            loop = asyncio.get_running_loop()
            rest = await loop.run_in_executor(self._threads, store, [pushes[position] for position in left])
            for position, result in zip(left, rest, strict=True):
                results[position] = result
        return [result for result in results if result is not None]

    async def _answer_all(self, stored: Sequence[_Stored]) -> None:
        try:
            await self._import(stored)
        except Exception as error:
            for one in stored:
                one.admitted.settle(error)

    async def _import(self, stored: Sequence[_Stored]) -> None:
        """Asks for the import of every new or replaced route, and answers each push once its outcome is known."""
        changed = [one for one in stored if one.pushed.effect in ("create", "replace")]
        for one in stored:
            if one.pushed.effect == "refuse":
                one.admitted.settle(ApiError("route_active", "The route has started; its stops cannot change."))
        at_once = [one for one in changed if not _waits_for_sweep(one.push)]
        with self._outcome_listener.expect(
            [ExpectedOutcome(one.pushed.route_id, one.pushed.revision, one) for one in at_once]
        ) as expected:
            route_ids = dict.fromkeys(one.pushed.route_id for one in at_once)
            reply_to, companies = self._outcome_listener.reply_to, {one.push.tenant.company_id for one in at_once}
            imports = [
                import_routes_job(ids, company_ids=companies, reply_to=reply_to) for ids in in_batches(route_ids)
            ]
            asked = await self._jobs.put(*imports)
            await self._read([one for one in stored if one.pushed.effect == "unchanged"])
            if asked:
                await self._answer_with_outcomes(expected)
        late = [one for one in changed if not one.admitted.asked.future.done()]
        if any(one.pushed.effect == "create" for one in late):
            await self._async_database.ask(wait_until_durable())  # no worker's commit has written them to disk
        await self._read(late)

    async def _answer_with_outcomes(self, expected: Expectation[_Stored]) -> None:
        """Answers pushes until the time is over. Pushes whose import failed and is tried again are left."""
        async for received in expected.outcomes(self._import_wait_seconds):
            self._workers_answer = True
            await self._note_writes(one.item for one in received)
            unknown = []
            for announced in received:
                one, outcome = announced.item, announced.outcome
                if outcome is None or (one.pushed.effect == "replace" and outcome.status != RouteStatus.PENDING):
                    unknown.append(one)
                elif outcome.status != RouteStatus.PENDING:
                    one.answer(fresh_route(one.push, one.pushed, outcome))
            await self._read(unknown)

    async def _note_writes(self, stored: Iterable[_Stored]) -> None:
        """Notes the writes, after the commit and before the answer: from now on no replica that has replayed less
        answers."""
        if self._replica is not None:
            await self._replica.note_writes(one.push.tenant for one in stored)

    async def _read(self, stored: Sequence[_Stored]) -> None:
        """Answers with the present state of the routes."""
        if not stored:
            return
        await self._note_writes(stored)
        query = read_routes([(one.push.tenant, one.pushed.route_id) for one in stored])
        found = await self._async_database.ask(query, of_pushes([one.push for one in stored]))
        for one, versioned in zip(stored, found, strict=True):
            if versioned is None:
                one.admitted.settle(LookupError(one.pushed.route_id))
            else:
                one.answer(versioned.route)


def _without_magic_errors(
    admitted: Sequence[Admitted[ReceivedPush, RouteAnswer]],
) -> list[Admitted[ReceivedPush, RouteAnswer]]:
    """Settles the pushes to the sandbox that ask for an error, and stores nothing of them. Returns the others."""
    others = []
    for one in admitted:
        sandbox = one.caller.environment is Environment.SANDBOX
        if sandbox and (code := magic_error_code(one.asked.item.item.route.external_id)) is not None:
            one.settle(MagicError(code))
        else:
            others.append(one)
    return others


def _waits_for_sweep(push: Push) -> bool:
    route = push.route
    return push.tenant.environment is Environment.SANDBOX and waits_for_sweep(route.reference, route.external_id)
