"""Lua scripts that an event loop runs at every batch of requests.

redis-py's client serves every command alike: it packs arguments in Python, locks its pool twice, makes a task for each
write, and notes measurements that nobody reads. For the count of 40 requests that takes 200 µs of processor time, and
a turn of the event loop. A script keeps redis-py's connections to itself, packs in C and has one time limit."""

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import redis.asyncio
from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection

from domain.queue.redis_clients import REDIS_SECONDS


class AsyncScript:
    """A script for one event loop. It keeps the connections that it took from a client's pool, as many as it had calls
    at a time; the client closes them."""

    def __init__(self, client: redis.asyncio.Redis, text: str) -> None:
        self._client = client
        self._text, self._sha = text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        self._idle: list[AbstractConnection] = []

    async def __call__(self, keys: Sequence[str], arguments: Iterable[str | bytes | int]) -> Any:
        """The script's result. Raises redis.RedisError."""
        rest = len(keys), *keys, *arguments
        try:
            return await self._ask(("EVALSHA", self._sha, *rest))
        except redis.exceptions.NoScriptError:  # the server is another one, or was restarted
            return await self._ask(("EVAL", self._text, *rest))

    async def _ask(self, command: Any) -> Any:  # hiredis declares a tuple of one
        packed = pack_command(command)
        pool: Any = self._client.connection_pool  # redis-py declares no types here
        connection = self._idle.pop() if self._idle else await pool.get_connection()
        try:
            try:
                return await _exchange(connection, packed)
            except redis.ConnectionError:  # a server that was restarted had closed it: the next call connects again
                return await _exchange(connection, packed)
        finally:
            self._idle.append(connection)


async def _exchange(connection: Any, packed: bytes) -> Any:  # redis-py declares no types here
    """The answer to a command. A connection whose answer did not come is closed: a late one would belong to the next
    command."""
    if not connection.is_connected:  # sending would connect to the server of before, not to the primary of now
        connection.socket_timeout = REDIS_SECONDS
        await connection.connect()
    connection.socket_timeout = None  # there is one for the whole exchange
    try:
        async with asyncio.timeout(REDIS_SECONDS):
            await connection.send_packed_command(packed)
            return await connection.read_response()
    except TimeoutError:
        raise redis.TimeoutError(f"Redis did not answer for {REDIS_SECONDS:g} s") from None
    except RuntimeError as error:  # uvloop's, where the connection broke while it rested
        raise redis.ConnectionError(str(error)) from None
