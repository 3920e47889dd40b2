"""The stack that the random machine breaks: the processes of `fuelroute up`, each of which a fault can kill, stop and
start by its name.

The machine starts what died at once, without the growing pauses of `fuelroute up`: with hundreds of faults in an hour
it would else mostly wait.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from deploy.embedded import EmbeddedRedis
from deploy.processes import Child, Spec
from deploy.stack import process_spec
from domain.database.connections import Database
from domain.migrations import migrate
from domain.queue.jobs import QUEUES
from domain.settings import Settings
from domain.text import without_secrets
from tests.forking import forked_spec
from tests.ports import own_port
from tests.servers import CopiedPostgres

HOST = "127.0.0.1"
INGRESSES = ("ingress 1", "ingress 2")
SERVERS = ("redis", "postgres")
PROCESSES = (*INGRESSES, "console", *QUEUES, "scheduler", "connectors")
READY_SECONDS = 120.0
_DISK_BYTES = 4 << 30
"""The size of the disk of PostgreSQL's data: more than its log may grow to."""


class NotReady(Exception):
    """A process or a server did not start."""


@dataclass
class Stack:
    """The running processes by their names. Only the main thread starts one: the kernel stops a child when the thread
    that started it ends."""

    folder: Path
    settings: Mapping[str, str]
    """Further variables of the processes, without `FUELROUTE_`."""
    own_disk: bool
    """PostgreSQL's data lies on a small disk of its own, which a fault can fill."""
    urls: dict[str, str] = field(default_factory=dict)
    """The addresses of the ingresses and the console."""
    children: dict[str, Child] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    """Processes that a fault keeps away: they are not started again until it ends."""
    deaths: list[tuple[str, str]] = field(default_factory=list)
    """Processes and servers that ended by themselves, with their last words."""
    faked: dict[str, Path] = field(default_factory=dict)
    """Processes whose clock a fault sets, with the file that says how far it is off."""

    def __post_init__(self) -> None:
        (self.folder / "logs").mkdir(exist_ok=True)
        self.postgres = CopiedPostgres(self.disk)
        self.redis = EmbeddedRedis(self.folder)
        self.urls |= {name: f"http://{HOST}:{own_port()}" for name in (*INGRESSES, "console")}

    @property
    def disk(self) -> Path:
        return self.folder / "disk"

    @property
    def service_settings(self) -> Settings:
        return Settings(data=self.folder, database_url=self.postgres.url, redis_url=self.redis.url)

    @property
    def admin_url(self) -> str:
        """The service's database for the superuser, who sees every row."""
        return self.postgres.url.replace("//fuelroute@", "//postgres@")

    # --- Starting and stopping -----------------------------------------------------------------------------------

    def start(self, *names: str) -> None:
        """Starts the processes or servers together, and waits until all are ready. Raises NotReady."""
        self.stopped -= set(names)
        specs = {name: self._spec(name) for name in names}
        for name, spec in specs.items():
            self.children[name] = Child(spec)
        self._wait(specs)

    def _wait(self, specs: dict[str, Spec]) -> None:
        """Waits until all are ready, and starts those again that die meanwhile."""
        deadline = time.monotonic() + READY_SECONDS
        while specs:
            for name, spec in [*specs.items()]:
                if self.children[name].died() is not None:
                    self.children[name].kill_group()
                    time.sleep(0.2)
                    specs[name] = self._spec(name)
                    self.children[name] = Child(specs[name])
                elif spec.is_ready is None or spec.is_ready():
                    del specs[name]
            if specs and time.monotonic() > deadline:
                raise NotReady(f"{', '.join(specs)}: {self.children[next(iter(specs))].last_words()}")
            time.sleep(0.03)

    def heal(self) -> None:
        """Starts again whatever has died, except what a fault keeps away. Servers come first."""
        for group in (*((server,) for server in SERVERS), PROCESSES):
            dead = [name for name in group if name not in self.stopped and self.is_dead(name)]
            if dead:
                self.deaths += [(name, self._last_words(name)) for name in dead]
                self.start(*dead)

    def _last_words(self, name: str) -> str:
        child = self.children[name]
        return f"status {child.process.returncode}, {without_secrets(child.last_words())[-500:]}"

    def is_dead(self, name: str) -> bool:
        return self.children[name].died() is not None

    def kill(self, name: str) -> None:
        """Kills it at once, and starts it no more until `start`."""
        self.stopped.add(name)
        self.children[name].kill_group()

    def end(self, name: str, number: signal.Signals, *, seconds: float = 180) -> None:
        """Asks it to stop, and waits until it has. Raises NotReady."""
        self.stopped.add(name)
        self.children[name].signal(number)
        try:
            self.children[name].process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise NotReady(f"{name} does not stop within {seconds:g} s of {number.name}") from None
        finally:
            self.children[name].kill_group()

    def signal(self, name: str, number: signal.Signals) -> None:
        self.children[name].signal(number)

    def pid(self, name: str) -> int:
        return self.children[name].process.pid

    # --- Specs ---------------------------------------------------------------------------------------------------

    def _spec(self, name: str) -> Spec:
        if name == "postgres":
            return self.postgres.spec()
        if name == "redis":
            return self.redis.spec()
        kind = name.split(" ", maxsplit=1)[0]
        arguments = ("workers", "--queues", name) if name in QUEUES else (kind,)
        # a library must be there from the start to fake a clock
        make_spec = process_spec if name in self.faked else forked_spec
        return make_spec(name, arguments, self.folder / "logs", self._environment(name), self.urls.get(name, ""))

    def _environment(self, name: str) -> dict[str, str]:
        variables = {"DATABASE_URL": self.postgres.url, "REDIS_URL": self.redis.url, "DATA": str(self.folder)}
        variables |= {"HOST": HOST, "CONSOLE_HOST": HOST, "MESSAGE_ALLOWED_HOSTS": HOST, **self.settings}
        if name in self.urls:
            variables["CONSOLE_PORT" if name == "console" else "PORT"] = self.urls[name].rpartition(":")[2]
        environment = {f"FUELROUTE_{variable}": value for variable, value in variables.items()}
        return environment | (faked_clock(self.faked[name]) if name in self.faked else {})


# --- Disks and clocks --------------------------------------------------------------------------------------------

FAKETIME = Path("/usr/lib") / f"{os.uname().machine}-linux-gnu" / "faketime" / "libfaketimeMT.so.1"
"""Debian's library that gives a process a clock of its own: `apt-get install faketime`."""


def faked_clock(file: Path) -> dict[str, str]:
    """The variables that make a process read from the file how far its clock is off, each second anew."""
    return {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def can_mount() -> bool:
    return os.geteuid() == 0 and shutil.which("mount") is not None


def resize(disk: Path, size_bytes: int) -> None:
    """Changes the size of a mounted disk. It needs no more memory for that."""
    subprocess.run(["mount", "-o", f"remount,size={size_bytes}", disk], check=True, capture_output=True)


def fill(disk: Path) -> None:
    """Leaves no space on the disk. What is written meanwhile makes another try necessary."""
    for _ in range(100):
        usage = os.statvfs(disk)
        with suppress(subprocess.CalledProcessError):
            resize(disk, (usage.f_blocks - usage.f_bfree) * usage.f_frsize)
            return
    raise NotReady(f"{disk} cannot be filled")


def empty(disk: Path) -> None:
    resize(disk, _DISK_BYTES)


@contextmanager
def _mounted(disk: Path) -> Iterator[bool]:
    """A disk of its own at that path, as far as we may mount one. False: it is a folder."""
    disk.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES},mode=0711", "fuelroute-chaos", str(disk)]
    if not can_mount() or subprocess.run(options, capture_output=True, check=False).returncode != 0:
        yield False
        return
    try:
        yield True
    finally:
        for _ in range(100):
            if subprocess.run(["umount", str(disk)], capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.1)


@contextmanager
def running_stack(folder: Path, **settings: str) -> Iterator[Stack]:
    """The servers and all processes, for as long as the block."""
    with ExitStack() as life:
        own_disk = life.enter_context(_mounted(folder / "disk"))
        stack = Stack(folder, settings, own_disk)
        life.callback(_end, stack)
        stack.postgres.prepare()
        stack.redis.prepare()
        stack.start(*SERVERS)
        migrate(stack.postgres.url)
        stack.start(*PROCESSES)
        yield stack


def _end(stack: Stack) -> None:
    """Stops the processes, then the servers."""
    is_server = {name: name in SERVERS for name in stack.children}
    for servers in (False, True):
        children = [child for name, child in stack.children.items() if is_server[name] is servers]
        for child in children:
            child.signal(signal.SIGCONT)
            child.signal(child.spec.stop_signal)
        deadline = time.monotonic() + 10
        for child in children:
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(max(deadline - time.monotonic(), 0))
            child.kill_group()
    stack.postgres.leave()
    stack.redis.leave()


def wait_for(look: Callable[[], Any], seconds: float) -> bool:
    """Looks until it is true. False when the time is over."""
    deadline = time.monotonic() + seconds
    while not look():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.03)
    return True


def answers(url: str) -> bool:
    """True when PostgreSQL takes connections and writes."""
    with suppress(psycopg.Error), psycopg.connect(url, connect_timeout=2, autocommit=True) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        return True
    return False


def opened(stack: Stack) -> Database:
    return Database.of(stack.service_settings)
