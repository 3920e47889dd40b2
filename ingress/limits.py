"""The rate limit: so many requests in any 60 seconds, counted for each key in Redis, the same on every process."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import redis

from domain.contract import RATE_LIMIT_REQUESTS, RATE_LIMIT_WINDOW_SECONDS
from domain.telemetry import get_logger

log = get_logger(__name__)

# One list for each key: the times of its accepted requests, newest first, in microseconds of Redis's own clock.
# Returns {requests left, microseconds until the oldest leaves the window}; -1 left: refused, and not counted.
_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local oldest = redis.call('LINDEX', KEYS[1], -1)
while oldest and tonumber(oldest) <= now - ARGV[2] do
    redis.call('RPOP', KEYS[1])
    oldest = redis.call('LINDEX', KEYS[1], -1)
end
local used = redis.call('LLEN', KEYS[1])
if used >= tonumber(ARGV[1]) then
    return {-1, oldest + ARGV[2] - now}
end
redis.call('LPUSH', KEYS[1], string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], ARGV[2] / 1000)
return {ARGV[1] - used - 1, 0}
"""
_PAUSE_SECONDS = 1.0  # after Redis failed, requests pass without asking it, so that none waits for it


class Allowance(NamedTuple):
    """What a key may still do."""

    allowed: bool
    remaining: int
    retry_after_seconds: int

    def headers(self) -> dict[str, str]:
        return {
            "X-RateLimit-Limit": str(RATE_LIMIT_REQUESTS),
            "X-RateLimit-Remaining": str(self.remaining),
        }


class RateLimiter:
    """Counts requests by key, many keys in one round trip."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._script = client.register_script(_SCRIPT)
        self._away_until = 0.0

    def take(self, key_ids: Sequence[str]) -> list[Allowance | None]:
        """One request of each key, in order. None for all while Redis is away: they pass uncounted."""
        if not key_ids:
            return []
        if time.monotonic() < self._away_until:
            return [None] * len(key_ids)
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for key_id in key_ids:
                    self._script(
                        keys=[f"fuelroute:requests:{key_id}"],
                        args=[RATE_LIMIT_REQUESTS, RATE_LIMIT_WINDOW_SECONDS * 1_000_000],
                        client=pipeline,
                    )
                answers = pipeline.execute()
        except redis.RedisError as error:
            self._away_until = time.monotonic() + _PAUSE_SECONDS
            log.warning("limits.redis_away", error=str(error))
            return [None] * len(key_ids)
        return [
            Allowance(remaining >= 0, max(remaining, 0), max(1, -(-wait_microseconds // 1_000_000)))
            for remaining, wait_microseconds in answers
        ]
