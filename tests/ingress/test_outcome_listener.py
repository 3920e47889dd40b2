"""Outcomes of imports reach the requests that wait for them, early ones too, but no outcome of an earlier import."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import UUID

import msgspec
import pytest

from domain.encoding import write
from domain.lifecycle import RouteStatus
from domain.queue.redis_clients import redis_client
from domain.queue.redis_layout import outcomes_channel
from domain.routes.intake.imports import ImportOutcome
from ingress.api.outcome_listener import ExpectedOutcome, OutcomeListener, ReceivedOutcome
from tests.servers import OwnRedis, silent_proxy
from tests.service import one_below

A, B = UUID(int=1), UUID(int=2)
DRAFT = ImportOutcome(RouteStatus.DRAFT, None, None, UUID(int=3), "101", UUID(int=4), "Ann Lee", 1)
SECOND = msgspec.structs.replace(DRAFT, vehicle_id=UUID(int=5), revision=2)


def run(scenario: Callable[[OutcomeListener], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(OutcomeListener("redis://127.0.0.1:1")), 180))


def announcement(outcomes: dict[UUID, ImportOutcome | int]) -> bytes:
    return write(outcomes)


async def wait(outcomes: OutcomeListener, route_id: UUID, revision: int, seconds: float) -> ImportOutcome | None:
    """The outcome of a route. None: nothing came in time, or there is a later revision."""
    with outcomes.expect([ExpectedOutcome(route_id, revision, route_id)]) as expected:
        async for told in expected.outcomes(seconds):
            return told[0].outcome
    return None


def test_every_waiting_request_gets_the_outcome_of_its_route() -> None:
    async def scenario(outcomes: OutcomeListener) -> None:
        waiting = [asyncio.create_task(wait(outcomes, name, 1, 180)) for name in (A, A, B)]
        await asyncio.sleep(0)
        outcomes.deliver(announcement({A: DRAFT, B: 1}))
        assert await asyncio.gather(*waiting) == [DRAFT, DRAFT, None]

    run(scenario)


def test_an_outcome_may_come_before_the_wait_begins() -> None:
    async def scenario(outcomes: OutcomeListener) -> None:
        with outcomes.expect([ExpectedOutcome(A, 1, "A")]) as expected:
            outcomes.deliver(announcement({A: DRAFT}))
            assert [told async for told in expected.outcomes(10)] == [[ReceivedOutcome("A", DRAFT)]]

    run(scenario)


def test_a_batch_receives_its_outcomes_as_they_come() -> None:
    async def scenario(outcomes: OutcomeListener) -> None:
        wanted = [
            ExpectedOutcome(A, 1, "A"),
            ExpectedOutcome(A, 2, "A again"),
            ExpectedOutcome(B, 1, "B"),
            ExpectedOutcome(UUID(int=9), 1, "C"),
        ]
        with outcomes.expect(wanted) as expected:
            told = expected.outcomes(0.3)
            outcomes.deliver(announcement({A: DRAFT}))
            assert await anext(told) == [ReceivedOutcome("A", DRAFT)]
            asyncio.get_running_loop().call_later(
                0.01, outcomes.deliver, announcement({A: SECOND, B: DRAFT, UUID(int=8): DRAFT})
            )
            assert await anext(told) == [ReceivedOutcome("A again", SECOND), ReceivedOutcome("B", DRAFT)]
            outcomes.deliver(announcement({A: SECOND, B: DRAFT}))  # again, for nobody
            assert [more async for more in told] == []
        outcomes.deliver(announcement({UUID(int=9): DRAFT}))  # too late

    run(scenario)


def test_an_outcome_of_an_earlier_revision_ends_no_wait() -> None:
    async def scenario(outcomes: OutcomeListener) -> None:
        outcomes.deliver(announcement({A: DRAFT}))
        waiting = asyncio.create_task(wait(outcomes, A, 2, 180))
        await asyncio.sleep(0)
        outcomes.deliver(announcement({A: 1}))
        outcomes.deliver(announcement({A: DRAFT}))
        outcomes.deliver(announcement({A: msgspec.structs.replace(DRAFT, revision=0)}))  # of an earlier release
        await asyncio.sleep(0)
        assert not waiting.done()
        outcomes.deliver(announcement({A: SECOND}))
        assert await waiting == SECOND

    run(scenario)


def test_an_outcome_of_a_later_revision_only_says_that_it_exists() -> None:
    async def scenario(outcomes: OutcomeListener) -> None:
        waiting = asyncio.create_task(wait(outcomes, A, 1, 180))
        await asyncio.sleep(0)
        outcomes.deliver(announcement({A: SECOND}))
        assert await waiting is None

    run(scenario)


def test_a_wait_for_an_outcome_ends_in_time() -> None:
    async def scenario(outcomes: OutcomeListener) -> None:
        started = time.monotonic()
        assert await wait(outcomes, A, 1, 0.05) is None
        assert time.monotonic() - started >= 0.05
        outcomes.deliver(announcement({A: DRAFT}))  # too late, and for nobody

    run(scenario)


@asynccontextmanager
async def listening(url: str) -> AsyncIterator[OutcomeListener]:
    outcomes = OutcomeListener(url)
    task = asyncio.create_task(outcomes.listen())
    try:
        yield outcomes
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def hears(outcomes: OutcomeListener, redis: OwnRedis) -> float:
    """The seconds until an outcome is heard that is announced again and again, at first ten times a second."""
    started = time.monotonic()
    with redis_client(redis.url) as client:
        for number in range(100):
            route_id = UUID(int=number)
            waiting = asyncio.create_task(wait(outcomes, route_id, 1, 0.1 if number < 50 else 2))
            await asyncio.to_thread(
                client.publish, outcomes_channel(outcomes.reply_to), announcement({route_id: DRAFT})
            )
            if await waiting == DRAFT:
                return time.monotonic() - started
    pytest.fail("nothing was heard")


def test_a_silent_subscription_is_renewed_within_5_seconds(redis: OwnRedis) -> None:
    async def slower_of_two() -> float:
        with silent_proxy(redis) as proxy:
            async with listening(proxy.url) as outcomes:
                await hears(outcomes, redis)
                waits = []
                for _ in range(2):
                    proxy.fall_silent()
                    waits.append(await hears(outcomes, redis))
        return max(waits)

    assert one_below(5, lambda: asyncio.run(slower_of_two()))


def test_outcomes_arrive_again_after_redis_was_stopped_and_continued(redis: OwnRedis) -> None:
    async def seconds_after_the_silence() -> float:
        async with listening(redis.url) as outcomes:
            await hears(outcomes, redis)
            redis.fall_silent()
            await asyncio.sleep(6)  # several tries to connect meet the same silence
            redis.speak_again()
            return await hears(outcomes, redis)

    assert one_below(5, lambda: asyncio.run(seconds_after_the_silence()))


def test_a_subscription_without_messages_is_kept(redis: OwnRedis) -> None:
    async def scenario() -> None:
        with redis_client(redis.url) as client:
            async with listening(redis.url) as outcomes:
                await hears(outcomes, redis)
                seen: list[list[str]] = []
                while len(seen) < 2 or (seen[-1] != seen[-2] and len(seen) < 10):  # one that stood still is renewed
                    seen.append([one["id"] for one in client.client_list(_type="pubsub")])
                    await asyncio.sleep(0 if len(seen) > 1 and seen[-1] == seen[-2] else 5)
                assert seen[-1] == seen[-2] != []

    asyncio.run(asyncio.wait_for(scenario(), 600))


def test_an_unreadable_announcement_hides_no_other(redis: OwnRedis) -> None:
    async def scenario() -> None:
        with redis_client(redis.url) as client:
            async with listening(redis.url) as outcomes:
                await hears(outcomes, redis)
                waiting = asyncio.create_task(wait(outcomes, A, 1, 180))
                await asyncio.sleep(0)
                client.publish(outcomes_channel(outcomes.reply_to), b"of another release")
                client.publish(outcomes_channel(outcomes.reply_to), announcement({A: DRAFT}))
                assert await waiting == DRAFT

    asyncio.run(asyncio.wait_for(scenario(), 600))
