"""The rate limits: requests to the API, to the feed and for previews, and positions, in any 60 seconds.

Redis counts them for each key, in one place for all processes."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal
from uuid import UUID

import redis.asyncio
from msgspec import Struct

from domain.contract.shapes import RATE_LIMIT_REQUESTS, RATE_LIMIT_WINDOW_SECONDS
from domain.ids import shown_id
from domain.queue.async_scripts import AsyncScript
from domain.queue.circuit import RedisCircuit

# One list for each key: the times of its accepted requests, newest first, in microseconds of Redis's own clock. ARGV[2]
# has a digit for each key: 0 only asks, others count a request; the limit is ARGV[3], that of a 2 ARGV[4], and that of
# a 3 ARGV[5]. Returns for each {requests left, microseconds until the oldest leaves the window}; -1 left means refused
# and not counted. A time that lies a window ahead was noted before that clock was set back, and counts no more.
_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local stamp = string.format('%.0f', now)
local window = tonumber(ARGV[1])
local answers = {}
for i, key in ipairs(KEYS) do
    local oldest = redis.call('LINDEX', key, -1)
    while oldest and math.abs(now - oldest) >= window do
        redis.call('RPOP', key)
        oldest = redis.call('LINDEX', key, -1)
    end
    local used = redis.call('LLEN', key)
    local digit = string.byte(ARGV[2], i) - 48
    local limit = tonumber(ARGV[math.max(digit, 1) + 2])
    if digit == 0 then
        answers[2 * i - 1], answers[2 * i] = math.max(limit - used, 0), 0
    elseif used >= limit then
        answers[2 * i - 1], answers[2 * i] = -1, oldest + window - now
    else
        redis.call('LPUSH', key, stamp)
        redis.call('PEXPIRE', key, window / 1000)
        answers[2 * i - 1], answers[2 * i] = limit - used - 1, 0
    end
end
return answers
"""
# Positions come by the thousand, so they are counted by the second: a hash for each key, of Redis's seconds. Returns
# the seconds until this many more fit into the window, or 0 if they did and are counted.
_POSITIONS_SCRIPT = """
local now = tonumber(redis.call('TIME')[1])
local most, window, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local counts = redis.call('HGETALL', KEYS[1])
local used, seconds = 0, {}
for i = 1, #counts, 2 do
    local second = tonumber(counts[i])
    if math.abs(now - second) >= window then
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
# Pages come many at a time, of few companies. Lists as above, for the links first; ARGV[1] is the window, ARGV[2] the
# number of links, ARGV[3] and ARGV[4] the limits of a link and of a company, and then comes the number of pages of each
# key. Returns for each {pages counted, microseconds until the next may come}.
_PAGES_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local stamp = string.format('%.0f', now)
local window, links = tonumber(ARGV[1]), tonumber(ARGV[2])
local answers = {}
for i, key in ipairs(KEYS) do
    local oldest = redis.call('LINDEX', key, -1)
    while oldest and math.abs(now - oldest) >= window do
        redis.call('RPOP', key)
        oldest = redis.call('LINDEX', key, -1)
    end
    local wanted, limit = tonumber(ARGV[4 + i]), tonumber(ARGV[i <= links and 3 or 4])
    local counted = math.max(0, math.min(wanted, limit - redis.call('LLEN', key)))
    for _ = 1, counted do
        redis.call('LPUSH', key, stamp)
    end
    if counted > 0 then
        redis.call('PEXPIRE', key, window / 1000)
    end
    answers[2 * i - 1], answers[2 * i] = counted, (oldest or now) + window - now
end
return answers
"""


Counted = Literal["requests", "feed_requests", "previews"]
"""The kind of a request in the counts: to the API, to the feed, or for a preview."""


def counter_of(what: Counted | Literal["positions"], key_id: UUID) -> str:
    """The Redis key that counts the requests or positions of an API key."""
    return f"fuelroute:{what}:{shown_id('key', key_id)}"


PAGES_OF_LINK = 120
"""Most pages of one driver's link in 60 seconds: a page that waits for a new plan asks every second and a half."""
PAGES_OF_COMPANY = 6_000
"""Most pages of all drivers of a company in 60 seconds."""


class Allowance(Struct, frozen=True, gc=False):
    """The requests that a key has left."""

    allowed: bool
    remaining: int
    """Requests to the API that are left, even if this one went to the feed."""
    retry_after_seconds: int
    limit: int = RATE_LIMIT_REQUESTS
    """The limit that this request counts against."""
    shown_limit: int = RATE_LIMIT_REQUESTS
    """The limit of which `remaining` requests are left."""

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers that show the allowance, for ASGI."""
        return [
            (b"x-ratelimit-limit", b"%d" % self.shown_limit),
            (b"x-ratelimit-remaining", b"%d" % self.remaining),
        ]


class RateLimiter:
    """Counts requests by key, many keys in one call, and the positions of a key. While Redis is away, all pass."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        circuit: RedisCircuit,
        *,
        positions_per_minute: int = 600_000,
        feed_requests_per_minute: int = 6_000,
        previews_per_minute: int = 300,
    ) -> None:
        self._circuit = circuit
        self._script = AsyncScript(client, _SCRIPT)
        self._positions_script = AsyncScript(client, _POSITIONS_SCRIPT)
        self._pages_script = AsyncScript(client, _PAGES_SCRIPT)
        self._positions_per_minute = positions_per_minute
        self._feed_requests_per_minute = feed_requests_per_minute
        self._previews_per_minute = previews_per_minute

    async def take(self, requests: Sequence[tuple[UUID, Counted] | None]) -> list[Allowance | None]:
        """Counts one request of each key, in order. A request that was counted before is None in the list and in the
        result. All results are None while Redis is away: the requests pass uncounted."""
        allowances: list[Allowance | None] = [None] * len(requests)
        keys: list[str] = []
        digits = ""
        for request in requests:
            if request is not None:
                keys.append(counter_of(request[1], request[0]))
                digits += "3" if request[1] == "previews" else "1"
                if request[1] == "feed_requests":  # the headers tell what is left of the other
                    keys.append(counter_of("requests", request[0]))
                    digits = digits[:-1] + "20"
        if not keys:
            return allowances
        answers = await self._run(
            self._script,
            keys,
            RATE_LIMIT_WINDOW_SECONDS * 1_000_000,
            digits,
            RATE_LIMIT_REQUESTS,
            self._feed_requests_per_minute,
            self._previews_per_minute,
        )
        if answers is None:
            return allowances
        pairs = iter(zip(answers[::2], answers[1::2], strict=True))
        for position, request in enumerate(requests):
            if request is not None:
                left, wait_microseconds = remaining, _ = next(pairs)
                limit = shown = RATE_LIMIT_REQUESTS
                if request[1] == "feed_requests":
                    limit, (remaining, _) = self._feed_requests_per_minute, next(pairs)
                elif request[1] == "previews":
                    limit = shown = self._previews_per_minute
                retry_after_seconds = max(1, -(-wait_microseconds // 1_000_000))
                allowances[position] = Allowance(left >= 0, max(remaining, 0), retry_after_seconds, limit, shown)
        return allowances

    async def take_pages(self, links: Sequence[tuple[UUID, UUID]]) -> list[int]:
        """Counts a page of each driver's link, and of its company. Returns for each 0, or the seconds until the next
        page may be shown."""
        if not links:
            return []
        of_links, of_companies = Counter(link for link, _ in links), Counter(company for _, company in links)
        wanted = {**of_links, **of_companies}
        answers = await self._run(
            self._pages_script,
            [f"fuelroute:pages:{one.hex}" for one in wanted],
            RATE_LIMIT_WINDOW_SECONDS * 1_000_000,
            len(of_links),
            PAGES_OF_LINK,
            PAGES_OF_COMPANY,
            *wanted.values(),
        )
        if answers is None:
            return [0] * len(links)
        left, waits = dict(zip(wanted, answers[::2], strict=True)), dict(zip(wanted, answers[1::2], strict=True))

        def seconds(one: UUID) -> int:
            left[one] -= 1
            return 0 if left[one] >= 0 else -(-waits[one] // 1_000_000)

        return [max(seconds(link), seconds(company)) for link, company in links]

    async def take_positions(self, key_id: UUID, positions: int) -> int:
        """Counts positions of a key, all or none. Returns 0, or the seconds until this many are allowed."""
        seconds = await self._run(
            self._positions_script,
            [counter_of("positions", key_id)],
            self._positions_per_minute,
            RATE_LIMIT_WINDOW_SECONDS,
            positions,
        )
        return seconds or 0

    async def _run(self, script: AsyncScript, keys: list[str], *arguments: int | str) -> Any:
        """The result of a script; None while Redis is away."""
        return await self._circuit.ask_async(lambda: script(keys, arguments), otherwise=None)
