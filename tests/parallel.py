"""Parallel workers of pytest, forked from one process that has loaded the tests. A worker that loads them by itself
takes four times the processor time until its first test.

pytest-xdist starts a worker as `PYTHON -u -c LINE`, and speaks with it over pipes. Here PYTHON is this file, which
hands the pipes to the loaded process and stays as long as the worker. Where that process fails, this file becomes
Python.
"""

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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

REPOSITORY = Path(__file__).parents[1]
_BEGIN = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); from tests.parallel import serve; serve()"


@contextmanager
def loaded_tests(arguments: Sequence[str]) -> Iterator[list[str]]:
    """Begins to load the tests that pytest finds for the arguments. Gives the PYTHON for workers, which wait for it."""
    from deploy.embedded.folders import make_private, socket_folder  # the program of the workers has no packages

    folder = socket_folder(Path(f"workers {uuid4()}"))
    make_private(folder, os.getuid())
    address = f"{folder}/loaded"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        process = subprocess.Popen(
            [sys.executable, "-c", _BEGIN, str(listener.fileno()), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
        )
    try:
        yield [sys.executable, "-IS", __file__, address]
    finally:
        process.communicate()
        shutil.rmtree(folder, ignore_errors=True)


def serve() -> None:
    """Loads the tests and the service, then forks a worker for each connection until its standard input ends. Returns
    there, and in each worker once it has run."""
    import pytest  # the program of the workers has no packages

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    listener = socket.socket(fileno=int(sys.argv[1]))
    # Capturing would give modules a standard output to keep that is closed when they are used.
    pytest.main(["--collect-only", "-qq", "-n0", "--capture=no", "-p", "no:cacheprovider", *sys.argv[2:]])
    importlib.import_module("tests.loaded")
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _work(connection)
            return
        connection.close()
    with suppress(ChildProcessError):
        while True:
            os.wait()


def _work(connection: socket.socket) -> None:
    """Does what a Python does that pytest-xdist has started: it executes the line that it reads."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _, pipes, *_ = socket.recv_fds(connection, 1, 3)
    with connection.makefile() as told:
        environment, folder = json.loads(told.readline())
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    _begin_forkserver()
    sys.argv = ["-c"]
    sys.stdin = os.fdopen(0, closefd=False)
    connection.sendall(b"\n")
    threading.Thread(target=_die_with, args=[connection], daemon=True).start()
    exec(eval(sys.stdin.readline()), vars(sys.modules["__main__"]))


def _begin_forkserver() -> None:
    """Begins the process from which this worker forks those of the service (`forking.py`). It is forked, too: it would
    take four seconds to load them."""
    from multiprocessing import forkserver, resource_tracker, util
    from unittest.mock import patch

    resource_tracker.ensure_running()
    with patch.object(util, "spawnv_passfds", _fork_python):
        forkserver.ensure_running()


def _fork_python(_: str, line: Sequence[str], kept: Sequence[int]) -> int:
    """Does in a fork what `PYTHON -c LINE` would do, which keeps these files of its parent. Gives its process id."""
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)  # the worker's own is the pipe to pytest
        for first, last in pairwise([2, *sorted(kept), os.sysconf("SC_OPEN_MAX")]):
            os.closerange(first + 1, last)
        try:
            exec(line[-1], {})
        finally:
            os._exit(0)
    return pid


def _die_with(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)


def _handed_over(connection: socket.socket, address: str) -> bool:
    """Says whether a worker has taken the standard streams."""
    try:
        connection.connect(address)
        socket.send_fds(connection, [b"\n"], [0, 1, 2])
        connection.sendall(json.dumps([dict(os.environ), os.getcwd()]).encode() + b"\n")
        return connection.recv(1) != b""
    except OSError:
        return False


def _run_worker(address: str, line: Sequence[str]) -> None:
    connection = socket.socket(socket.AF_UNIX)
    if not _handed_over(connection, address):
        os.execv(sys.executable, [sys.executable, *line])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.closerange(0, 2)  # the worker's pipes end with it
    with suppress(OSError):
        connection.recv(1)


if __name__ == "__main__":
    _run_worker(sys.argv[1], sys.argv[2:])
