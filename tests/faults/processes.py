"""A service of a test's own whose processes have fault points, and are started again as soon as they die.

The processes run the real command line. They are forked from a process that has loaded the service already
(`multiprocessing.forkserver`), so that a start takes a tenth of a second. Waits that a crash makes necessary are
shortened there; see `SHORTER`.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from domain.claims import Retries
from domain.settings import Settings
from tests.faults.points import Point, When, install
from tests.forking import exit_status, fork, run_command
from tests.ports import own_port
from tests.service import eventually

SHORTER: Mapping[str, Any] = {
    "domain.queue.jobs:SWEEP_GRACE": timedelta(seconds=1),
    "domain.messages.gateways:_CLAIM_ATTEMPTS": 1.5,
    "domain.messages.message_life:_RETRIES": Retries(timedelta(seconds=1)),
    "domain.messages.message_life:_RETRIES_IN_DOUBT": Retries(timedelta(seconds=1), factor=3),
    "domain.webhooks.deliveries:_CLAIM_GRACE": timedelta(seconds=0.5),
    "domain.webhooks.deliveries:_RETRIES": Retries(timedelta(seconds=0.5), factor=4),
    "domain.operations.import_records:SILENT_SECONDS": 2,
    "workers.broker:_RECOVER_SECONDS": 0.5,
    "scheduler.process:_CANDIDATE_SECONDS": 0.2,
}
"""Times of the service that the tests shorten in its processes. Each only says how long the service waits before it
does something again, so shorter ones make the same steps quicker."""

_LOOK_AGAIN_SECONDS = 0.2
"""The longest time until a process that was started is watched, too."""


def run(command: Sequence[str], environment: Mapping[str, str], points: Sequence[Point], folder: Path) -> None:
    """Runs a command of `fuelroute` with fault points, in a process of its own."""
    install(folder, points, SHORTER)
    run_command(command, {**os.environ, **environment}, str(folder / f"{command[0]}.log"))


class Processes:
    """Processes of one service, and its settings for them."""

    def __init__(self, settings: Settings, folder: Path, points: Sequence[Point], **environment: str) -> None:
        self.folder = folder
        self.ports = {name: own_port() for name in ("ingress", "console")}
        self.deaths: list[tuple[str, int | None]] = []
        """The processes that died, and how. A process is started again, a command is not."""
        for name in (*SHORTER, *(point.function for point in points)):
            resolve_name(name)  # now, since each process would fail at it
        self._points = points
        self._settings = settings
        self._environment = {
            "FUELROUTE_DATABASE_URL": settings.require_database_url(),
            "FUELROUTE_REDIS_URL": settings.require_redis_url(),
            "FUELROUTE_DATA": str(settings.data),
            "FUELROUTE_PORT": str(self.ports["ingress"]),
            "FUELROUTE_CONSOLE_PORT": str(self.ports["console"]),
            **{f"FUELROUTE_{name}": value for name, value in environment.items()},
        }
        self._running: dict[str, BaseProcess] = {}
        self._stopping = threading.Event()
        self._watch = threading.Thread(target=self._restart_the_dead, daemon=True)
        self._watch.start()

    def start(self, *names: str) -> None:
        """Starts those of these processes that do not run yet."""
        for name in names:
            if name not in self._running:
                self._running[name] = self._begin([name])

    def stop(self) -> None:
        self._stopping.set()
        self._watch.join()
        for process in self._running.values():
            process.kill()
            process.join()

    def command(self, *arguments: str, seconds: float = 60) -> int | None:
        """Runs a command to its end. Returns its exit status; -9 when it killed itself."""
        process = self._begin(arguments)
        wait([process.sentinel], seconds)
        status = exit_status(process)
        assert status is not None, f"{arguments} has not ended after {seconds} s"
        if status < 0:
            self.deaths.append((" ".join(arguments), status))
        return status

    def arm(self, point: Point, when: When) -> None:
        """The first process that reaches this point from now on dies there."""
        (self.folder / "struck").unlink(missing_ok=True)
        fresh = self.folder / "armed.new"
        fresh.write_text(f"{when} {point.name}")
        fresh.rename(self.folder / "armed")

    def wait_for_the_strike(self) -> None:
        eventually((self.folder / "struck").exists, bool, 60, "a process that reaches the fault point")

    def _begin(self, command: Sequence[str]) -> BaseProcess:
        return fork(run, command, self._environment, self._points, self.folder)

    def _restart_the_dead(self) -> None:
        while not self._stopping.is_set():
            running: dict[Any, str] = {process.sentinel: name for name, process in list(self._running.items())}
            for sentinel in wait(list(running), _LOOK_AGAIN_SECONDS):
                name = running[sentinel]
                self.deaths.append((name, exit_status(self._running[name])))
                self._running[name] = self._begin([name])
