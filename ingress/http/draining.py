"""The end of an ingress or console process: requests that were sent are answered, and no client meets a closed
connection without reason.

After SIGTERM, in this order:

1. `/readyz` says 503 and each answer carries `Connection: close`. The process goes on accepting connections for
   `drain_seconds`, until load balancers have noticed.
2. New connections are refused; those that the system has established already are taken.
3. Connections that rest between two requests stay open for a second at most: a client that uses one in time is
   answered, instead of meeting a connection that closes at that moment.
4. Requests under way are answered, within `stop_seconds` (`timeout_graceful_shutdown`, in uvicorn).
"""

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import uvicorn

from ingress.http.connection_limits import ConnectionLimiter

LINGER_SECONDS = 1.0
_TURN_SECONDS = 0.02
_DATE_SECONDS = 1.0


class DrainingServer(uvicorn.Server):
    """uvicorn's server with this end. `stopping` is called when it begins."""

    def __init__(
        self,
        config: uvicorn.Config,
        limiter: ConnectionLimiter,
        *,
        drain_seconds: float,
        stopping: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._limiter = limiter
        self._drain_seconds = drain_seconds
        self._stopping = stopping
        self._end_is_asked: Callable[[], object] = lambda: None

    async def main_loop(self) -> None:
        """Serves until `handle_exit`. uvicorn's own loop looks for that ten times a second, which was most of what an
        idle process cost; the date of answers changes once a second."""
        asked, loop = asyncio.Event(), asyncio.get_running_loop()
        self._end_is_asked = lambda: loop.call_soon_threadsafe(asked.set)
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(asked.wait(), _DATE_SECONDS)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._end_is_asked()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping()
        self._limiter.drain()
        await self._wait(self._drain_seconds, lambda: False)
        await self._refuse_connections(sockets or [])
        await self._wait(LINGER_SECONDS, lambda: not self.server_state.connections)
        await super().shutdown(sockets)

    async def _wait(self, seconds: float, is_over: Callable[[], bool]) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not is_over() and not self.force_exit:
            await asyncio.sleep(_TURN_SECONDS)

    async def _refuse_connections(self, listeners: list[socket.socket]) -> None:
        """Closes the listening sockets. Before that it takes the connections that the system has established for them,
        because the system would reset those."""
        established = []
        for listener in listeners:
            with suppress(OSError):  # there is none left
                while True:
                    established.append(listener.accept()[0])
        for server in self.servers:
            server.close()
        for one in established:
            one.setblocking(False)
            with suppress(OSError):  # its client has gone
                await asyncio.get_running_loop().connect_accepted_socket(self._connection, one)

    def _connection(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
