"""Waiting for the outcome of an import: workers announce it over Redis pub/sub, after their commit."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID, uuid4

import msgspec
import redis
import redis.asyncio
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from domain.observability import get_logger
from domain.queue.redis_layout import outcomes_channel
from domain.routes.intake.imports import Outcome

log = get_logger(__name__)

_SILENCE_SECONDS = 1.5
"""After which a subscription is asked for a sign of life, and after as long again is given up. With the pause before
the next connection, nobody is deaf for 5 s."""

_RECONNECT_SECONDS = 0.5

_Announced = Outcome | int
"""What an import made of a route; or, where another import was first, only the revision that the route is at."""

_decoder = msgspec.json.Decoder(dict[UUID, _Announced])

Item = TypeVar("Item")


class Wanted(NamedTuple, Generic[Item]):
    """The outcome of a route, from one revision of its input on, and what it is wanted for."""

    route_id: UUID
    revision: int
    item: Item


class Told(NamedTuple, Generic[Item]):
    """What was announced. None: an outcome of a later revision; the database has the route's state."""

    item: Item
    outcome: Outcome | None


class Expectation(Generic[Item]):
    """What a batch of pushes waits for. It hears what is announced inside its `with` block."""

    def __init__(self, waiting: "dict[UUID, list[_Waiting]]", wanted: Sequence[Wanted[Item]]) -> None:
        self._waiting = waiting
        self._wanted = wanted
        self._left = len(wanted)
        self._heard: list[Told[Item]] = []
        self._news: asyncio.Future[bool] | None = None

    def __enter__(self) -> "Expectation[Item]":
        for one in self._wanted:
            self._waiting.setdefault(one.route_id, []).append(_Waiting(self, one))
        return self

    def __exit__(self, *_: object) -> None:
        for route_id in {one.route_id for one in self._wanted} if self._left else ():
            others = [one for one in self._waiting.pop(route_id, ()) if one.expectation is not self]
            if others:
                self._waiting[route_id] = others

    def hear(self, item: Item, outcome: Outcome | None) -> None:
        self._heard.append(Told(item, outcome))
        self._left -= 1
        self._wake()

    async def told(self, seconds: float) -> AsyncIterator[list[Told[Item]]]:
        """What is announced, as it comes, until all is told or the time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self._heard or (self._left and loop.time() < until):
            if not self._heard:
                self._news = loop.create_future()
                expiry = loop.call_at(until, self._wake)
                await self._news
                expiry.cancel()
            heard, self._heard = self._heard, []
            if heard:
                yield heard

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(True)


class _Waiting(NamedTuple):
    expectation: Expectation[Any]
    wanted: Wanted[Any]


class Outcomes:
    """The routes that requests of this process wait for."""

    def __init__(self, redis_url: str) -> None:
        self.reply_to = uuid4().hex
        self._url = redis_url
        self._deaf = False
        self._waiting: dict[UUID, list[_Waiting]] = {}

    def expect(self, wanted: Sequence[Wanted[Item]]) -> Expectation[Item]:
        """To be entered before the job is enqueued: an outcome that nobody expects is forgotten."""
        return Expectation(self._waiting, wanted)

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
                    await channel.subscribe(outcomes_channel(self.reply_to))
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
        """Tells whoever expects the routes of a job."""
        for route_id, announced in _decoder.decode(message).items():
            waiting = self._waiting.get(route_id)
            if waiting is None:
                continue
            outcome, revision = (announced, announced.revision) if isinstance(announced, Outcome) else (None, announced)
            later = [one for one in waiting if one.wanted.revision > revision]
            if later:
                self._waiting[route_id] = later
            else:
                del self._waiting[route_id]
            for expectation, wanted in waiting:
                if wanted.revision <= revision:
                    expectation.hear(wanted.item, outcome if wanted.revision == revision else None)
