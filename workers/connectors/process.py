"""One process of connectors: takes leases, polls each connector in a task of its own, and gives the leases back when it
ends.

Any number of processes may run, on any machines. When one is lost its leases run out, and the others take them."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from uuid import UUID
from weakref import WeakValueDictionary

import psycopg
import uvloop

from domain import clock
from domain.connectors import leases
from domain.connectors.answer_readers import AnswerReaders
from domain.connectors.kinds import VENDORS
from domain.connectors.leases import LEASE_SECONDS, RENEW_SECONDS, ConnectorRow
from domain.database.connections import Connection, Database
from domain.database.visibility import NOTHING, of_companies
from domain.queue.job_queue import JobQueue
from domain.settings import Settings
from domain.telemetry.health import Health, Unhealthy
from domain.telemetry.logs import get_logger, log_ready
from domain.telemetry.metrics import CONNECTORS_POLLED, expose
from workers.connectors.poller import Poller

log = get_logger(__name__)

Result = TypeVar("Result")

LOOK_SECONDS = 2.0
"""The time between two searches for connectors that no process polls."""

_MOST_AT_A_LOOK = 10
"""Most connectors taken in one search, so that processes that start together share them."""
_MOST_OF_PROCESS = 2_000
_STORING_THREADS = 4
_SILENT_SECONDS = 3 * LEASE_SECONDS


def run(settings: Settings, health: Health) -> int:
    """Works until SIGTERM or SIGINT. Returns the exit status."""
    put = JobQueue.of(settings).put
    with (
        Database.of(settings, pool_size=2, put_jobs=put) as of_all,
        Database.of(settings, visible=lambda: NOTHING, pool_size=_STORING_THREADS, put_jobs=put) as walled,
        ThreadPoolExecutor(_STORING_THREADS, thread_name_prefix="storing") as threads,
    ):
        uvloop.run(Pollers(settings, of_all, walled, threads).run(health))
    return 0


class Pollers:
    """The connectors that this process polls."""

    def __init__(self, settings: Settings, of_all: Database, walled: Database, threads: ThreadPoolExecutor) -> None:
        self._settings = settings
        self._of_all = of_all
        self._walled = walled
        self._threads = threads
        self._readers = AnswerReaders()
        self._by = f"{socket.gethostname()}:{os.getpid()}"
        self._held: dict[UUID, tuple[Poller, asyncio.Task[None]]] = {}
        self._storing: WeakValueDictionary[UUID, asyncio.Lock] = WeakValueDictionary()
        self._looked_at = time.monotonic()
        self._renewed_at = time.monotonic()

    async def run(self, health: Health) -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        health.check_alive("looks", self._looks)
        expose(CONNECTORS_POLLED)
        log_ready(__name__, "connectors.ready", pid=os.getpid())
        while not stop.is_set():
            await self._look()
            try:
                await asyncio.wait_for(stop.wait(), LOOK_SECONDS)
            except TimeoutError:
                continue
        health.note_stopping()
        await self._stop()
        log.info("connectors.stopped")

    async def _look(self) -> None:
        """Renews leases when it is time, drops lost ones, and takes connectors that no process polls."""
        try:
            if time.monotonic() - self._renewed_at >= RENEW_SECONDS and self._held:
                await self._renew()
            self._drop_ended()
            if len(self._held) < _MOST_OF_PROCESS:
                for leased in await self._of_all_companies(self._lease):
                    self._begin(leased)
        except psycopg.Error as error:  # the next look
            log.warning("connectors.database_away", error=str(error))
        self._looked_at = time.monotonic()
        CONNECTORS_POLLED.set(len(self._held))

    def _lease(self, connection: Connection) -> list[ConnectorRow]:
        return leases.lease_connectors(connection, by=self._by, kinds=VENDORS, most=_MOST_AT_A_LOOK, now=clock.now())

    def _begin(self, leased: ConnectorRow) -> None:
        before = self._held.pop(leased.id, None)
        if before is not None:  # our own lease ran out, and we took the next one
            before[1].cancel()
        poller = Poller(leased, self._settings, self._store, self._readers)
        self._held[leased.id] = (poller, asyncio.create_task(poller.run()))
        log.info("connectors.leased", connector_id=leased.id, kind=leased.kind, lease_number=leased.lease_number)

    async def _renew(self) -> None:
        held = {id: poller for id, (poller, _) in self._held.items()}
        mine = [poller.leased for poller in held.values()]
        kept = await self._of_all_companies(lambda connection: leases.renew_leases(connection, mine, now=clock.now()))
        self._renewed_at = time.monotonic()
        for id, poller in held.items():
            if id not in kept and not poller.is_storing and self._held.get(id, (None,))[0] is poller:
                log.info("connectors.lease_lost", connector_id=id)
                self._held.pop(id)[1].cancel()

    def _drop_ended(self) -> None:
        for id in [id for id, (_, task) in self._held.items() if task.done()]:
            del self._held[id]

    async def _stop(self) -> None:
        """Waits for pages that are being stored, and gives the leases back."""
        storing = [task for poller, task in self._held.values() if poller.is_storing]
        for poller, task in self._held.values():
            if not poller.is_storing:
                task.cancel()
        deadline = time.monotonic() + self._settings.stop_seconds
        while any(poller.is_storing for poller, _ in self._held.values()) and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        for task in storing:
            task.cancel()
        await asyncio.gather(*(task for _, task in self._held.values()), return_exceptions=True)
        mine = [poller.leased for poller, _ in self._held.values()]
        try:
            await self._of_all_companies(lambda connection: leases.release_leases(connection, mine))
        except psycopg.Error as error:  # they run out
            log.warning("connectors.leases_not_released", error=str(error))

    async def _of_all_companies(self, work: Callable[[Connection], Result]) -> Result:
        """The result of `work` in a transaction that sees every company."""

        def do() -> Result:
            with self._of_all.transaction() as connection:
                return work(connection)

        return await asyncio.to_thread(do)

    async def _store(self, leased: ConnectorRow, work: Callable[[Connection], Result]) -> Result:
        """The result of `work` in a transaction. The pages of one company are stored one after the other, so that other
        companies' pages find a thread."""

        def do() -> Result:
            with self._walled.pipelined_transaction(of_companies([leased.company_id])) as connection:
                return work(connection)

        async with self._storing.setdefault(leased.company_id, asyncio.Lock()):
            return await asyncio.get_running_loop().run_in_executor(self._threads, do)

    def _looks(self) -> str:
        """The check of the search for leases. Raises Unhealthy if it has not run for a while: the event loop hangs, or
        the database is silent."""
        silent = time.monotonic() - self._looked_at
        if silent > _SILENT_SECONDS:
            raise Unhealthy(f"it has not looked after its leases for {silent:.0f} s")
        return f"polls {len(self._held)} connectors"
