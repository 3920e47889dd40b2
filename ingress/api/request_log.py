"""The request log, for people who manage keys: entries are collected in memory and written in batches.

It never holds up a request and never fails one. A request only adds an entry to a list. Redaction and writing come
later, for many entries at once, on a connection of its own. Entries that cannot be written in time are lost and
counted."""

import asyncio
import time
from collections import deque
from contextlib import suppress
from uuid import UUID

import psycopg

from domain.contract.shapes import RATE_LIMIT_REQUESTS
from domain.database.async_connections import AsyncDatabase
from domain.requests.log import WRITE_ENTRIES, WRITE_ENTRIES_AGAIN, Entry, text_of
from domain.requests.redaction import MOST_BYTES
from domain.settings import Settings
from domain.telemetry.logs import get_logger
from domain.telemetry.metrics import REQUEST_LOG
from ingress.api.authenticator import of_callers
from ingress.api.request import Answer, Request

log = get_logger(__name__)

_WRITE_SECONDS = 1.0
_BATCH = 1_000
"""Entries that are written at once, before the second ends. With fewer each costs more; more would hold up the event
loop, which needs some 3 ms for these."""
_MOST_ENTRIES = 10_000
_MOST_HELD = 8 << 20
"""Most bytes that wait to be written. With too many entries the oldest is lost, with too many bytes the body of a new
one."""
_BATCH_BYTES = 1 << 20
"""Bytes of bodies that end a batch: bodies of failed requests are read again, which takes the event loop some 10 ms for
these."""
_SMALL_PROBLEM = 1_000
"""Most bytes of a problem document that is kept where nothing else of the request is; it has the code."""
_MINUTE = 60.0
_LAST_SECONDS = 2.0
"""Seconds for the last entries when the process stops."""


class RequestLog:
    """The request log of one ingress process."""

    def __init__(self, settings: Settings) -> None:
        self._is_on = settings.request_log_days > 0
        self._database = AsyncDatabase.of(settings, pool_size=1)
        self._entries: deque[Entry] = deque()
        self._held = 0
        self._many = asyncio.Event()
        self._refused: dict[UUID, Entry] = {}
        """One entry for all requests of a key beyond its rate limit, until it is written."""
        self._counts: dict[UUID, int] = {}
        self._sampled: set[UUID] = set()
        """Entries of each key in this minute, and keys with one successful request that is kept whole."""
        self._minute_ends = 0.0
        self._is_failing = False
        self._has_ended = False
        self._writer: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "RequestLog":
        if self._is_on:
            await self._database.__aenter__()
            self._writer = asyncio.create_task(self._write_again_and_again())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Writes the entries that are left."""
        if self._writer is None:
            return
        self._has_ended = True
        self._many.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._writer, _LAST_SECONDS)
        await self._database.__aexit__()

    def note(self, request: Request, path: str, status: int, seconds: float, answer: Answer | None) -> None:
        """Adds an entry for a request that was answered, or broken off (`answer` is None). Requests without a valid key
        are not kept."""
        if not self._is_on or request.auth_result is None or (caller := request.auth_result.caller) is None:
            return
        key_id = caller.key_id
        if status == 429:
            first = self._refused.get(key_id)
            if first is not None:
                first.times += 1
                return
        else:
            count = self._counts.get(key_id, 0)
            if count >= RATE_LIMIT_REQUESTS:  # the API's own limit: only the feed gets that far
                REQUEST_LOG.labels("beyond").inc()
                return
            self._counts[key_id] = count + 1
        scope, body = request.scope, request.received
        query: bytes = scope["query_string"]
        problem = answer.body if answer is not None and status >= 400 else b""
        size = len(body)
        held = size + len(query) + len(problem)
        if held > MOST_BYTES or self._held + held > _MOST_HELD:
            body = query = b""
            problem = problem if len(problem) <= _SMALL_PROBLEM else b""
            held = len(problem)
        entry = Entry(
            caller,
            request.own_id,
            request.id if request.id != request.own_id else "",
            scope["method"],
            path,
            scope["path_params"].get("id", "") if "path_params" in scope else "",
            query,
            body,
            size,
            status,
            problem,
            1000 * seconds,
            held,
        )
        if status == 429:
            self._refused[key_id] = entry
        self._put(entry)

    def _put(self, entry: Entry) -> None:
        if len(self._entries) >= _MOST_ENTRIES:
            oldest = self._entries.popleft()
            self._held -= oldest.held
            self._lose([oldest])
        self._entries.append(entry)
        self._held += entry.held
        if len(self._entries) == _BATCH:
            self._many.set()

    def _take(self) -> list[Entry]:
        """Takes the oldest entries, up to one batch."""
        taken: list[Entry] = []
        held = 0
        while self._entries and len(taken) < 2 * _BATCH and held < _BATCH_BYTES:
            entry = self._entries.popleft()
            taken.append(entry)
            held += entry.held
        self._held -= held
        return taken

    def _lose(self, entries: list[Entry]) -> None:
        REQUEST_LOG.labels("dropped").inc(len(entries))

    async def _write_again_and_again(self) -> None:
        while not self._has_ended:
            with suppress(TimeoutError):
                async with asyncio.timeout(_WRITE_SECONDS):
                    await self._many.wait()
            self._many.clear()
            await self._write_or_tell()
        await self._write_or_tell()

    async def _write_or_tell(self) -> None:
        try:
            await self.write()
        except Exception:  # the next entries are written all the same
            log.exception("request_log.failed")

    async def write(self) -> None:
        """Writes the waiting entries. Entries that PostgreSQL cannot take yet wait for the next time; entries that it
        refuses are lost."""
        now = time.monotonic()
        if now >= self._minute_ends:
            self._minute_ends = now + _MINUTE
            self._counts.clear()
            self._sampled.clear()
        left = len(self._entries)
        while left > 0 and self._entries:
            batch = self._take()
            left -= len(batch)
            self._refused.clear()
            try:
                visible = of_callers(entry.caller for entry in batch)
                write = WRITE_ENTRIES_AGAIN if self._is_failing else WRITE_ENTRIES
                await self._database.execute(write, [text_of(batch, self._sampled)], visible)
            except psycopg.Error as error:
                if not self._is_failing:
                    log.warning("request_log.not_written", entries=len(batch), error=str(error))
                self._is_failing = True
                if isinstance(error, psycopg.OperationalError):  # away, or making a partition
                    self._put_back(batch)
                    return
                self._lose(batch)
            else:
                self._is_failing = False
                REQUEST_LOG.labels("written").inc(len(batch))

    def _put_back(self, batch: list[Entry]) -> None:
        """Keeps the newest entries of the batch for which there is room."""
        room = max(0, _MOST_ENTRIES - len(self._entries))
        kept = batch[len(batch) - room :] if room < len(batch) else batch
        self._lose(batch[: len(batch) - len(kept)])
        self._entries.extendleft(reversed(kept))
        self._held += sum(entry.held for entry in kept)
