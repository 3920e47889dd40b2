"""The rate limit on a real Redis: 600 requests of a key in any 60 seconds (decision 14)."""

import time
from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

import msgspec
import pytest
import redis

from domain.queue.redis_clients import async_redis_client, redis_client
from domain.settings import Settings
from ingress.api.rate_limits import PAGES_OF_COMPANY, PAGES_OF_LINK, Allowance, counter_of
from tests.limiter import BlockingLimiter, blocking_limiter
from tests.service import eventually, one_below, takes_less

LIMIT = 600
AWAY = "redis://127.0.0.1:9/0"


@pytest.fixture
def client(settings: Settings) -> Iterator[redis.Redis]:
    with redis_client(settings.require_redis_url()) as one:
        yield one


@pytest.fixture
def limiter(settings: Settings) -> Iterator[BlockingLimiter]:
    with blocking_limiter(settings.require_redis_url()) as one:
        yield one


@pytest.fixture
def key_id() -> UUID:
    return uuid4()


@pytest.fixture
def spent(client: redis.Redis, key_id: UUID) -> Callable[..., None]:
    """Pretends that the key made requests so many seconds ago: Redis's own clock is what counts."""

    def spend(requests: int, *, seconds_ago: float) -> None:
        seconds, microseconds = client.time()
        moment = int(seconds) * 1_000_000 + int(microseconds) - int(seconds_ago * 1_000_000)
        client.lpush(counter_of("requests", key_id), *[moment] * requests)

    return spend


def take(limiter: BlockingLimiter, key_id: UUID) -> Allowance:
    (allowance,) = limiter.take([key_id])
    assert allowance is not None
    return allowance


def test_a_fresh_key_has_599_requests_left_after_its_first(limiter: BlockingLimiter, key_id: UUID) -> None:
    allowance = take(limiter, key_id)

    assert (allowance.allowed, allowance.remaining) == (True, 599)
    assert allowance.headers() == [(b"x-ratelimit-limit", b"600"), (b"x-ratelimit-remaining", b"599")]


def test_600_requests_pass_and_the_next_is_refused(limiter: BlockingLimiter, key_id: UUID) -> None:
    allowances = limiter.take([key_id] * (LIMIT + 1))

    assert [one.allowed for one in allowances if one] == [True] * LIMIT + [False]
    assert [one.remaining for one in allowances if one] == [*range(LIMIT - 1, -1, -1), 0]
    assert allowances[-1] is not None
    assert 1 <= allowances[-1].retry_after_seconds <= 60


def test_keys_are_counted_apart_in_one_round_trip(limiter: BlockingLimiter) -> None:
    one, other = uuid4(), uuid4()

    allowances = limiter.take([one, other, one])

    assert [allowance.remaining if allowance else None for allowance in allowances] == [599, 599, 598]


def test_pages_of_a_batch_count_for_each_link_and_for_its_company(
    limiter: BlockingLimiter, client: redis.Redis
) -> None:
    company, other, link, another = uuid4(), uuid4(), uuid4(), uuid4()

    waits = limiter.take_pages([(link, company)] * (PAGES_OF_LINK + 1) + [(another, company)])
    assert waits[:-2] == [0] * PAGES_OF_LINK
    assert 1 <= waits[-2] <= 60, "the link has had its pages"
    assert waits[-1] == 0

    counter = f"fuelroute:pages:{company.hex}"
    oldest = client.lindex(counter, -1)
    assert oldest is not None
    client.rpush(counter, *[oldest] * (PAGES_OF_COMPANY - client.llen(counter) - 1))
    first, second, of_other = limiter.take_pages([(another, company), (uuid4(), company), (uuid4(), other)])
    assert (first, of_other) == (0, 0)
    assert 1 <= second <= 60, "the company has had its pages"
    client.delete(counter)


def test_a_request_to_the_feed_has_its_own_limit_and_shows_the_rest_of_the_api_s(
    settings: Settings, key_id: UUID, spent: Callable[..., None]
) -> None:
    with blocking_limiter(settings.require_redis_url(), feed_requests_per_minute=3) as limiter:
        take(limiter, key_id)
        passed = Allowance(True, 599, 1, 3)
        assert limiter.take([key_id, None, key_id], "feed_requests") == [passed, None, passed]
        spent(LIMIT, seconds_ago=1)
        began = time.monotonic()
        last, refused = limiter.take([key_id, key_id], "feed_requests")
        assert last == Allowance(True, 0, 1, 3)
        assert refused is not None
        assert msgspec.structs.replace(refused, retry_after_seconds=60) == Allowance(False, 0, 60, 3)
        assert 59 - (time.monotonic() - began) <= refused.retry_after_seconds <= 60
        assert take(limiter, uuid4()).remaining == 599


def test_every_process_counts_the_same(limiter: BlockingLimiter, settings: Settings, key_id: UUID) -> None:
    take(limiter, key_id)
    with blocking_limiter(settings.require_redis_url()) as another:
        assert take(another, key_id).remaining == 598


def age(client: redis.Redis, key_id: UUID, *, seconds: float) -> None:
    """Makes the counted requests older by so much."""
    name = counter_of("requests", key_id)
    moments = [int(one) - int(seconds * 1_000_000) for one in client.lrange(name, 0, -1)]
    client.delete(name)
    client.rpush(name, *moments)


def test_the_window_slides(
    limiter: BlockingLimiter, client: redis.Redis, key_id: UUID, spent: Callable[..., None]
) -> None:
    spent(400, seconds_ago=60.5)
    spent(300, seconds_ago=30)
    spent(299, seconds_ago=0)

    assert (take(limiter, key_id).allowed, take(limiter, key_id).allowed) == (True, False)
    age(client, key_id, seconds=31)
    assert take(limiter, key_id) == Allowance(True, 299, 1)


def test_a_step_back_of_redis_s_clock_ends_what_was_counted(
    limiter: BlockingLimiter, feed: BlockingLimiter, key_id: UUID, spent: Callable[..., None], sent: Callable[..., None]
) -> None:
    """After a step of an hour the key was refused for that hour."""
    spent(LIMIT, seconds_ago=-90)
    sent(1000, seconds_ago=-90)

    assert take(limiter, key_id) == Allowance(True, 599, 1)
    assert feed.take_positions(key_id, 1000) == 0


def test_a_refused_request_is_not_counted(
    limiter: BlockingLimiter, client: redis.Redis, key_id: UUID, spent: Callable[..., None]
) -> None:
    spent(LIMIT, seconds_ago=30)
    for _ in range(50):
        assert not take(limiter, key_id).allowed

    age(client, key_id, seconds=31)
    assert take(limiter, key_id).remaining == 599


@pytest.mark.parametrize(("seconds_ago", "retry_after"), [(10.5, 50), (59.5, 1), (0, 60)])
def test_a_refusal_tells_in_whole_seconds_when_the_oldest_request_leaves_the_window(
    limiter: BlockingLimiter,
    client: redis.Redis,
    key_id: UUID,
    spent: Callable[..., None],
    seconds_ago: float,
    retry_after: int,
) -> None:
    told: list[Allowance] = []

    def seconds_of_a_refusal() -> float:
        client.delete(counter_of("requests", key_id))
        began = time.monotonic()
        spent(LIMIT, seconds_ago=seconds_ago)
        told.append(take(limiter, key_id))
        return time.monotonic() - began

    assert one_below(0.4, seconds_of_a_refusal), "a later one has less to wait"
    assert told[-1] == Allowance(False, 0, retry_after)


def test_an_idle_key_leaves_nothing_in_redis(limiter: BlockingLimiter, client: redis.Redis, key_id: UUID) -> None:
    began = time.monotonic()
    take(limiter, key_id)
    left = int(client.pttl(counter_of("requests", key_id)))

    assert 59_000 - 1000 * (time.monotonic() - began) <= left <= 60_000


def test_requests_pass_uncounted_and_without_a_wait_while_redis_is_away(key_id: UUID) -> None:
    with blocking_limiter(AWAY) as limiter:
        assert limiter.take([key_id, key_id]) == [None, None]

        def take_often() -> None:
            for _ in range(100):
                assert limiter.take([key_id]) == [None]

        assert takes_less(3, take_often)  # each would take 0.17 s


def test_after_redis_is_back_requests_are_counted_again(limiter: BlockingLimiter, key_id: UUID) -> None:
    client = limiter.client
    pool, client.connection_pool = client.connection_pool, async_redis_client(AWAY).connection_pool
    assert limiter.take([key_id]) == [None]
    client.connection_pool = pool
    assert limiter.take([key_id]) == [None]  # it is not asked again at once

    eventually(lambda: limiter.take([key_id])[0], lambda allowance: allowance is not None)
    assert take(limiter, key_id).remaining == 598


def test_a_count_without_keys_asks_redis_nothing(limiter: BlockingLimiter) -> None:
    assert limiter.take([]) == []


# --- positions -------------------------------------------------------------------------------------------------


@pytest.fixture
def feed(settings: Settings) -> Iterator[BlockingLimiter]:
    """A limiter of 1,000 positions a minute."""
    with blocking_limiter(settings.require_redis_url(), positions_per_minute=1000) as one:
        yield one


@pytest.fixture
def sent(client: redis.Redis, key_id: UUID) -> Callable[..., None]:
    """Pretends that the key sent positions so many seconds ago."""

    def send(positions: int, *, seconds_ago: int) -> None:
        client.hset(counter_of("positions", key_id), str(int(client.time()[0]) - seconds_ago), positions)

    return send


def test_positions_pass_up_to_the_limit_and_a_request_is_counted_whole_or_not_at_all(
    feed: BlockingLimiter, key_id: UUID
) -> None:
    assert feed.take_positions(key_id, 600) == 0
    assert 0 < feed.take_positions(key_id, 401) <= 60
    assert feed.take_positions(key_id, 400) == 0
    assert 0 < feed.take_positions(key_id, 1) <= 60
    assert feed.take_positions(uuid4(), 1000) == 0


def test_every_process_counts_the_same_positions(feed: BlockingLimiter, settings: Settings, key_id: UUID) -> None:
    assert feed.take_positions(key_id, 1000) == 0
    with blocking_limiter(settings.require_redis_url(), positions_per_minute=1000) as another:
        assert another.take_positions(key_id, 1) > 0


def test_a_refusal_tells_when_enough_positions_have_left_the_window(
    feed: BlockingLimiter, client: redis.Redis, key_id: UUID, sent: Callable[..., None]
) -> None:
    waits: list[float] = []

    def seconds_of_four_requests() -> float:
        client.delete(counter_of("positions", key_id))
        began = time.monotonic()
        for positions, seconds_ago in ((5000, 61), (500, 50), (300, 30), (200, 5)):
            sent(positions, seconds_ago=seconds_ago)
        waits[:] = [feed.take_positions(key_id, positions) for positions in (1, 500, 501, 1000)]
        return time.monotonic() - began

    assert one_below(4, seconds_of_four_requests), "none has left the window meanwhile"
    assert 0 < waits[0] <= waits[1] <= 10 < waits[2] <= 30 < waits[3] <= 55


def test_positions_leave_the_window_after_a_minute(
    feed: BlockingLimiter, client: redis.Redis, key_id: UUID, sent: Callable[..., None]
) -> None:
    sent(1000, seconds_ago=60)

    assert feed.take_positions(key_id, 1000) == 0
    assert client.hlen(counter_of("positions", key_id)) == 1
    assert 0 < int(client.ttl(counter_of("positions", key_id))) <= 60


def test_positions_pass_uncounted_while_redis_is_away(key_id: UUID) -> None:
    with blocking_limiter(AWAY, positions_per_minute=1000) as limiter:
        assert [limiter.take_positions(key_id, 1000) for _ in range(1000)] == [0] * 1000
