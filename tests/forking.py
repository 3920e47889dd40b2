"""Processes of the service that are forked from one which has loaded it (`multiprocessing.forkserver`). Such a start
takes a tenth of the processor time of a start of Python, which loads everything anew.

They run the real command line. A test of the start itself, or of what a process shows to its machine, starts Python.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Any

from deploy.forks import Forked
from deploy.processes import FUELROUTE, Process, Spec
from deploy.stack import process_spec

_LOADED = ["tests.loaded", __name__, "tests.faults.processes"]
"""Modules that are loaded before processes are forked: the service, and what runs first in each process."""

_PR_SET_NAME = 15

_LOOKING = threading.Lock()
"""Each start looks at all processes that were started before. Of two threads that look at once at one that has ended,
only the first can read its status; multiprocessing tells the second one 255."""


def fork(target: Callable[..., object], *arguments: Any, daemon: bool = True) -> BaseProcess:
    """Starts the function in a process of its own, in which the service is loaded. A `daemon` ends with the tests, and
    starts no other."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_LOADED)
    process = context.Process(target=target, args=arguments, daemon=daemon)
    with _LOOKING:
        process.start()
    return process


def exit_status(process: BaseProcess) -> int | None:
    """The exit status of a forked process, also while other threads start some; None if it has not ended."""
    with _LOOKING:
        return process.exitcode


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
    """A command of `fuelroute` that may fork processes of its own, such as `up`."""
    return Forked(fork(_run_parent, arguments, dict(environment), str(output), folder, daemon=False))


def _run_parent(arguments: Sequence[str], environment: Mapping[str, str], output: str, folder: Path | None) -> None:
    if folder is not None:
        os.chdir(folder)
    run_command(arguments, environment, output)


def run_command(arguments: Sequence[str], environment: Mapping[str, str], output: str | None = None) -> None:
    """Runs a command of `fuelroute` in this process, which was forked, until it ends. None: the streams stay."""
    from deploy.cli import main
    from domain.settings import get_settings

    get_settings.cache_clear()  # a parent has read its own
    tempfile.tempdir = None
    threading.Thread(target=_die_with_the_tests, daemon=True).start()
    ctypes.CDLL(None).prctl(_PR_SET_NAME, arguments[-1].encode(), 0, 0, 0)  # its name for `ps`
    if output is not None:
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
