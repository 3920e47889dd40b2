"""`/readyz` of the ingress and the console.

Callers at the same time share one report. A thread of its own makes it, so neither requests nor threads for other work
delay it."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from domain.telemetry.health import Health, HealthReport


class Readiness:
    """The readiness of one process, for its event loop."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self._asking: asyncio.Future[HealthReport] | None = None

    async def report(self) -> HealthReport:
        """The report, within a second."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().run_in_executor(self._thread, self._health.ready)
        return await asyncio.shield(self._asking)
