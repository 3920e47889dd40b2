"""The rate limiter of an event loop, for tests that have none; and requests that a key has made before."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

import redis.asyncio

from domain.queue.circuit import RedisCircuit
from domain.queue.redis_clients import async_redis_client, redis_client
from ingress.api.rate_limits import Allowance, Counted, RateLimiter, counter_of
from tests.service import Client


class BlockingLimiter:
    """Runs a loop of its own for as long as each call takes."""

    def __init__(self, runner: asyncio.Runner, limiter: RateLimiter, client: redis.asyncio.Redis) -> None:
        self._runner = runner
        self._limiter = limiter
        self.client = client

    def take(self, key_ids: Sequence[UUID | None], counted: Counted = "requests") -> list[Allowance | None]:
        requests = [(key_id, counted) if key_id is not None else None for key_id in key_ids]
        return self._runner.run(self._limiter.take(requests))

    def take_positions(self, key_id: UUID, positions: int) -> int:
        return self._runner.run(self._limiter.take_positions(key_id, positions))

    def take_pages(self, links: Sequence[tuple[UUID, UUID]]) -> list[int]:
        return self._runner.run(self._limiter.take_pages(links))


@contextmanager
def blocking_limiter(
    url: str, *, positions_per_minute: int = 600_000, feed_requests_per_minute: int = 6_000
) -> Iterator[BlockingLimiter]:
    with asyncio.Runner() as runner, redis_client(url) as blocking:
        client = async_redis_client(url)
        limiter = RateLimiter(
            client,
            RedisCircuit(blocking),
            positions_per_minute=positions_per_minute,
            feed_requests_per_minute=feed_requests_per_minute,
        )
        yield BlockingLimiter(runner, limiter, client)
        runner.run(client.aclose())


def spend(client: Client, counter: Counted, requests: int) -> None:
    """Pretends that the key has just made so many."""
    with redis_client(client.service.settings.require_redis_url()) as redis:
        seconds, microseconds = redis.time()
        redis.lpush(counter_of(counter, client.key_id), *[int(seconds) * 1_000_000 + int(microseconds)] * requests)
