"""Servers that fall silent without closing a connection, as a frozen machine or a hanging disk makes them."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg


@contextmanager
def silent_address(address: str, port: int) -> Iterator[None]:
    """Answer no attempt to connect there, as where a firewall drops all packets: one connection fills the queue."""
    with socket.socket() as listening:
        listening.bind((address, port))
        listening.listen(0)
        with socket.create_connection((address, port)):
            yield


def postmaster_of(database_url: str) -> int:
    """The process id of the PostgreSQL server behind a local URL."""
    with psycopg.connect(database_url) as connection:
        # the second field, the name, is in parentheses; the parent of a backend is the postmaster
        return int(Path(f"/proc/{connection.info.backend_pid}/stat").read_text().rpartition(")")[2].split()[1])


@contextmanager
def stopped(postmaster: int) -> Iterator[None]:
    """Stop all processes of the server during the block. Its sockets stay open, and the kernel accepts more."""
    stopped: list[int] = []
    try:
        stopped.append(_stop(postmaster))  # first: it makes no more backends
        for child in Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split():
            try:
                stopped.append(_stop(int(child)))
            except ProcessLookupError:  # gone since it was listed
                continue
        yield
    finally:
        for pid in reversed(stopped):
            os.kill(pid, signal.SIGCONT)


def _stop(pid: int) -> int:
    os.kill(pid, signal.SIGSTOP)
    return pid
