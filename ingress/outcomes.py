"""Waiting for the outcome of an import: workers announce it over Redis pub/sub, after their commit."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from uuid import uuid4

import msgspec
import redis
import redis.asyncio

from domain.imports import Outcome
from domain.jobs import OUTCOME_CHANNEL
from domain.telemetry import get_logger

log = get_logger(__name__)

_RECONNECT_SECONDS = 1.0
_MOST_EARLY = 10_000

_decoder = msgspec.json.Decoder(dict[str, Outcome | None])


class Outcomes:
    """The routes that requests of this process wait for.

    An outcome may come before its request waits for it, since the job is enqueued with the commit: it is kept for a
    while. None is an outcome too: there is one, but it has to be read from the database.
    """

    def __init__(self, redis_url: str) -> None:
        self.reply_to = uuid4().hex
        self._url = redis_url
        self._waiting: dict[str, list[asyncio.Future[Outcome | None]]] = {}
        self._early: OrderedDict[str, Outcome | None] = OrderedDict()

    async def wait(self, route_id: str, seconds: float) -> Outcome | None:
        """Until the route has an outcome, `seconds` at most; what it is stands in the database in any case."""
        if route_id in self._early:
            return self._early.pop(route_id)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome | None] = loop.create_future()
        waiting = self._waiting.setdefault(route_id, [])
        waiting.append(future)
        expiry = loop.call_later(seconds, _settle, future, None)
        try:
            return await future
        finally:
            expiry.cancel()
            waiting.remove(future)
            if not waiting:
                self._waiting.pop(route_id, None)

    def forget(self, route_ids: Iterable[str]) -> None:
        """What is known of these routes is of an earlier import: a new one is about to be asked for. For any thread."""
        for route_id in route_ids:
            self._early.pop(route_id, None)

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
                            self.announced(message["data"])
            except (redis.RedisError, OSError) as error:
                log.warning("outcomes.redis_away", error=str(error))
            except msgspec.DecodeError as error:  # of a worker of another release; its requests read the database
                log.warning("outcomes.unreadable", error=str(error))
            await asyncio.sleep(_RECONNECT_SECONDS)

    def announced(self, message: bytes) -> None:
        """Wakes whoever waits for the routes of a job."""
        for route_id, outcome in _decoder.decode(message).items():
            waiting = self._waiting.get(route_id)
            if waiting is None:
                self._early[route_id] = outcome
                if len(self._early) > _MOST_EARLY:
                    self._early.popitem(last=False)
            else:
                for future in waiting:
                    _settle(future, outcome)


def _settle(future: asyncio.Future[Outcome | None], outcome: Outcome | None) -> None:
    if not future.done():
        future.set_result(outcome)
