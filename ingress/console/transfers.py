"""Files on their way to us and from us. If all places are taken, the slowest file gives its place to another one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

_SPARED_SECONDS = 10.0
"""A file younger than this is not judged by its rate."""


@dataclass(eq=False, slots=True)
class Transfer:
    """A file on its way. Its mover counts its bytes."""

    limit: asyncio.Timeout
    began: float
    passed_bytes: int = 0


class Transfers:
    """The files of one kind. It belongs to one event loop."""

    def __init__(self, *, spared_seconds: float = _SPARED_SECONDS) -> None:
        self._under_way: set[Transfer] = set()
        self._spared_seconds = spared_seconds

    @asynccontextmanager
    async def moving(self) -> AsyncIterator[Transfer]:
        """A file that moves during the block. Raises TimeoutError if it has to give its place up."""
        async with asyncio.timeout(None) as limit:
            transfer = Transfer(limit, asyncio.get_running_loop().time())
            self._under_way.add(transfer)
            try:
                yield transfer
            finally:
                self._under_way.discard(transfer)

    def cut_slowest(self) -> bool:
        """Cut off the slowest file, whose place is free a moment later. Returns False if every file began a moment
        ago."""
        now = asyncio.get_running_loop().time()
        judged = [one for one in self._under_way if now - one.began >= self._spared_seconds]
        if not judged:
            return False
        slowest = min(judged, key=lambda one: one.passed_bytes / (now - one.began))
        self._under_way.discard(slowest)
        slowest.limit.reschedule(now)
        return True
