"""Free ports of this machine, each for one test."""

import fcntl
import os
import random
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from ingress.http.serving import BAD_PORTS, PortTaken, free_port

HOST = "127.0.0.1"

_PORTS = range(1_100, 4_000)
"""None of them is one that `fuelroute up` takes by itself, or that a service has by default."""

_given = set[int]()


def own_port(count: int = 1) -> int:
    """The first of so many free ports in a row. No other test gets them while this process lives, neither here nor in
    another process: a process that is started may take seconds before it listens."""
    firsts = _PORTS[: len(_PORTS) - count + 1]
    for first in random.sample(firsts, len(firsts)):
        ports = range(first, first + count)
        if not (_given | BAD_PORTS).isdisjoint(ports):
            continue
        with suppress(BlockingIOError, PortTaken):
            fcntl.lockf(_file_of_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, count, first)
            _given.update(ports)
            return min(free_port(HOST, port) for port in ports)
    raise AssertionError(f"no {count} ports in a row are free")


@cache
def _file_of_locks() -> int:
    """A lock on the byte of a port's number keeps that port. The system ends a process's locks with it."""
    path = Path(tempfile.gettempdir()) / f"fuelroute-test-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
