"""Files that people download.

Each file is written whole before its first byte is sent. A slow reader holds no thread and no connection to the
database, only a place on the disk, and that for a limited time. When all places are taken, the slowest gives way."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from io import TextIOWrapper
from typing import IO, Any, TextIO

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from domain.files.csvfiles import write_rows
from domain.telemetry.logs import get_logger
from ingress.console.browser import due_after
from ingress.console.transfers import Transfer, Transfers

log = get_logger(__name__)

_CHUNK_BYTES = 1 << 18
_IN_MEMORY_BYTES = 1 << 20
_PATIENCE_SECONDS = 30.0
"""After this time the reader must keep the lowest rate of `browser`."""
MOST_OF_ALL, MOST_OF_OWNER = 32, 4


class TooManyDownloads(Exception):
    """Too many downloads are on their way; the text says whether the session's, the owner's or all."""


class Downloads:
    """The files that one process makes or sends: one for a session, a few for a company. It belongs to one event
    loop."""

    def __init__(self) -> None:
        self.transfers = Transfers()
        self._open: Counter[str] = Counter()
        self._sessions: set[str] = set()

    def enter(self, owner: str, session: str) -> Callable[[], None]:
        """Take a place. Returns the function that gives it back. Raises TooManyDownloads if none is free."""
        if session in self._sessions:
            raise TooManyDownloads("Another file is on its way to you: wait until it has arrived")
        if self._open[owner] >= MOST_OF_OWNER:
            raise TooManyDownloads("Other files are on their way to people of your company: try again in a moment")
        if self._open.total() >= MOST_OF_ALL and not self.transfers.cut_slowest():
            raise TooManyDownloads("Many files are on their way: try again in a moment")
        self._open[owner] += 1
        self._sessions.add(session)

        def leave() -> None:
            self._sessions.discard(session)
            self._open[owner] -= 1
            if not self._open[owner]:
                del self._open[owner]

        return leave


class Download(Response):
    """A CSV file. `done` is called once: when the file was sent, or its reader has gone."""

    def __init__(self, name: str, write: Callable[[TextIO], object], *, encoding: str = "utf-8") -> None:
        """`write` is called now, and writes the whole file."""
        self._file: IO[Any] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115
        try:
            text = TextIOWrapper(self._file, encoding=encoding, newline="")
            write(text)
            text.flush()
            text.detach()
            self._size = self._file.tell()
            self._file.seek(0)
        except BaseException:
            self._file.close()
            raise
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Length": str(self._size)}
        super().__init__(media_type="text/csv; charset=utf-8", headers=headers)
        self.done: Callable[[], None] = lambda: None
        self.transfers: Transfers | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b""})
            else:
                async with (self.transfers or Transfers()).moving() as transfer:
                    await self._send(send, transfer)
        except TimeoutError:  # the answer stays unfinished, so the connection is closed
            log.warning("console.download_abandoned", bytes=self._size)
        finally:
            self._file.close()
            self.done()

    async def _send(self, send: Send, transfer: Transfer) -> None:
        """Send the file. Raises TimeoutError if it is read too slowly."""
        sent, began = 0, asyncio.get_running_loop().time()
        while True:
            chunk = await run_in_threadpool(self._file.read, _CHUNK_BYTES)
            async with asyncio.timeout_at(due_after(sent, began, _PATIENCE_SECONDS)):
                sent += len(chunk)
                await send({"type": "http.response.body", "body": chunk, "more_body": sent < self._size})
            transfer.passed_bytes = sent
            if sent >= self._size:
                return


def csv_download(name: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> Download:
    """A file with the byte order mark at its beginning, by which spreadsheets recognize UTF-8."""
    return Download(name, lambda file: write_rows(file, list(columns), rows), encoding="utf-8-sig")
