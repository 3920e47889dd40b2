"""The folders of the embedded servers: data and sockets. All are private; no folder above them is changed."""

import contextlib
import fcntl
import hashlib
import json
import os
import pwd
import tempfile
from pathlib import Path
from typing import IO

from deploy.processes import open_private
from domain.errors import FuelrouteError
from domain.settings import STACK_FILE


class EmbeddedUnavailable(FuelrouteError):
    """The embedded servers cannot run here; the text says what to do."""


class AlreadyRunning(FuelrouteError):
    def __init__(self, data: Path, pid: str) -> None:
        super().__init__(
            f"another fuelroute is running on {data} (pid {pid}): stop it, or choose another folder with --data"
        )


class DataFolder:
    """The folder of a stack: `postgres/`, `redis/`, `logs/`, and in `stack.json` the addresses of the running
    servers."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.logs = self.path / "logs"
        self._lock: IO[str] | None = None

    def __enter__(self) -> "DataFolder":
        """Takes the folder for this process. Raises AlreadyRunning if another stack has it, and PermissionError if it
        is not ours."""
        try:
            make_closed(self.path, self.logs)
            lock = open(self.path / "lock", "a+", opener=open_private)
        except OSError as error:
            raise EmbeddedUnavailable(
                f"cannot write in {self.path} ({error.strerror}): choose another folder with --data"
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # goes with the process, so that none is ever stale
        except BlockingIOError:
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            lock.close()
            raise AlreadyRunning(self.path, owner) from None
        os.register_at_fork(after_in_child=lock.close)  # a fork that outlives us for a moment does not hold the folder
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock
        return self

    def __exit__(self, *_: object) -> None:
        (self.path / STACK_FILE).unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.close()

    def announce(self, **stack: str) -> None:
        """Writes the addresses of the running stack, for the other commands."""
        content = json.dumps({**stack, "pid": os.getpid()}, indent=2)
        write_private(self.path / STACK_FILE, content + "\n")


def make_closed(data: Path, *folders: Path) -> None:
    """Makes the data folder and folders in it, closed to others. A data folder that exists keeps its mode: it may not
    be ours alone. Raises EmbeddedUnavailable if one cannot be made."""
    data.parent.mkdir(parents=True, exist_ok=True)
    data.mkdir(mode=0o700, exist_ok=True)
    if data.stat().st_mode & 0o002:
        raise EmbeddedUnavailable(f"everybody can write in {data}: choose another folder with --data")
    for folder in folders:
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)


def write_private(file: Path, content: str) -> None:
    """Replaces a file as a whole; only its owner can read it. It is on disk when this returns, since one that a power
    failure left empty may be a key."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.unlink(missing_ok=True)
    with open(fresh, "x", opener=open_private) as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    fresh.replace(file)
    sync_names(file.parent)


def sync_names(folder: Path) -> None:
    """Waits until the names in a folder are on disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def socket_folder(data: Path, user: pwd.struct_passwd | None = None) -> Path:
    """The folder of a server's socket. Its path is short, because a unix socket's path has at most 107 bytes. `user`,
    who runs the server, can enter the folders above it."""
    name = hashlib.sha256(str(data).encode()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"fuelroute-{os.getuid()}-{name}"
    if len(str(folder)) > 80 or (
        user is not None and not all(above.stat().st_mode & 0o001 for above in folder.parents)
    ):
        folder = Path("/tmp") / folder.name  # noqa: S108 (a folder of our own, mode 0700)
    return folder


def make_private(folder: Path, owner: int) -> None:
    """Makes a folder that only its owner can enter, in a place where every user can make one. Raises
    EmbeddedUnavailable if somebody else has made it."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    try:
        # The checked folder is the changed one, even if somebody puts a link in its place meanwhile.
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        raise _taken(folder) from None
    try:
        if os.fstat(opened).st_uid not in (os.getuid(), owner):
            raise _taken(folder)
        if os.fstat(opened).st_uid != owner:
            os.fchown(opened, owner, -1)
        os.fchmod(opened, 0o700)
    finally:
        os.close(opened)


def _taken(folder: Path) -> EmbeddedUnavailable:
    return EmbeddedUnavailable(f"{folder} belongs to somebody else: set TMPDIR to a folder of your own")
