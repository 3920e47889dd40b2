"""Processes of the service that are forked from one which has loaded it (`multiprocessing.forkserver`). Such a start
takes a tenth of the processor time of a start of Python, which loads everything anew.

They run the real command line. A test of the start itself, or of what a process shows to its machine, starts Python.
"""

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Any

from deploy import processes
from deploy.processes import Process, Spec, die_with_parent
from deploy.stack import FUELROUTE, process_spec

_LOADED = ["tests.loaded", __name__, "tests.faults.processes"]
"""Modules that are loaded before processes are forked: the service, and what runs first in each process."""

_PR_SET_NAME = 15


def fork(target: Callable[..., object], *arguments: Any, daemon: bool = True) -> BaseProcess:
    """Starts the function in a process of its own, in which the service is loaded. A `daemon` ends with the tests, and
    starts no other."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_LOADED)
    process = context.Process(target=target, args=arguments, daemon=daemon)
    process.start()
    return process


class Forked:
    """A forked process, with the face of `subprocess.Popen`."""

    def __init__(self, process: BaseProcess) -> None:
        assert process.pid is not None
        self.pid = process.pid
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


def forked_spec(name: str, arguments: Sequence[str], logs: Path, env: dict[str, str], url: str) -> Spec:
    """One process of the service like that of `process_spec`, but forked."""
    return replace(process_spec(name, arguments, logs, env, url), begin=begin_forked)


def begin_forked(spec: Spec, output: IO[bytes] | None) -> Process:
    """Starts the process of a Spec as `Spec.begin`."""
    assert output is not None
    return Forked(fork(_run_child, spec.argv[len(FUELROUTE) :], _environment(spec), output.name))


def _environment(spec: Spec) -> dict[str, str]:
    return {**(os.environ if spec.inherits else {}), **spec.env}


def _run_child(arguments: Sequence[str], environment: Mapping[str, str], log: str) -> None:
    os.setsid()
    os.umask(0o077)
    run_command(arguments, environment, log)


def forked_command(*arguments: str, environment: Mapping[str, str], output: Path, folder: Path | None = None) -> Forked:
    """A command of `fuelroute` whose own processes are forked too, such as those of `up`."""
    return Forked(fork(_run_parent, arguments, dict(environment), str(output), folder, daemon=False))


def _run_parent(arguments: Sequence[str], environment: Mapping[str, str], output: str, folder: Path | None) -> None:
    start_program = processes.begin

    def begin(spec: Spec, output: IO[bytes] | None) -> Process:
        if tuple(spec.argv[: len(FUELROUTE)]) != FUELROUTE or output is None:
            return start_program(spec, output)
        process = multiprocessing.get_context("fork").Process(target=_run_grandchild, args=(spec, output.name))
        process.start()
        return Forked(process)

    processes.begin = begin
    if folder is not None:
        os.chdir(folder)
    run_command(arguments, environment, output)


def _run_grandchild(spec: Spec, log: str) -> None:
    die_with_parent(spec.stop_signal)
    _run_child(spec.argv[len(FUELROUTE) :], _environment(spec), log)


def run_command(arguments: Sequence[str], environment: Mapping[str, str], output: str) -> None:
    """Runs a command of `fuelroute` in this process, which was forked, until it ends."""
    from deploy.cli import main
    from domain.settings import get_settings

    get_settings.cache_clear()  # a parent has read its own
    tempfile.tempdir = None
    threading.Thread(target=_die_with_the_tests, daemon=True).start()
    ctypes.CDLL(None).prctl(_PR_SET_NAME, arguments[-1].encode(), 0, 0, 0)  # its name for `ps`
    with open(output, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.argv = ["fuelroute", *arguments]
    main()


def _die_with_the_tests() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGKILL)
