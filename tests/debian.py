"""Servers of Debian's packages, where the embedded ones do not suffice. Without its package a test is skipped."""

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.service import eventually


def program(name: str, package: str, *folders: str) -> str:
    """The path of a program; skips the test where the package is not installed. Lines at the end of a run name it."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", *folders))
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"there is no {name}: apt install {package}")
    return found


def packages_named(reasons: Iterable[str]) -> list[str]:
    """The packages that reasons of skipped tests name."""
    named = (reason.partition("apt install ")[2].strip("()").split() for reason in reasons)
    return sorted({package for packages in named for package in packages})


def accepts(port: int) -> bool:
    """True when somebody listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def running_program(argv: Sequence[str], port: int, log: Path, *, user: str | None = None) -> Iterator[int]:
    """Runs a server until the end of the block; gives its process id once it listens. As root it runs as `user`."""
    own: dict[str, Any] = {}
    if user is not None and os.getuid() == 0:
        account = pwd.getpwnam(user)
        own = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    with log.open("ab") as output:
        process = subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT, **own)
    try:
        eventually(lambda: process.poll() is not None or accepts(port), bool, wanted=f"{argv[0]} on port {port}")
        assert process.poll() is None, log.read_text()[-2000:]
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
