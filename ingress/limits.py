"""The rate limit: so many requests, and positions of the feed, in any 60 seconds, counted for each key in Redis, the
same on every process.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple
from uuid import UUID

import redis.asyncio
from redis.commands.core import AsyncScript

from domain.contract.shapes import RATE_LIMIT_REQUESTS, RATE_LIMIT_WINDOW_SECONDS
from domain.ids import shown_id
from domain.redis_circuit import RedisCircuit

# One list for each key: the times of its accepted requests, newest first, in microseconds of Redis's own clock.
# ARGV[3] has a digit for each key: 1 counts a request, 0 only asks.
# Returns for each {requests left, microseconds until the oldest leaves the window}; -1 left: refused, not counted.
_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local stamp = string.format('%.0f', now)
local answers = {}
for i, key in ipairs(KEYS) do
    local oldest = redis.call('LINDEX', key, -1)
    while oldest and tonumber(oldest) <= now - ARGV[2] do
        redis.call('RPOP', key)
        oldest = redis.call('LINDEX', key, -1)
    end
    local used = redis.call('LLEN', key)
    if string.byte(ARGV[3], i) == 48 then
        answers[2 * i - 1], answers[2 * i] = math.max(ARGV[1] - used, 0), 0
    elseif used >= tonumber(ARGV[1]) then
        answers[2 * i - 1], answers[2 * i] = -1, oldest + ARGV[2] - now
    else
        redis.call('LPUSH', key, stamp)
        redis.call('PEXPIRE', key, ARGV[2] / 1000)
        answers[2 * i - 1], answers[2 * i] = ARGV[1] - used - 1, 0
    end
end
return answers
"""
# Positions come by the thousand, so they are counted by the second: a hash for each key, of Redis's seconds.
# Returns the seconds until so many more fit into the window; 0: they did, and are counted.
_POSITIONS_SCRIPT = """
local now = tonumber(redis.call('TIME')[1])
local most, window, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local counts = redis.call('HGETALL', KEYS[1])
local used, seconds = 0, {}
for i = 1, #counts, 2 do
    local second = tonumber(counts[i])
    if second <= now - window then
        redis.call('HDEL', KEYS[1], counts[i])
    else
        used = used + counts[i + 1]
        seconds[#seconds + 1] = {second, tonumber(counts[i + 1])}
    end
end
if used + wanted <= most then
    redis.call('HINCRBY', KEYS[1], now, wanted)
    redis.call('EXPIRE', KEYS[1], window)
    return 0
end
table.sort(seconds, function(one, other) return one[1] < other[1] end)
for _, counted in ipairs(seconds) do
    used = used - counted[2]
    if used + wanted <= most then
        return counted[1] + window - now
    end
end
return window
"""


def counter_of(what: Literal["requests", "positions"], key_id: UUID) -> str:
    """Where Redis counts what comes with a key."""
    return f"fuelroute:{what}:{shown_id('key', key_id)}"


class Allowance(NamedTuple):
    """What a key may still do."""

    allowed: bool
    remaining: int
    retry_after_seconds: int

    def headers(self) -> list[tuple[bytes, bytes]]:
        """As ASGI wants them."""
        return [
            (b"x-ratelimit-limit", b"%d" % RATE_LIMIT_REQUESTS),
            (b"x-ratelimit-remaining", b"%d" % self.remaining),
        ]


class RateLimiter:
    """Counts requests by key, many keys in one call, and the positions of a key. While Redis is away all pass."""

    def __init__(
        self, client: redis.asyncio.Redis, circuit: RedisCircuit, *, positions_per_minute: int = 600_000
    ) -> None:
        self._circuit = circuit
        self._script = client.register_script(_SCRIPT)
        self._positions_script = client.register_script(_POSITIONS_SCRIPT)
        self._positions_per_minute = positions_per_minute

    async def take(self, requests: Sequence[tuple[UUID, bool] | None]) -> list[Allowance | None]:
        """One request of each key, in order, with whether it counts; None has been counted before. None comes back for
        that, and for all while Redis is away: they pass uncounted."""
        allowances: list[Allowance | None] = [None] * len(requests)
        asked = {position: request for position, request in enumerate(requests) if request is not None}
        if not asked:
            return allowances
        keys = [counter_of("requests", key_id) for key_id, _ in asked.values()]
        counts = "".join("1" if is_counted else "0" for _, is_counted in asked.values())
        answers = await self._run(
            self._script, keys, RATE_LIMIT_REQUESTS, RATE_LIMIT_WINDOW_SECONDS * 1_000_000, counts
        )
        if answers is not None:
            for position, remaining, wait_microseconds in zip(asked, answers[::2], answers[1::2], strict=True):
                retry_after_seconds = max(1, -(-wait_microseconds // 1_000_000))
                allowances[position] = Allowance(remaining >= 0, max(remaining, 0), retry_after_seconds)
        return allowances

    async def take_positions(self, key_id: UUID, positions: int) -> int:
        """Counts positions of a key, all or none. Returns in how many seconds so many are allowed; 0: they are now."""
        seconds = await self._run(
            self._positions_script,
            [counter_of("positions", key_id)],
            self._positions_per_minute,
            RATE_LIMIT_WINDOW_SECONDS,
            positions,
        )
        return seconds or 0

    async def _run(self, script: AsyncScript, keys: list[str], *arguments: int | str) -> Any:
        """None while Redis is away."""
        return await self._circuit.ask_async(lambda: script(keys=keys, args=arguments), otherwise=None)
