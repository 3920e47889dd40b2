"""Health checks of a process, for load balancers and supervisors: is it alive, and is it ready for work?

A report comes within a second, whatever the servers do. However many callers ask, each server is asked once a second at
most, on a connection of its own. Anyone may read a report: its texts hold no addresses, names or errors of servers.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from domain.encoding import write
from domain.telemetry.logs import get_logger

log = get_logger(__name__)

FRESH_SECONDS = 1.0
"""Time for which an answer of a server is used. After it the server is asked again."""

_PATIENCE_SECONDS = 0.9


class Unhealthy(Exception):
    """A check failed. Its text says what is wrong, to anyone."""


Look = Callable[[], str]
"""A check: it returns its finding, or raises Unhealthy."""


class HealthResult(NamedTuple):
    ok: bool
    needed: bool
    """False if the process is ready without it."""
    detail: str


class HealthReport(NamedTuple):
    is_good: bool
    body: bytes
    """A JSON document that names each check."""

    @property
    def status(self) -> int:
        return 200 if self.is_good else 503


class Health:
    """The checks of one process. Any thread may ask for a report."""

    def __init__(self, process: str) -> None:
        self._process = process
        self._alive: dict[str, Look] = {}
        self._ready: dict[str, Look] = {}
        self._servers: dict[str, _ServerCheck] = {}
        self._is_stopping = False

    def check_alive(self, name: str, look: Look) -> None:
        """Adds a check that never waits. While it fails, the process should be restarted, and is not ready either."""
        self._alive[name] = look

    def check_ready(self, name: str, look: Look) -> None:
        """Adds a check that never waits. While it fails, the process gets no work."""
        self._ready[name] = look

    def check_server(self, name: str, look: Look, *, needed: bool = True) -> None:
        """Adds a check that may wait for a server. A thread of its own runs it, never twice at a time."""
        self._servers[name] = _ServerCheck(look, needed)

    def note_stopping(self) -> None:
        """From now on the process is not ready: it finishes what it has accepted, and ends."""
        self._is_stopping = True

    def alive(self) -> HealthReport:
        """Tells at once whether the process works at all. Servers that are away change nothing: a restart would not
        bring them back."""
        return self._report("alive", _look_at(self._alive))

    def ready(self) -> HealthReport:
        """Tells within a second whether the process should get work."""
        return self._report("ready", self.findings())

    def findings(self) -> dict[str, HealthResult]:
        """The result of every check, within a second."""
        until = time.monotonic() + _PATIENCE_SECONDS
        for check in self._servers.values():
            check.begin()
        findings = _look_at({**self._alive, **self._ready})
        findings |= {name: check.finding(until) for name, check in self._servers.items()}
        if self._is_stopping:
            findings["stopping"] = HealthResult(False, True, "the process finishes what it has accepted, and ends")
        return findings

    def _report(self, what: str, findings: Mapping[str, HealthResult]) -> HealthReport:
        is_good = all(one.ok or not one.needed for one in findings.values())
        checks = {name: one._asdict() for name, one in findings.items()}
        return HealthReport(is_good, write({"process": self._process, what: is_good, "checks": checks}))


class _ServerCheck:
    def __init__(self, look: Look, needed: bool) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._finding = HealthResult(False, needed, "not checked yet")
        self._found_at = -math.inf
        self._is_idle = threading.Event()
        self._is_idle.set()

    def begin(self) -> None:
        """Runs the check in a thread, unless it is under way or was done just now."""
        with self._lock:
            if self._is_idle.is_set() and time.monotonic() - self._found_at >= FRESH_SECONDS:
                self._is_idle.clear()
                threading.Thread(target=self._run, name="health", daemon=True).start()

    def finding(self, until: float) -> HealthResult:
        if self._is_idle.wait(max(0, until - time.monotonic())):
            return self._finding
        return self._finding._replace(ok=False, detail="no answer within a second")

    def _run(self) -> None:
        before = self._finding
        found = _result_of(self._look, before.needed)
        self._finding, self._found_at = found, time.monotonic()
        self._is_idle.set()
        if not found.ok and before.detail != found.detail:
            log.warning("health.check_failed", detail=found.detail)


def _look_at(checks: Mapping[str, Look]) -> dict[str, HealthResult]:
    return {name: _result_of(look, True) for name, look in checks.items()}


def _result_of(look: Look, needed: bool) -> HealthResult:
    try:
        return HealthResult(True, needed, look())
    except Unhealthy as error:
        return HealthResult(False, needed, str(error))
    except Exception:  # a check that cannot be made must not look well
        log.exception("health.check_broken")
        return HealthResult(False, needed, "the check itself failed; see the log")
