"""Scripts of an event loop: their connections survive a Redis that was restarted, forgets, refuses or is silent."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
import redis.asyncio
import uvloop

from domain.queue.async_scripts import AsyncScript
from domain.queue.redis_clients import async_redis_client
from domain.settings import Settings
from tests.servers import SilentProxy

_ECHO = "return {KEYS[1], ARGV[1]}"
_REFUSE_BAD = "if ARGV[1] == 'bad' then return redis.error_reply('no') end return 1"


@asynccontextmanager
async def script_of(url: str, text: str = _ECHO) -> AsyncIterator[tuple[AsyncScript, redis.asyncio.Redis]]:
    async with async_redis_client(url, client_name=f"scripts-{uuid4()}") as client:
        yield AsyncScript(client, text), client


@pytest.fixture
def url(settings: Settings) -> str:
    return settings.require_redis_url()


@pytest.fixture
def proxy(url: str) -> Iterator[SilentProxy]:
    proxy = SilentProxy(url.removeprefix("unix://").partition("?")[0])
    yield proxy
    proxy.close()


async def close_connections(client: redis.asyncio.Redis) -> None:
    """Closes the connections of the scripts, as a restart does."""
    name = await client.client_getname()
    killed = [one["id"] for one in await client.client_list() if one["name"] == name and one["cmd"].startswith("eval")]
    assert [await client.client_kill_filter(_id=id) for id in killed] == [1]


async def forget_scripts(client: redis.asyncio.Redis) -> None:
    await client.script_flush()


@pytest.mark.parametrize("disturb", [close_connections, forget_scripts])
def test_a_script_is_run_again_after_a_restart(
    url: str, disturb: Callable[[redis.asyncio.Redis], Awaitable[None]]
) -> None:
    async def run() -> list[object]:
        async with script_of(url) as (script, client):
            first = await script(["key"], ["first"])
            await disturb(client)
            return [first, await script(["key"], [2])]

    assert asyncio.run(run()) == [[b"key", b"first"], [b"key", b"2"]]


def test_calls_at_a_time_get_their_own_answers(url: str) -> None:
    async def run() -> list[object]:
        async with script_of(url) as (script, _):
            return [*await asyncio.gather(*(script(["key"], [number]) for number in range(20)))]

    assert asyncio.run(run()) == [[b"key", b"%d" % number] for number in range(20)]


def test_after_a_refusal_the_connection_serves_the_next_call(url: str) -> None:
    async def run() -> object:
        async with script_of(url, _REFUSE_BAD) as (script, _):
            with pytest.raises(redis.ResponseError, match="no"):
                await script(["key"], ["bad"])
            return await script(["key"], ["good"])

    assert asyncio.run(run()) == 1


def test_a_script_is_run_again_where_its_connection_broke_while_it_rested(proxy: SilentProxy) -> None:
    """A network that was away, or a machine that has started anew: the next push of the ingress notices nothing."""

    async def run() -> object:
        async with script_of(proxy.url) as (script, _):
            await script(["key"], ["before"])
            proxy.reset()
            await asyncio.sleep(0.1)  # the event loop learns of it
            return await script(["key"], ["after"])

    assert uvloop.run(run()) == [b"key", b"after"]


def test_an_answer_that_comes_too_late_belongs_to_no_other_call(proxy: SilentProxy) -> None:
    async def run() -> object:
        async with script_of(proxy.url) as (script, _):
            await script(["key"], ["before"])
            proxy.fall_silent()
            with pytest.raises(redis.TimeoutError):
                await script(["key"], ["lost"])
            return await script(["key"], ["after"])

    assert asyncio.run(run()) == [b"key", b"after"]


def test_a_call_that_is_given_up_leaves_its_answer_to_nobody(url: str) -> None:
    async def run() -> object:
        async with script_of(url) as (script, _):
            await script(["key"], ["before"])
            for turns in range(6):  # wherever it is in its exchange
                given_up = asyncio.create_task(script(["key"], ["given up"]))
                for _ in range(turns):
                    await asyncio.sleep(0)
                given_up.cancel()
                await asyncio.wait((given_up,))
            return await script(["key"], ["after"])

    assert asyncio.run(run()) == [b"key", b"after"]
