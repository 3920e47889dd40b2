"""Parallel workers of pytest, forked from one process that has loaded the tests. A worker that loads them by itself
takes four times the processor time until its first test.

pytest-xdist starts a worker as `PYTHON -u -c LINE`, and speaks with it over pipes. Here PYTHON is this file, which
hands its files to the loaded process and stays as long as the worker. Where that process fails, this file becomes
Python.

A worker starts its server of forks (`forking.py`) in the same way, from a process that has loaded the service and no
test: a fork copies the table of all pages, and takes three times the processor time where the tests are loaded too.
"""

import fcntl
import importlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

REPOSITORY = Path(__file__).parents[1]
_BEGIN = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); from tests.parallel import serve; serve()"


@contextmanager
def loaded_tests(arguments: Sequence[str]) -> Iterator[list[str]]:
    """Begins to load the tests that pytest finds for the arguments. Gives the PYTHON for workers, which wait for it."""
    from deploy.embedded.folders import make_private, socket_folder  # the program of the workers has no packages

    folder = socket_folder(Path(f"workers {uuid4()}"))
    make_private(folder, os.getuid())
    addresses = f"{folder}/tests", f"{folder}/service"
    with socket.socket(socket.AF_UNIX) as tests, socket.socket(socket.AF_UNIX) as service:
        for listener, address in zip((tests, service), addresses, strict=True):
            listener.bind(address)
            listener.listen(64)
        process = subprocess.Popen(
            [sys.executable, "-c", _BEGIN, str(tests.fileno()), str(service.fileno()), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[tests.fileno(), service.fileno()],
        )
    try:
        yield [sys.executable, "-IS", __file__, addresses[0]]
    finally:
        process.communicate()
        shutil.rmtree(folder, ignore_errors=True)


def serve() -> None:
    """Loads the service and the tests, then forks a worker for each connection until its standard input ends. Returns
    there, and in each worker once it has run."""
    import pytest  # the program of the workers has no packages

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tests, service = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    # Capturing would give modules a standard output to keep that is closed when they are used.
    arguments = ["--collect-only", "-qq", "-n0", "--capture=no", "-p", "no:cacheprovider", *sys.argv[3:]]
    pytest.main(arguments, plugins=[_ServiceFirst(service)])
    address = service.getsockname()
    service.close()
    _fork_for_each(tests, lambda connection: _work(connection, address))


class _ServiceFirst:
    """Loads the service before pytest loads the tests, and leaves a process that has only the service."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener

    def pytest_configure(self) -> None:
        for name in ("tests.loaded", "tests.forking", "tests.faults.processes"):
            importlib.import_module(name)
        if os.fork() == 0:
            try:
                _fork_for_each(self._listener, _serve_forks)
            finally:
                os._exit(0)


def _fork_for_each(listener: socket.socket, run: Callable[[socket.socket], None]) -> None:
    """Runs the function in a fork for each connection until the standard input ends. Returns there, and in each fork
    once the function has returned."""
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            run(socket.socket(fileno=_move_up(connection.detach())))
            return
        connection.close()
    with suppress(ChildProcessError):
        while True:
            os.wait()


def _work(connection: socket.socket, service: str) -> None:
    """Does what a Python does that pytest-xdist has started: it executes the line that it reads."""
    _take_over(connection)
    _begin_forkserver(service)
    sys.argv = ["-c"]
    sys.stdin = os.fdopen(0, closefd=False)
    connection.sendall(b"\n")
    threading.Thread(target=_die_with, args=[connection], daemon=True).start()
    exec(eval(sys.stdin.readline()), vars(sys.modules["__main__"]))


def _serve_forks(connection: socket.socket) -> None:
    """Does what a Python does that multiprocessing has started as its server of forks."""
    *_, code = _take_over(connection)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # the worker's own is the pipe to pytest
    connection.sendall(b"\n")
    exec(code, {})


def _take_over(connection: socket.socket) -> list[str]:
    """Takes the files, the environment and the folder of the program at the other end, and gives its arguments."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _, files, *_ = socket.recv_fds(connection, 1, 8)
    with connection.makefile() as told:
        numbers, environment, folder, line = json.loads(told.readline())
    for file, number in zip([_move_up(file) for file in files], numbers, strict=True):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    return list(line)


def _move_up(file: int) -> int:
    """Gives the file a number that no process asks for."""
    above = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 512)
    os.close(file)
    return above


def _begin_forkserver(address: str) -> None:
    """Begins the process from which this worker forks those of the service (`forking.py`)."""
    from multiprocessing import forkserver, resource_tracker, util
    from unittest.mock import patch

    spawn = util.spawnv_passfds

    def hand_over(_: Any, line: Sequence[str], kept: Sequence[int]) -> int:
        return spawn(os.fsencode(sys.executable), [sys.executable, "-IS", __file__, address, *line[1:]], kept)

    resource_tracker.ensure_running()
    with patch.object(util, "spawnv_passfds", hand_over):
        forkserver.ensure_running()


def _die_with(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)


def _handed_over(connection: socket.socket, address: str, files: Sequence[int], line: Sequence[str]) -> bool:
    """Says whether a process has taken the files."""
    try:
        connection.connect(address)
        socket.send_fds(connection, [b"\n"], files)
        connection.sendall(json.dumps([files, dict(os.environ), os.getcwd(), line]).encode() + b"\n")
        return connection.recv(1) != b""
    except OSError:
        return False


def _run(address: str, *line: str) -> None:
    files = [file for file in map(int, os.listdir("/dev/fd")) if _is_open(file)]
    connection = socket.socket(socket.AF_UNIX)
    if not _handed_over(connection, address, files, line):
        os.execv(sys.executable, [sys.executable, *line])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for file in files:
        if file != 2:
            os.close(file)  # it ends with the process that has taken it
    with suppress(OSError):
        connection.recv(1)


def _is_open(file: int) -> bool:
    try:
        os.fstat(file)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    _run(*sys.argv[1:])
