"""The command `fuelroute` of scripts that tests run. Each is forked from a process that has loaded the service, where a
start of Python would load it anew for nearly a second (`forking.py`).

A script starts this file, which hands its arguments, environment, folder and streams over. It gets the signal to end,
and ends, as the command does.
"""

import json
import os
import shlex
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


@contextmanager
def forked_fuelroute(folder: Path) -> Iterator[str]:
    """A PATH on which `fuelroute` is a program in the folder, and all others are those of our Python."""
    from tests.forking import fork  # the program has no packages

    address, program = f"fuelroute-{uuid4()}", folder / "bin" / "fuelroute"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-IS", __file__, address])} "$@"\n')
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{address}")
        listener.listen()
        server = fork(_serve, listener, daemon=False)
        try:
            yield os.pathsep.join((str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]))
        finally:
            server.kill()
            server.join()


def _serve(listener: socket.socket) -> None:
    from deploy.processes import die_with_parent

    die_with_parent(signal.SIGKILL)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _run(connection)
        connection.close()


def _run(connection: socket.socket) -> None:
    from tests.forking import run_command

    _, streams, *_ = socket.recv_fds(connection, 1, 3)
    with connection.makefile() as told:
        arguments, environment, folder = json.loads(told.readline())
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, closefd=False)
    os.chdir(folder)
    threading.Thread(target=_end_with, args=[connection], daemon=True).start()
    status = 0
    try:
        run_command(arguments, environment)
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else 0
    except BaseException:
        traceback.print_exc()
        status = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(f"{status}\n".encode())
        os._exit(status)


def _end_with(connection: socket.socket) -> None:
    connection.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)


def _hand_over(address: str, *arguments: str) -> int:
    """The exit status of the command."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"\0{address}")
        socket.send_fds(connection, [b"\n"], [0, 1, 2])
        connection.sendall(json.dumps([arguments, dict(os.environ), os.getcwd()]).encode() + b"\n")
        signal.signal(signal.SIGTERM, lambda *_: connection.shutdown(socket.SHUT_WR))
        return int(connection.makefile().readline() or 1)


if __name__ == "__main__":
    sys.exit(_hand_over(*sys.argv[1:]))
