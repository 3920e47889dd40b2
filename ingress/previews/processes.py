"""The preview processes of a process that serves. They are started when the first preview is asked for, and end when
none has been asked for in a while."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress

import msgspec

from domain.database.connections import Tenant
from domain.encoding import write
from domain.session_priority import GIVES_WAY, SessionPriority
from domain.settings import SECRETS, Settings
from domain.telemetry.logs import get_logger
from ingress.http.fair_queue import CapacityTimeout, FairSemaphore
from ingress.previews.messages import LENGTH, Ask, Reply, framed, read_reply

log = get_logger(__name__)

_COMMAND = (sys.executable, "-P", "-m", "ingress.previews.process")
"""The command of a process. With `-P` it imports our packages, not an `ingress/` that lies in its folder."""

START_SECONDS = 60.0
ANSWER_SECONDS = 20.0
PATIENCE_SECONDS = 10.0
"""Longest wait for a process to start, for its answer, and for a process that is free."""
IDLE_SECONDS = 600.0
"""A process that was asked nothing for so long ends, and gives its memory back."""
HURRY_SECONDS = 2.0
"""An ask that has waited for so long, its turn included, no longer gives way to all else on the machine."""
_END_SECONDS = 2.0

_NEEDED_SECRETS = {"database_url", "database_direct_url", "valhalla_url"}
"""The passwords in these addresses, of all secrets. The second address only tells that the first is a pooler's."""


class PreviewBusy(Exception):
    """The preview was not ready in time, or no process was free. Nothing was stored, and it may be asked for again."""


class PreviewProcesses:
    """The processes; one owner has its turn after every other owner that waits."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._free: list[_Previewer] = []
        self._turns = FairSemaphore(settings.preview_processes, of_one=settings.preview_processes)

    async def preview(self, tenant: Tenant, body: bytes, *, explained: bool = False) -> Reply:
        """The preview of a load whose body is checked already. Raises PreviewBusy."""
        ask = write(Ask(str(tenant.company_id), tenant.environment, msgspec.Raw(body), explained))
        hurries_at = asyncio.get_running_loop().time() + HURRY_SECONDS
        try:
            async with self._turns.permit(tenant.company_id.hex, patience_seconds=PATIENCE_SECONDS):
                return await self._ask(ask, hurries_at)
        except CapacityTimeout:
            raise PreviewBusy from None

    async def close(self) -> None:
        """Ends the processes that are free. Those at work end with their input, when this process does."""
        free, self._free = self._free, []
        await asyncio.gather(*(one.end() for one in free))

    async def _ask(self, message: bytes, hurries_at: float) -> Reply:
        """The reply of a free process. One that died meanwhile is replaced by a new one: nothing was stored."""
        previewer = self._taken()
        if previewer is not None:
            with suppress(EOFError, OSError):
                return await self._ask_one(previewer, message, hurries_at)
        return await self._ask_one(await _Previewer.start(self._settings), message, hurries_at)

    async def _ask_one(self, previewer: "_Previewer", message: bytes, hurries_at: float) -> Reply:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reply = await previewer.ask(message, hurries_at)
        except TimeoutError:
            log.warning("preview.took_too_long", seconds=ANSWER_SECONDS)
            await previewer.kill()
            raise PreviewBusy from None
        except BaseException:  # such as EOFError: it has died
            await previewer.kill()
            raise
        self._give_back(previewer)
        return reply

    def _taken(self) -> "_Previewer | None":
        """The process that was used last, so that the others may end."""
        while self._free:
            previewer = self._free.pop()
            if previewer.runs:
                return previewer
        return None

    def _give_back(self, previewer: "_Previewer") -> None:
        self._free.append(previewer)
        asyncio.get_running_loop().call_later(IDLE_SECONDS, self._end_if_idle, previewer, previewer.answers)

    def _end_if_idle(self, previewer: "_Previewer", answers: int) -> None:
        if previewer in self._free and previewer.answers == answers:
            self._free.remove(previewer)
            previewer.close_input()


class _Previewer:
    """One process. It ends when its input does."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 (both are pipes)
        self._process, self._in, self._out = process, process.stdin, process.stdout
        self._priority = SessionPriority.of(process.pid)
        self.answers = 0

    @classmethod
    async def start(cls, settings: Settings) -> "_Previewer":
        """A process that has loaded everything. Raises PreviewBusy if that takes too long."""
        process = await asyncio.create_subprocess_exec(
            *_COMMAND, stdin=PIPE, stdout=PIPE, env=_environment(), start_new_session=True
        )
        previewer = cls(process)
        try:
            async with asyncio.timeout(START_SECONDS):
                await previewer._exchange(_settings_for(settings))
        except TimeoutError:
            await previewer.kill()
            raise PreviewBusy from None
        except BaseException:
            await previewer.kill()
            raise
        log.info("preview.process_started", pid=previewer._process.pid)
        return previewer

    @property
    def runs(self) -> bool:
        return self._process.returncode is None

    async def ask(self, message: bytes, hurries_at: float) -> Reply:
        """The reply. From that moment of the event loop on, the process no longer gives way to others."""
        if asyncio.get_running_loop().time() < hurries_at:
            self._priority.become(GIVES_WAY)
        hurry = asyncio.create_task(self._priority.hurry_at(hurries_at))
        try:
            reply: Reply = read_reply(await self._exchange(message))
        finally:
            hurry.cancel()
        self.answers += 1
        return reply

    async def _exchange(self, message: bytes) -> bytes:
        self._in.write(framed(message))
        await self._in.drain()
        (length,) = LENGTH.unpack(await self._out.readexactly(LENGTH.size))
        return await self._out.readexactly(length)

    def close_input(self) -> None:
        self._in.close()

    async def end(self) -> None:
        self.close_input()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _END_SECONDS)
            return
        await self.kill()

    async def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


def _settings_for(settings: Settings) -> bytes:
    return write(settings.model_dump(mode="json", exclude=set(SECRETS) - _NEEDED_SECRETS))


def _environment() -> dict[str, str]:
    """Our environment without secrets: those that a preview needs come with its settings."""
    secrets = {f"FUELROUTE_{name.upper()}" for name in SECRETS}
    return {name: value for name, value in os.environ.items() if name.upper().removesuffix("_FILE") not in secrets}
