"""Outcomes of imports reach whoever waits for them, also those that come too early, but none of an earlier import."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from domain.contract import write
from domain.imports import Outcome
from domain.lifecycle import RouteStatus
from ingress.outcomes import Outcomes

DRAFT = Outcome(RouteStatus.DRAFT, None, None, "veh_1", "101", "drv_1", "Ann Lee")


def run(scenario: Callable[[Outcomes], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(Outcomes("redis://127.0.0.1:1")), 20))


def announcement(**outcomes: Outcome | None) -> bytes:
    return write(outcomes)


def test_everybody_who_waits_for_a_route_gets_its_outcome() -> None:
    async def scenario(outcomes: Outcomes) -> None:
        waiting = [asyncio.create_task(outcomes.wait(name, 10)) for name in ("a", "a", "b")]
        await asyncio.sleep(0)
        outcomes.announced(announcement(a=DRAFT, b=None))
        assert await asyncio.gather(*waiting) == [DRAFT, DRAFT, None]

    run(scenario)


def test_an_outcome_may_come_before_anybody_waits_for_it() -> None:
    async def scenario(outcomes: Outcomes) -> None:
        outcomes.announced(announcement(a=DRAFT))
        assert await outcomes.wait("a", 10) == DRAFT

    run(scenario)


def test_an_outcome_of_an_earlier_import_is_forgotten() -> None:
    async def scenario(outcomes: Outcomes) -> None:
        outcomes.announced(announcement(a=DRAFT))
        outcomes.forget(["a", "unknown"])
        assert await outcomes.wait("a", 0.01) is None

    run(scenario)


def test_nobody_waits_longer_than_he_wants_to() -> None:
    async def scenario(outcomes: Outcomes) -> None:
        started = time.monotonic()
        assert await outcomes.wait("a", 0.05) is None
        assert time.monotonic() - started >= 0.05
        outcomes.announced(announcement(a=DRAFT))  # too late, and for nobody

    run(scenario)
