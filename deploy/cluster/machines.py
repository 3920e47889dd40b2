"""Machines of the rehearsal: each is a network namespace on one bridge, with processes that live as systemd's would.

Needs root. Everything made here has a name that begins with `fr-`, and is removed at the end."""

import fcntl
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from deploy.processes import Child, Spec
from domain.errors import FuelrouteError

BRIDGE = "fr-bridge"
NETWORK = "10.77.0.0/24"
OUTSIDE = "10.77.0.1"
"""The address of the bridge itself, for the callers and the message gateway."""


_LOCK = Path("/run/fuelroute-cluster.lock")


class CannotRehearse(FuelrouteError):
    """Something that the rehearsal needs is missing."""


def command(*argv: str, check: bool = True) -> str:
    """Runs a program to its end. Raises subprocess.CalledProcessError if it fails, unless `check` is False."""
    done = subprocess.run(argv, capture_output=True, text=True, check=check)  # noqa: S603 (our own commands)
    return done.stdout


class Machine:
    """One machine: its name, its address, its folder, its processes."""

    def __init__(self, name: str, address: str, folder: Path) -> None:
        self.name = name
        self.address = address
        self.folder = folder / name
        self.namespace = f"fr-{name}"
        self.children: dict[str, Child] = {}
        self._specs: list[Spec] = []
        self._is_off = False
        self.folder.mkdir(mode=0o755)

    def connect(self) -> None:
        """Make the machine, and put its cable in."""
        command("ip", "netns", "add", self.namespace)
        link = self.namespace
        command("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", self.namespace)
        command("ip", "link", "set", link, "master", BRIDGE, "up")
        for arguments in (
            ("addr", "add", f"{self.address}/24", "dev", "eth0"),
            ("link", "set", "lo", "up"),
            ("link", "set", "eth0", "up"),
        ):
            command("ip", "-n", self.namespace, *arguments)

    def start(self, name: str, argv: Sequence[str], *, user: str | None = None, **environment: str) -> None:
        """Starts a process here, and again whenever it ends, as systemd does."""
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user is not None else []
        keep = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        spec = Spec(
            name=f"{self.name} {name}",
            argv=["ip", "netns", "exec", self.namespace, *as_user, *argv],
            log=self.folder / f"{name}.log",
            env={**keep, "HOME": str(self.folder), **environment},
            inherits=False,
            folder=self.folder,
        )
        self._specs.append(spec)
        self.children[name] = Child(spec)

    def tend(self) -> None:
        """Starts ended processes again. Call it again and again."""
        if not self._is_off:
            for child in self.children.values():
                child.restart_if_due(lambda _: None)

    def unplug(self) -> None:
        """Take the cable out: nothing arrives any more, and no peer is told."""
        command("ip", "link", "set", self.namespace, "down")

    def plug_in(self) -> None:
        command("ip", "link", "set", self.namespace, "up")

    def lose_power(self) -> None:
        """End everything here at once, without closing a connection."""
        self.unplug()
        self._is_off = True
        for child in self.children.values():
            child.kill_group()
        for pid in command("ip", "netns", "pids", self.namespace, check=False).split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), 9)

    def power_on(self) -> None:
        self.plug_in()
        names, specs = list(self.children), self._specs
        self.children = {name: Child(spec) for name, spec in zip(names, specs, strict=True)}
        self._is_off = False

    def restart(self, name: str, *, seconds: float = 30) -> None:
        """Stops a process in order, as an upgrade does, and starts it again."""
        child = self.children[name]
        child.signal(child.spec.stop_signal)
        deadline = time.monotonic() + seconds
        while child.died() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        child.kill_group()
        self.children[name] = Child(child.spec)

    def remove(self) -> None:
        if self.children:
            self.lose_power()
        command("ip", "link", "del", self.namespace, check=False)  # the kernel lets a namespace go later
        command("ip", "netns", "del", self.namespace, check=False)


class Network:
    """The bridge between the machines."""

    def __enter__(self) -> "Network":
        self._lock = _LOCK.open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise CannotRehearse("another rehearsal runs on this machine: wait for its end") from None
        remove_leftovers()
        command("ip", "link", "add", BRIDGE, "type", "bridge")
        command("ip", "addr", "add", f"{OUTSIDE}/24", "dev", BRIDGE)
        command("ip", "link", "set", BRIDGE, "up")
        return self

    def __exit__(self, *_: object) -> None:
        command("ip", "link", "del", BRIDGE, check=False)
        self._lock.close()


def remove_leftovers() -> None:
    """Ends what a killed rehearsal left, only in its own namespaces."""
    for line in command("ip", "netns", "list").splitlines():
        namespace = line.split()[0]
        if namespace.startswith("fr-"):
            for pid in command("ip", "netns", "pids", namespace, check=False).split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), 9)
            command("ip", "netns", "del", namespace, check=False)
    for line in command("ip", "-brief", "link").splitlines():  # a namespace may live on where others hold a mount of it
        name = line.split()[0].partition("@")[0]
        if name.startswith("fr-"):
            command("ip", "link", "del", name, check=False)


def wait_for(look: Callable[[], bool], what: str, seconds: float, tend: Callable[[], object] = lambda: None) -> float:
    """The seconds until `look` says yes. Raises TimeoutError after `seconds`."""
    started = time.monotonic()
    while not look():
        tend()
        if time.monotonic() - started > seconds:
            raise TimeoutError(f"waited {seconds:g} s for {what}")
        time.sleep(0.2)
    return time.monotonic() - started
