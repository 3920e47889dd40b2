"""Child processes with the life that they should have: started in order, watched, restarted, stopped in reverse.

A child never outlives its supervisor, even a killed one, because the kernel then stops the child."""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from domain.backoff import backoff
from domain.errors import FuelrouteError

FUELROUTE = (sys.executable, "-P", "-c", "from deploy.cli import main; main()")
"""The command `fuelroute` of our Python. With `-P` it imports our packages in any folder, not a `domain/` that lies
there."""

PR_SET_PDEATHSIG = 1

FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 30.0
STEADY_SECONDS = 60.0
"""A process that lived this long starts a new series of deaths."""

START_SECONDS = 300.0
"""Longest start of a group. One that dies meanwhile is told at once, so that only a very slow machine needs it."""

RECOVERY_SECONDS = 24 * 3600.0
"""Longest start of a database. After a crash it replays its log, and one that is cut short begins anew."""

_SLOW_SECONDS = 30.0
"""A start that takes longer is told while it goes on."""

STOP_SECONDS = 9.0
_POLL_SECONDS = 0.1
_WATCH_SECONDS = 0.25
"""The longest time until a death is noticed. A look at ten processes takes a tenth of a millisecond, for ever."""
_ECHO_SECONDS = 0.5
"""A second SIGINT within this time is the same Ctrl-C, heard once from the terminal and once from a wrapper."""

_NO_REASONS = ("is starting up", "is in recovery mode", "error: disconnected")
_ERROR = re.compile(r"\b(FATAL|PANIC|CRITICAL|ERROR|\w*Error|error)\b")

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None

Report = Callable[[str], object]


class Process(Protocol):
    """A started process, with the part of `subprocess.Popen` that is used here."""

    pid: int

    @property
    def returncode(self) -> int | Any: ...  # None while it runs

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


@dataclass(frozen=True, slots=True)
class Spec:
    """One process: its command, its user, the file of its output, and the signal that stops it."""

    name: str
    argv: Sequence[str]
    log: Path | None
    """The file to which its output is appended; None if it shares our output."""
    env: Mapping[str, str] = field(default_factory=dict)
    inherits: bool = True
    """True to add `env` to our environment, as for our own commands, whose libraries read proxies, certificates and
    PostgreSQL's variables there. False to give the process only `env`, as for a server."""
    folder: Path | None = None
    """Its working folder; None for ours."""
    user: int | None = None
    group: int | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    is_ready: Callable[[], bool] | None = None
    begin: Callable[["Spec", IO[bytes] | None], Process] | None = None
    """Starts the process with that output; None to run the command, where `up` forks the service's processes."""


def begin(spec: Spec, output: IO[bytes] | None) -> Process:
    return subprocess.Popen(  # noqa: S603 (our own commands)
        spec.argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if output is not None else None,
        env={**(os.environ if spec.inherits else {}), **spec.env},
        cwd=spec.folder,  # entered before the change of user, who might have no way there
        umask=0o077,
        user=spec.user,
        group=spec.group,
        extra_groups=[] if spec.user is not None else None,
        start_new_session=True,  # Ctrl-C is the supervisor's to hear
        # This runs after the change of user, which would clear it; the main thread starts every child.
        preexec_fn=lambda: die_with_parent(spec.stop_signal),
    )


def die_with_parent(number: signal.Signals) -> None:
    """Lets the kernel send this process the signal when the thread ends that started it."""
    if _libc:
        _libc.prctl(PR_SET_PDEATHSIG, number)


def open_private(file: str, flags: int) -> int:
    """An `opener` for files that only their owner can read."""
    return os.open(file, flags, 0o600)


class StartFailed(FuelrouteError):
    """A process died before it was ready; the text has its last words."""


class StopRequested(Exception):
    """The stack was asked to stop while it was starting."""


class Child:
    """A running instance of a Spec."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.deaths_in_a_row = 0
        self.start_again_at: float | None = None
        self._start()

    def _start(self) -> None:
        log = self.spec.log
        self.log_offset = log.stat().st_size if log is not None and log.exists() else 0
        self.started_at = time.monotonic()
        with open(log, "ab", opener=open_private) if log is not None else contextlib.nullcontext() as output:
            self.process = (self.spec.begin or begin)(self.spec, output)

    def last_words(self) -> str:
        """The last line of this life's log with an error, or else the last one that says something."""
        if self.spec.log is None:
            return "see its output"
        try:
            with self.spec.log.open("rb") as log:
                size = os.fstat(log.fileno()).st_size
                begin = self.log_offset if self.log_offset <= size else 0  # somebody has emptied it
                log.seek(max(begin, size - 20_000))
                lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        except OSError as error:
            return f"its log cannot be read ({error.strerror})"
        # Servers say more after the reason of their end, such as "database system is shut down". And PostgreSQL tells
        # early clients as an error that it "is starting up", or what it does then; an archive, that it has no server.
        errors = (line for line in reversed(lines) if _ERROR.search(line) and not line.endswith(_NO_REASONS))
        return next(errors, lines[-1] if lines else "no output")

    def died(self) -> int | None:
        return self.process.poll()

    def restart_if_due(self, report: Report) -> None:
        """Notices a death, waits for a growing time, and starts the process again. Call it again and again."""
        now = time.monotonic()
        if self.start_again_at is not None:
            if now >= self.start_again_at:
                self._start_again(now, report)
            return
        status = self.died()
        if status is None:
            return
        self.kill_group()  # what it leaves behind would work beside its successor
        if now - self.started_at > STEADY_SECONDS:
            self.deaths_in_a_row = 0
        self._wait_longer(now, f"died ({_how(status)}): {self.last_words()}", report)

    def _start_again(self, now: float, report: Report) -> None:
        """A machine without memory, processes or files left, or without the folder of logs, refuses it for a while."""
        try:
            self._start()
        except OSError as error:
            self._wait_longer(now, f"cannot start: {error}", report)
            return
        self.start_again_at = None
        report(f"{self.spec.name} started again (pid {self.process.pid})")

    def _wait_longer(self, now: float, why: str, report: Report) -> None:
        delay = backoff(FIRST_BACKOFF_SECONDS, self.deaths_in_a_row, longest=LONGEST_BACKOFF_SECONDS)
        self.deaths_in_a_row += 1
        self.start_again_at = now + delay
        report(f"{self.spec.name} {why}; starts again in {delay:g} s")

    def signal(self, number: signal.Signals) -> None:
        if self.died() is None:
            os.kill(self.process.pid, number)

    def kill_group(self) -> None:
        """Kills the process and its children at once."""
        self.signal(signal.SIGKILL)  # a fork leads its group a moment after it began
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Supervisor:
    """Several children, in order."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._groups: list[list[Child]] = []
        self._asked_at = 0.0
        self._at_once = False
        self.stopping = False

    def ask_to_stop(self, number: int) -> None:
        """Asks for a stop; signal handlers call this. A second Ctrl-C stops at once. A second SIGTERM, as `timeout`
        sends it, changes nothing. This only takes notes, because a handler may interrupt a Popen that holds its lock,
        and would wait for it for ever."""
        if not self.stopping:
            self.stopping, self._asked_at = True, time.monotonic()
        elif number == signal.SIGINT and time.monotonic() - self._asked_at > _ECHO_SECONDS:
            self._at_once = True

    def start(self, specs: Sequence[Spec], *, seconds: float = START_SECONDS, outlives_others: bool = False) -> None:
        """Starts a group and waits until all of it is ready. A group that `outlives_others` is stopped last. Raises
        StartFailed if a process dies first, and StopRequested if a stop is asked for meanwhile. A process that dies
        alone is forgotten."""
        if self.stopping:
            raise StopRequested
        children: list[Child] = []
        self._groups.insert(0 if outlives_others else len(self._groups), children)
        for spec in specs:
            children.append(Child(spec))
        deadline, told_at = time.monotonic() + seconds, time.monotonic() + _SLOW_SECONDS
        for child in children:
            while child.spec.is_ready is not None and not child.spec.is_ready():
                status = child.died()
                if status is not None:
                    if children == [child]:
                        self._groups.remove(children)
                    raise StartFailed(f"{child.spec.name} did not start ({_how(status)}): {child.last_words()}")
                if time.monotonic() > deadline:
                    raise StartFailed(f"{child.spec.name} is not ready after {seconds:g} s; see {child.spec.log}")
                if self.stopping:
                    raise StopRequested
                if time.monotonic() > told_at:
                    told_at = deadline
                    self._report(f"{child.spec.name} is not ready yet; see {child.spec.log}")
                time.sleep(_POLL_SECONDS / 2)

    @property
    def children(self) -> list[Child]:
        """All children, in the order of their start."""
        return [child for group in self._groups for child in group]

    def watch(self, tick: Callable[[], object] = lambda: None) -> None:
        """Restarts each process that dies, until `stopping` is set (by a signal handler)."""
        while not self.stopping:
            for child in self.children:
                child.restart_if_due(self._report)
            tick()
            time.sleep(_WATCH_SECONDS)

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Stops the groups, the last started first, all within `seconds`. A process that does not stop is killed."""
        end = time.monotonic() + seconds
        while self._groups:
            group = self._groups.pop()
            # The servers must end cleanly even if a worker does not stop.
            patience = (end - time.monotonic()) * (2 / 3 if self._groups else 1)
            deadline = time.monotonic() + patience
            for child in group:
                child.signal(child.spec.stop_signal)
            while any(child.died() is None for child in group) and time.monotonic() < deadline and not self._at_once:
                time.sleep(_POLL_SECONDS / 4)
            for child in group:
                child.kill_group()


def _how(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"
