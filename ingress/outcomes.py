"""Waiting for the outcome of an import: workers announce finished routes over Redis pub/sub, by id only."""

import asyncio
from uuid import uuid4

import redis
import redis.asyncio

from domain.jobs import OUTCOME_CHANNEL
from domain.telemetry import get_logger

log = get_logger(__name__)

_RECONNECT_SECONDS = 1.0


class Outcomes:
    """The routes that requests of this process wait for."""

    def __init__(self, redis_url: str) -> None:
        self.reply_to = uuid4().hex
        self._url = redis_url
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def expect(self, route_id: str) -> asyncio.Future[None]:
        """Starts waiting, before the job is enqueued, so that no answer comes too early to be heard."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(route_id, set()).add(future)
        return future

    async def wait(self, route_id: str, future: asyncio.Future[None], seconds: float) -> None:
        """Until the route has an outcome, `seconds` at most; what it is stands in the database."""
        try:
            await asyncio.wait_for(future, seconds)
        except TimeoutError:
            pass
        finally:
            self.forget(route_id, future)

    def forget(self, route_id: str, future: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(route_id, set())
        waiting.discard(future)
        if not waiting:
            self._waiting.pop(route_id, None)

    async def listen(self) -> None:
        """Runs as long as the process; reconnects when Redis was away."""
        while True:
            try:
                async with (
                    redis.asyncio.Redis.from_url(self._url, socket_timeout=None, socket_connect_timeout=1) as client,
                    client.pubsub() as channel,
                ):
                    await channel.subscribe(OUTCOME_CHANNEL + self.reply_to)
                    async for message in channel.listen():
                        if message["type"] == "message":
                            self._wake(message["data"].decode())
            except (redis.RedisError, OSError) as error:
                log.warning("outcomes.redis_away", error=str(error))
            await asyncio.sleep(_RECONNECT_SECONDS)

    def _wake(self, announced: str) -> None:
        for route_id in announced.split(","):
            for future in self._waiting.get(route_id, ()):
                if not future.done():
                    future.set_result(None)
