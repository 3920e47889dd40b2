"""Listens for the outcomes of imports: workers announce them over Redis pub/sub, after their commit."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Generic, TypeVar
from uuid import UUID, uuid4

import msgspec
import redis
import redis.asyncio
from msgspec import Struct
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from domain.queue.redis_clients import async_redis_client
from domain.queue.redis_layout import outcomes_channel
from domain.routes.intake.imports import ImportOutcome
from domain.telemetry.logs import get_logger

log = get_logger(__name__)

_SILENCE_SECONDS = 1.5
"""A subscription silent for this long is asked for a sign of life, and ended after the same time again. With the pause
before the next connection, outcomes are missed for less than 5 s."""

_RECONNECT_SECONDS = 0.5

_Announced = ImportOutcome | int
"""The outcome of a route's import, or, where another import came first, just the revision of the route."""

_decoder = msgspec.json.Decoder(dict[UUID, _Announced])

Item = TypeVar("Item")


class ExpectedOutcome(Struct, Generic[Item], frozen=True):
    """An expected outcome: a route, the first revision of its input that counts, and the item that waits for it."""

    route_id: UUID
    revision: int
    item: Item


class ReceivedOutcome(Struct, Generic[Item], frozen=True):
    """An outcome that came; None for a later revision, so that the route's state is in the database."""

    item: Item
    outcome: ImportOutcome | None


class Expectation(Generic[Item]):
    """The outcomes that a batch of pushes waits for. It receives those announced inside its `with` block."""

    def __init__(self, waiting: "dict[UUID, list[_Waiting]]", expected: Sequence[ExpectedOutcome[Item]]) -> None:
        self._waiting = waiting
        self._expected = expected
        self._left = len(expected)
        self._received: list[ReceivedOutcome[Item]] = []
        self._wake_up: asyncio.Future[bool] | None = None

    def __enter__(self) -> "Expectation[Item]":
        for one in self._expected:
            self._waiting.setdefault(one.route_id, []).append(_Waiting(self, one))
        return self

    def __exit__(self, *_: object) -> None:
        for route_id in {one.route_id for one in self._expected} if self._left else ():
            others = [one for one in self._waiting.pop(route_id, ()) if one.expectation is not self]
            if others:
                self._waiting[route_id] = others

    def receive(self, item: Item, outcome: ImportOutcome | None) -> None:
        self._received.append(ReceivedOutcome(item, outcome))
        self._left -= 1
        self._wake()

    async def outcomes(self, seconds: float) -> AsyncIterator[list[ReceivedOutcome[Item]]]:
        """Yields the outcomes as they come, until all are there or the time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self._received or (self._left and loop.time() < until):
            if not self._received:
                self._wake_up = loop.create_future()
                expiry = loop.call_at(until, self._wake)
                await self._wake_up
                expiry.cancel()
            received, self._received = self._received, []
            if received:
                yield received

    def _wake(self) -> None:
        if self._wake_up is not None and not self._wake_up.done():
            self._wake_up.set_result(True)


class _Waiting(Struct, frozen=True):
    expectation: Expectation[Any]
    expected: ExpectedOutcome[Any]


class OutcomeListener:
    """Delivers outcomes to the requests of this process that wait for them."""

    def __init__(self, redis_url: str) -> None:
        self.reply_to = uuid4().hex
        self._url = redis_url
        self._is_disconnected = False
        self._waiting: dict[UUID, list[_Waiting]] = {}

    def expect(self, expected: Sequence[ExpectedOutcome[Item]]) -> Expectation[Item]:
        """An expectation of these outcomes. Enter it before the job is enqueued: an outcome without an expectation is
        dropped."""
        return Expectation(self._waiting, expected)

    async def listen(self) -> None:
        """Listens as long as the process runs; connects again when Redis was away, or silent."""
        options = {"socket_timeout": _SILENCE_SECONDS, "socket_connect_timeout": _SILENCE_SECONDS}
        while True:
            try:
                async with (
                    async_redis_client(self._url, **options, retry=Retry(NoBackoff(), 0)) as client,
                    client.pubsub() as channel,
                ):
                    await channel.subscribe(outcomes_channel(self.reply_to))
                    await self._receive(channel)
            except (redis.RedisError, OSError) as error:
                if not self._is_disconnected:
                    log.warning("outcomes.redis_away", error=str(error))
                self._is_disconnected = True
            except Exception:  # without this task every push would wait in vain, and nobody would know
                log.exception("outcomes.listener_failed")
                self._is_disconnected = True
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _receive(self, channel: PubSub) -> None:
        """Delivers the announced outcomes until the connection fails. After a silence Redis is asked for a sign of
        life, because a server that vanished closes nothing. Raises redis.RedisError when the connection is lost;
        `listen` then connects again."""
        asked = False
        while True:
            message = await channel.get_message(timeout=_SILENCE_SECONDS)
            if message is not None:
                asked = False
                self._handle(message)
            elif asked:
                raise redis.TimeoutError(f"no sign of life for {_SILENCE_SECONDS:g} s")
            else:
                asked = True
                await channel.ping()

    def _handle(self, message: dict[str, Any]) -> None:
        if message["type"] == "subscribe" and self._is_disconnected:
            self._is_disconnected = False
            log.info("outcomes.redis_back")
        if message["type"] == "message":
            try:
                self.deliver(message["data"])
            except msgspec.DecodeError as error:  # a worker of another release sent it; the requests read the database
                log.warning("outcomes.unreadable", error=str(error))

    def deliver(self, message: bytes) -> None:
        """Hands the outcomes of a job to the expectations that wait for them."""
        for route_id, announced in _decoder.decode(message).items():
            waiting = self._waiting.get(route_id)
            if waiting is None:
                continue
            outcome, revision = (
                (announced, announced.revision) if isinstance(announced, ImportOutcome) else (None, announced)
            )
            later = [one for one in waiting if one.expected.revision > revision]
            if later:
                self._waiting[route_id] = later
            else:
                del self._waiting[route_id]
            for one in waiting:
                expected = one.expected
                if expected.revision <= revision:
                    one.expectation.receive(expected.item, outcome if expected.revision == revision else None)
