"""The common part of embedded servers: finding, starting and stopping one, and its environment."""

import contextlib
import importlib.util
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from deploy.embedded.folders import EmbeddedUnavailable
from deploy.processes import START_SECONDS, Child, Spec, StartFailed


class Server(Protocol):
    """A server that runs as our child."""

    @property
    def url(self) -> str: ...

    def prepare(self) -> None: ...

    def spec(self) -> Spec: ...

    def leave(self) -> None: ...


@contextlib.contextmanager
def running(server: Server, *, seconds: float = START_SECONDS) -> Iterator[str]:
    """Runs one server for as long as the block. Gives its URL. Raises StartFailed, with its last words, if it does not
    start."""
    server.prepare()
    spec = server.spec()
    child = Child(spec)
    try:
        deadline = time.monotonic() + seconds
        while spec.is_ready is not None and not spec.is_ready():
            if child.died() is not None or time.monotonic() > deadline:
                raise StartFailed(f"{spec.name} did not start: {child.last_words()}")
            time.sleep(0.05)
        yield server.url
    finally:
        child.signal(spec.stop_signal)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(timeout=60)
        child.kill_group()
        server.leave()


def wheel_folder(module: str, distribution: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise EmbeddedUnavailable(
            f"the package {distribution} is not installed: install `fuelroute[embedded]`, or set "
            "FUELROUTE_DATABASE_URL and FUELROUTE_REDIS_URL to servers of your own"
        )
    return Path(spec.origin).parent


def server_environment(user: pwd.struct_passwd | None = None) -> dict[str, str]:
    """The part of our environment for a server, without settings, passwords and tokens."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LC_ALL", "TZ") if name in os.environ}
    return kept if user is None else {**kept, "HOME": user.pw_dir}


def stop_orphan(pid_file: Path, program: bytes, stop_signal: signal.Signals) -> None:
    """Stops a server that a killed stack left running on this data. The caller holds the folder, so no other stack runs
    on it. Raises EmbeddedUnavailable if it does not stop."""
    try:
        pid = int(pid_file.read_text().split()[0])
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        same = Path(f"/proc/{pid}/cwd").resolve() == pid_file.parent.resolve()
    except (OSError, ValueError, IndexError):
        return
    if program not in command or not same:
        pid_file.unlink()  # of an earlier life; PostgreSQL would take the stranger who has its number now for a server
        return
    os.kill(pid, stop_signal)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}/cwd").exists():  # a zombie has none
        if time.monotonic() > deadline:
            raise EmbeddedUnavailable(f"a server of an earlier stack (pid {pid}) does not stop: kill it and try again")
        time.sleep(0.05)
