"""Processes that `fuelroute up` forks from itself after it has loaded the service: they share what is loaded, and start
in a tenth of the time.

Only the main thread forks, and only while there is no other thread that works: a lock that one holds would stay taken
in the fork for ever."""

import contextlib
import ctypes
import gc
import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, wait
from multiprocessing.process import BaseProcess
from typing import IO, Any, cast

from deploy.processes import FUELROUTE, Process, Spec, StopRequested, die_with_parent
from domain.queue.jobs import QUEUES
from domain.roads.default_roads import load_roads
from domain.settings import get_settings

_PR_SET_NAME = 15
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FORK = multiprocessing.get_context("fork")
_LOOK_SECONDS = 0.25

_SERVICE = (
    *("deploy.cli.connectors", "deploy.cli.running", "domain.telemetry.export", "workers.connectors.process"),
    *("ingress.process", "ingress.console.process", "scheduler.process", "workers.process"),
    *(f"workers.{queue}" for queue in QUEUES),
)
"""Modules that load all of the service. What one process in several loads costs the machine nothing more."""


def load_service() -> None:
    """Loads the service and its roads, so that the processes forked from now on share them."""
    for name in _SERVICE:
        importlib.import_module(name)
    load_roads()
    gc.collect()
    gc.freeze()  # the collector would write to what is shared


class Forked:
    """A forked process, with the face of `subprocess.Popen`."""

    def __init__(self, process: BaseProcess) -> None:
        self.pid = cast(int, process.pid)  # it has been started
        self._process = process

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return self.returncode

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def fork(name: str, target: Callable[..., object], *arguments: Any) -> Forked:
    """Runs the function in a fork with a session of its own, which SIGTERM ends. `name` is shown by `ps -e`, `top` and
    `pstree`."""
    process = _FORK.Process(target=_become, args=(name, target, *arguments))
    with _signals_wait():
        process.start()
    return Forked(process)


def fork_command(spec: Spec, output: IO[bytes] | None) -> Process:
    """Starts the process of a Spec, whose command is one of ours, as `deploy.processes.begin` does."""
    return fork(spec.name, _run_command, spec, output)


def answer_of_fork(
    function: Callable[..., Any], *arguments: Any, is_stopping: Callable[[], bool] = lambda: False
) -> Any:
    """The function's answer from a fork, which takes with it what only this function loads. Raises its errors, and
    StopRequested once the stack is to stop: the fork is killed then."""
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(1, mp_context=_FORK, initializer=die_with_parent, initargs=(signal.SIGKILL,)) as forks:
        answer = forks.submit(function, *arguments)
        while not wait([answer], timeout=_LOOK_SECONDS).done:
            if is_stopping():
                for process in set(multiprocessing.active_children()) - others:
                    process.kill()
                raise StopRequested
        return answer.result()


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """A signal that comes meanwhile finds the parent, or a fork that has forgotten its parent's handlers."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _become(name: str, target: Callable[..., object], *arguments: Any) -> None:
    """Makes the fork a process of its own."""
    os.setsid()  # Ctrl-C is the supervisor's to hear
    die_with_parent(signal.SIGTERM)
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # `nohup` means it
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    target(*arguments)


def _run_command(spec: Spec, output: IO[bytes] | None) -> None:
    """Runs the command line as a new process would."""
    from deploy.cli import main

    os.umask(0o077)
    if output is not None:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    if not spec.inherits:
        os.environ.clear()
    os.environ.update(spec.env)
    get_settings.cache_clear()
    sys.argv = ["fuelroute", *spec.argv[len(FUELROUTE) :]]
    try:
        main()
    except Exception:
        sys.excepthook(*sys.exc_info())  # which masks secrets; `multiprocessing` would not call it
        sys.exit(1)
