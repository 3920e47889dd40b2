"""Waiting for the outcome of an import: workers announce it over Redis pub/sub, after their commit."""

import asyncio
from collections import OrderedDict
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import msgspec
import redis
import redis.asyncio
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from domain.jobs import OUTCOME_CHANNEL
from domain.observability import get_logger
from domain.routes.imports import Outcome

log = get_logger(__name__)

_SILENCE_SECONDS = 1.5
"""After which a subscription is asked for a sign of life, and after as long again is given up. With the pause before
the next connection, nobody is deaf for 5 s."""

_RECONNECT_SECONDS = 0.5
_MAX_EARLY = 5_000

_Announced = Outcome | int
"""What an import made of a route; or, where another import was first, only the revision that the route is at."""

_decoder = msgspec.json.Decoder(dict[UUID, _Announced])


class _Waiting(NamedTuple):
    revision: int
    future: asyncio.Future[_Announced]


class Outcomes:
    """The routes that requests of this process wait for, each from one revision of its input on.

    An outcome may come before its request waits for it, since the job is enqueued with the commit: the one of the
    newest revision is kept for a while.
    """

    def __init__(self, redis_url: str) -> None:
        self.reply_to = uuid4().hex
        self._url = redis_url
        self._deaf = False
        self._waiting: dict[UUID, list[_Waiting]] = {}
        self._early: OrderedDict[UUID, _Announced] = OrderedDict()

    async def wait(self, route_id: UUID, revision: int, seconds: float) -> Outcome | None:
        """Waits until that revision of the route, or a later one, has an outcome; `seconds` at most. None: no outcome
        came in time, or it is that of a later revision. The database has the route's state in any case."""
        announced = self._early.get(route_id, 0)
        if _revision_of(announced) < revision:
            announced = await self._announcement(route_id, revision, seconds)
        return announced if isinstance(announced, Outcome) and announced.revision == revision else None

    async def _announcement(self, route_id: UUID, revision: int, seconds: float) -> _Announced:
        loop = asyncio.get_running_loop()
        one = _Waiting(revision, loop.create_future())
        waiting = self._waiting.setdefault(route_id, [])
        waiting.append(one)
        expiry = loop.call_later(seconds, _settle, one.future, 0)
        try:
            return await one.future
        finally:
            expiry.cancel()
            waiting.remove(one)
            if not waiting:
                self._waiting.pop(route_id, None)

    async def listen(self) -> None:
        """Runs as long as the process; connects again when Redis was away, or silent."""
        while True:
            try:
                async with (
                    redis.asyncio.Redis.from_url(
                        self._url,
                        socket_timeout=_SILENCE_SECONDS,
                        socket_connect_timeout=_SILENCE_SECONDS,
                        retry=Retry(NoBackoff(), 0),
                    ) as client,
                    client.pubsub() as channel,
                ):
                    await channel.subscribe(OUTCOME_CHANNEL + self.reply_to)
                    await self._hear(channel)
            except (redis.RedisError, OSError) as error:
                if not self._deaf:
                    log.warning("outcomes.redis_away", error=str(error))
                self._deaf = True
            except Exception:  # without this task every push would wait in vain, and nobody would know
                log.exception("outcomes.failed")
                self._deaf = True
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _hear(self, channel: PubSub) -> None:
        """What is announced, until the connection fails. Redis is asked for a sign of life when it has been silent: a
        server that vanished closes nothing. Raises redis.RedisError."""
        asked = False
        while True:
            message = await channel.get_message(timeout=_SILENCE_SECONDS)
            if message is not None:
                asked = False
                self._understand(message)
            elif asked:
                raise redis.TimeoutError(f"no sign of life for {_SILENCE_SECONDS:g} s")
            else:
                asked = True
                await channel.ping()

    def _understand(self, message: dict[str, Any]) -> None:
        if message["type"] == "subscribe" and self._deaf:
            self._deaf = False
            log.info("outcomes.redis_back")
        if message["type"] == "message":
            try:
                self.announced(message["data"])
            except msgspec.DecodeError as error:  # of a worker of another release; its requests read the database
                log.warning("outcomes.unreadable", error=str(error))

    def announced(self, message: bytes) -> None:
        """Wakes whoever waits for the routes of a job."""
        for route_id, announced in _decoder.decode(message).items():
            revision = _revision_of(announced)
            for one in self._waiting.get(route_id, ()):
                if one.revision <= revision:
                    _settle(one.future, announced)
            if revision > _revision_of(self._early.get(route_id, 0)):
                self._early[route_id] = announced
                if len(self._early) > _MAX_EARLY:
                    self._early.popitem(last=False)


def _revision_of(announced: _Announced) -> int:
    return announced.revision if isinstance(announced, Outcome) else announced


def _settle(future: asyncio.Future[_Announced], announced: _Announced) -> None:
    if not future.done():
        future.set_result(announced)
