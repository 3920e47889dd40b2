"""The folder for the files of a run of the tests: PostgreSQL's, Redis's, and those below `tmp_path`."""

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import disk_usage
from time import time

import pytest

from tests.servers import CLUSTERS

_MEMORY = Path("/dev/shm")
_ROOM_IN_MEMORY = 8 * 10**9
"""Bytes that must be free there. A whole run takes up to 5 GB."""
_PREFIX = "fr-tests-"
"""Short: some tests have a socket below it, and the path of HAProxy's may have 97 bytes."""
_NEW_SECONDS = 60.0
"""A younger folder may be one that its run has made and not locked yet."""


@contextmanager
def folder_of_run(config: pytest.Config) -> Iterator[Path]:
    """Makes the folder, and removes it in the end. It lies in memory where there is room: a database has 700 files, and
    the disk takes six times the processor time to make them."""
    in_memory = _has_room()
    if in_memory:
        _remove_those_of_killed_runs()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_MEMORY if in_memory else None))
    folder.chmod(0o711)  # PostgreSQL's own user passes through to some of the folders below it
    if in_memory and not config.option.basetemp:
        config.option.basetemp = folder / "tmp"  # above the `tmp_path` of each test
    try:
        with _locked(folder):
            yield folder
    finally:
        _remove_by_itself(folder)


@contextmanager
def own_folder(name: str) -> Iterator[Path]:
    """A folder for as long as the block, below that of the run. Its path is shorter than `tmp_path`, which stays until
    the run ends, and which no other user can pass through. Outside of a run it is where temporary files are."""
    run = os.environ.get(CLUSTERS)
    with tempfile.TemporaryDirectory(prefix=f"fuelroute-{name}-", dir=run, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _has_room() -> bool:
    if not _MEMORY.is_dir() or os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC:
        return False
    return disk_usage(_MEMORY).free >= _ROOM_IN_MEMORY


def _remove_those_of_killed_runs() -> None:
    for left in _MEMORY.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if time() - left.stat().st_mtime > _NEW_SECONDS:
                with _locked(left):
                    _remove_by_itself(left)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keeps a folder for this process. Raises OSError where a run that goes on has it."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(opened)


def _remove_by_itself(folder: Path) -> None:
    """Removes a folder while the tests end. Their databases are some 100,000 files, which the disk takes a millisecond
    each to remove."""
    quiet = subprocess.DEVNULL
    subprocess.run(
        ["sh", "-c", 'rm -rf "$1" &', "sh", folder], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )
