"""Couriers: the deliveries of one process, side by side on one event loop.

Each endpoint has a courier of its own. A courier claims deliveries, sends them, and settles the attempts that ended
while earlier ones were being settled. A slow endpoint fills only its own courier: it holds no thread, and no connection
of another courier."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar
from uuid import UUID

import dramatiq
import psycopg
import uvloop
from dramatiq.middleware import Middleware

from domain import clock
from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.name_lookups import looking_up_for
from domain.database.connections import Connection
from domain.database.visibility import of_companies
from domain.telemetry.logs import get_logger
from domain.telemetry.metrics import WEBHOOKS
from domain.webhooks import deliveries
from domain.webhooks.deliveries import ClaimedBatch, DeliveryClaim, Outcome
from domain.webhooks.sending import Sender
from workers.context import Context

log = get_logger(__name__)

QUEUE = "webhooks"
MOST_OF_COURIER = 32
"""Most attempts of one endpoint that a process has under way."""

MOST_OF_PROCESS = 1_024
"""Most attempts of all endpoints together. Busy couriers share them."""

_IDLE_SECONDS = 15.0
"""Time for which a courier without work keeps its connections."""

_DATABASE_THREADS = 4

_STORE_AGAIN_SECONDS = 0.5

Result = TypeVar("Result")


class WebhookCouriers(Middleware):
    """The couriers of one process. Dramatiq starts and stops them with its worker."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.is_stopping = False
        self.is_paused: Callable[[], bool] = lambda: False
        self.busy = 0
        """The number of couriers with attempts under way."""
        self._couriers: dict[UUID, Courier] = {}
        self._database_threads = ThreadPoolExecutor(_DATABASE_THREADS, thread_name_prefix="webhook-storage")
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="webhooks", daemon=True)

    def before_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        self.is_paused = lambda: QUEUE in getattr(broker, "paused", ())
        self.start()

    def after_worker_shutdown(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        self.stop(self.context.settings.stop_seconds)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Lets attempts under way end within the time, and gives up the other claims."""
        asyncio.run_coroutine_threadsafe(self._stop_couriers(seconds), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._database_threads.shutdown()

    def wake(self, endpoint_id: UUID, company_id: UUID) -> None:
        """Has the endpoint's courier search for due deliveries. Any thread may call it."""
        self._loop.call_soon_threadsafe(self._wake, endpoint_id, company_id)

    def _wake(self, endpoint_id: UUID, company_id: UUID) -> None:
        if self.is_stopping:
            return
        courier = self._couriers.get(endpoint_id)
        if courier is None:
            courier = self._couriers[endpoint_id] = Courier(self, endpoint_id, company_id)
        courier.woken.set()

    async def _stop_couriers(self, seconds: float) -> None:
        self.is_stopping = True
        tasks = [courier.task for courier in self._couriers.values()]
        for courier in self._couriers.values():
            courier.woken.set()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def forget(self, endpoint_id: UUID) -> None:
        """Removes a courier that ends; the next call for its endpoint starts another."""
        self._couriers.pop(endpoint_id, None)

    async def in_transaction(self, company_id: UUID, work: Callable[[Connection], Result]) -> Result:
        """The result of `work` in a transaction that sees this company, in a thread."""

        def run() -> Result:
            with self.context.database.pipelined_transaction(of_companies([company_id])) as connection:
                return work(connection)

        return await self._loop.run_in_executor(self._database_threads, run)


class Courier:
    """The deliveries to one endpoint. It ends after a while without work."""

    def __init__(self, couriers: WebhookCouriers, endpoint_id: UUID, company_id: UUID) -> None:
        self.woken = asyncio.Event()
        self._couriers = couriers
        self._settings = couriers.context.settings
        self._endpoint_id = endpoint_id
        self._company_id = company_id
        self._sending: dict[asyncio.Task[Outcome], DeliveryClaim] = {}
        self._sender = Sender(
            allowed=AllowedHosts.of_webhooks(self._settings),
            timeout_seconds=self._settings.webhook_timeout_seconds,
        )
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            with looking_up_for(self._company_id):
                await self._work_while_wanted()
        except asyncio.CancelledError:
            await self._give_up()
        except psycopg.Error as error:  # the sweep finds the rest
            log.warning("webhooks.courier_failed", endpoint_id=self._endpoint_id, error=str(error))
        except Exception:
            log.exception("webhooks.courier_failed", endpoint_id=self._endpoint_id)
        finally:
            self._couriers.forget(self._endpoint_id)
            await self._sender.close()

    async def _work_while_wanted(self) -> None:
        while await self._is_wanted():
            self._couriers.busy += 1
            try:
                await self._work()
            finally:
                self._couriers.busy -= 1

    async def _is_wanted(self) -> bool:
        """True when the courier was woken; False when it was not for a while, or the process stops."""
        with suppress(TimeoutError):
            if not self._couriers.is_stopping:
                async with asyncio.timeout(_IDLE_SECONDS):
                    await self.woken.wait()
        return self.woken.is_set() and not self._couriers.is_stopping

    async def _work(self) -> None:
        """Delivers until nothing is due. Attempts that end while earlier ones are being stored are stored together."""
        while self._sending or self.woken.is_set():
            most = max(1, min(MOST_OF_COURIER, MOST_OF_PROCESS // self._couriers.busy))
            if len(self._sending) <= most // 2:
                self.woken.clear()
                await self._claim(most)
            ended = await self._ended(may_be_woken=len(self._sending) <= most // 2)
            if ended:
                await self._settle([task.result() for task in ended])
                for task in ended:
                    del self._sending[task]
                self.woken.set()  # the next events of these routes are due now

    async def _ended(self, *, may_be_woken: bool) -> list[asyncio.Task[Outcome]]:
        """The attempts that have ended. Waits for at least one, unless nothing is under way or the courier is woken
        first."""
        if not self._sending:
            return []
        waking = [asyncio.create_task(self.woken.wait())] if may_be_woken else []
        try:
            await asyncio.wait([*self._sending, *waking], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waking:
                task.cancel()
        return [task for task in self._sending if task.done()]

    async def _claim(self, most: int) -> None:
        if self._couriers.is_stopping or self._couriers.is_paused():
            return
        claim = partial(
            deliveries.claim_deliveries,
            endpoint_id=self._endpoint_id,
            most=most,
            under_way=len(self._sending),
            settings=self._settings,
            now=clock.now(),
        )
        try:
            batch: ClaimedBatch | None = await self._couriers.in_transaction(self._company_id, claim)
        except psycopg.Error as error:
            if not self._sending:
                raise
            log.warning("webhooks.not_claimed", endpoint_id=self._endpoint_id, error=str(error))
            return  # the ends of the attempts under way are stored first
        if batch is None:
            return
        for claimed in batch.claimed:
            sending = self._sender.send(batch.url, batch.secrets, claimed)
            self._sending[asyncio.create_task(sending)] = claimed

    async def _settle(self, outcomes: Sequence[Outcome]) -> None:
        """Stores how attempts ended. While that fails, as without the database or behind a long lock, it tries again as
        long as the claims hold, because an attempt without a stored end is made again."""
        while True:
            try:
                await self._couriers.in_transaction(self._company_id, partial(self._store, outcomes))
                break
            except psycopg.OperationalError:
                if clock.now() >= min(outcome.claimed.until for outcome in outcomes):
                    raise
                await asyncio.sleep(_STORE_AGAIN_SECONDS)
        for outcome in outcomes:
            WEBHOOKS.labels("delivered" if outcome.error is None else "failed").inc()
            log.debug(
                "webhooks.attempted",
                endpoint_id=self._endpoint_id,
                event_id=outcome.claimed.event_id,
                route_id=outcome.claimed.route_id,
                request_id=outcome.claimed.trace.request_id,
                status=outcome.status,
                error=outcome.error,
            )

    def _store(self, outcomes: Sequence[Outcome], connection: Connection) -> None:
        now = clock.now()
        disabled = deliveries.settle_deliveries(
            connection, self._endpoint_id, outcomes, settings=self._settings, now=now
        )
        if disabled is not None:
            log.warning("webhooks.endpoint_disabled", **disabled._asdict())

    async def _give_up(self) -> None:
        """Cuts off the attempts under way. An endpoint that had taken one gets it again."""
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        release = partial(
            deliveries.release_claims,
            endpoint_id=self._endpoint_id,
            claimed=list(self._sending.values()),
            now=clock.now(),
        )
        try:
            await self._couriers.in_transaction(self._company_id, release)
        except psycopg.Error:
            log.warning("webhooks.claims_not_released", endpoint_id=self._endpoint_id)  # they run out
