"""The ground of every benchmark: a stack of its own, alternating rounds, and figures with their goals."""

import itertools
import os
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psycopg
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from deploy.embedded import EmbeddedRedis
from deploy.processes import Spec, Supervisor
from deploy.stack import process_spec
from domain.database.connections import Database
from domain.migrations import migrate
from domain.settings import Settings
from ingress.http.serving import free_port
from tests.benchmarks.load import Address, Load, LoadFailed, drive, send
from tests.rows import named
from tests.servers import CopiedPostgres

HOST = "127.0.0.1"

STOLEN = "stolen by the host"
"""The name of the time that was ours by right (`steal` of proc(5)), among the users of the processors. Figures suffer
from it."""

Measured = TypeVar("Measured")


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table: what was measured in each round, and what it should be."""

    work: str
    unit: str
    rounds: list[float]
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def reached(self) -> bool | None:
        """True if the goal is reached; None without a goal."""
        if self.at_least is not None:
            return self.median >= self.at_least
        return self.median <= self.at_most if self.at_most is not None else None


@dataclass(frozen=True, slots=True)
class Bench:
    """The settings of a measurement."""

    progress: Progress
    rounds: int = 3
    seconds: float = 3.0
    routes: int = 1_000_000
    minutes: float = 30.0
    ingress: Sequence[int] = (1, 2)
    fills: int = 20_000
    prices: int = 10_000

    @contextmanager
    def stack(self, name: str) -> Iterator["Stack"]:
        """Embedded PostgreSQL and Redis in a temporary folder, as durable as `fuelroute up` has them. All that was
        started is stopped at the end, and the folder removed; a LoadFailed that ends the block tells where its logs
        were kept.
        """
        supervisor = Supervisor(print)
        with tempfile.TemporaryDirectory(prefix="fuelroute-bench-") as temporary:
            folder = Path(temporary)
            postgres, redis = CopiedPostgres(folder), EmbeddedRedis(folder)
            try:
                with self.task(f"{name}: starts its stack"):
                    postgres.prepare()
                    redis.prepare()
                    supervisor.start([postgres.spec(), redis.spec()])
                    with psycopg.connect(postgres.admin_url) as admin:  # filling a table skips its checks
                        admin.execute("GRANT SET ON PARAMETER session_replication_role TO fuelroute")
                    migrate(postgres.url)
                settings = Settings(data=folder, database_url=postgres.url, redis_url=redis.url)
                with Database.of(settings) as database:
                    yield Stack(settings, database, supervisor)
            except LoadFailed as failed:
                kept = tempfile.mkdtemp(prefix="fuelroute-bench-logs-")
                shutil.copytree(folder / "logs", kept, dirs_exist_ok=True)
                raise LoadFailed(f"{failed}; the logs of its processes are in {kept}") from None
            finally:
                supervisor.stop()
                for server in (postgres, redis):
                    server.leave()

    @contextmanager
    def task(self, text: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """A line on the screen for as long as the block: a bar with a total, else a spinner."""
        task = self.progress.add_task(text, total=total)
        try:
            yield lambda count: self.progress.advance(task, count)
        finally:
            self.progress.remove_task(task)

    def alternate(self, name: str, works: Mapping[str, Callable[[], Measured]]) -> dict[str, list[Measured]]:
        """Every work once in each round, one after the other, so that neighbours saw the same machine."""
        results: dict[str, list[Measured]] = {work: [] for work in works}
        for number in range(self.rounds):
            for work, measure in works.items():
                with self.task(f"{name}: round {number + 1} of {self.rounds}, {work}"):
                    results[work].append(measure())
        return results

    def constant_rate(self, address: Address) -> float:
        """Requests per second of the reference."""
        requests = itertools.repeat(b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n")
        return drive(send([address], requests, expect=200, seconds=self.seconds)).rate


def new_progress(screen: Console) -> Progress:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=screen, transient=True)


class Run(NamedTuple):
    """One round of a load, and the use of the processors in it."""

    load: Load
    shares: dict[str, float]
    """The part of one core that each process used."""

    @property
    def note(self) -> str:
        return f"{busiest(self.shares)}; answers: {dict(self.load.answers)}"


def rates(runs: Sequence[Run]) -> list[float]:
    """Expected answers per second of each round."""
    return [run.load.rate for run in runs]


def ratios(ours: Sequence[float], reference: Sequence[float]) -> list[float]:
    """Our figures divided by the reference of the same round."""
    return [one / other for one, other in zip(ours, reference, strict=True)]


class Stack:
    """A running PostgreSQL and Redis, and the processes that a benchmark starts beside them."""

    def __init__(self, settings: Settings, database: Database, supervisor: Supervisor) -> None:
        self.settings = settings
        self.database = database
        self._supervisor = supervisor
        self._logs = settings.data / "logs"

    def start(self, *arguments: str, **settings: str) -> None:
        """The process `fuelroute ARGUMENTS`, named after the last one, with further settings such as SWEEP_SECONDS."""
        self._start_process(arguments[-1], arguments, settings)

    def start_ingress(self, name: str = "ingress", **settings: str) -> Address:
        """One ingress process on a port of its own: what stands before several is the load generator."""
        address = HOST, free_port(HOST, 0)
        self._start_process(name, ("ingress",), {"PORT": str(address[1]), **settings}, f"http://{HOST}:{address[1]}")
        return address

    def start_console(self) -> Address:
        """The console's process, on a port of its own."""
        address = HOST, free_port(HOST, 0)
        self._start_process("console", ("console",), {"CONSOLE_PORT": str(address[1])})
        return address

    def start_constant(self) -> Address:
        """The reference: uvicorn as the ingress runs it, over the constant endpoint."""
        return self.start_app("constant")

    def start_app(self, module: str) -> Address:
        """A module of this folder with an `app`, in one uvicorn process."""
        address = HOST, free_port(HOST, 0)
        command = ["uvicorn", f"tests.benchmarks.{module}:app", "--loop", "uvloop", "--http", "httptools"]
        arguments = ["--port", str(address[1]), "--no-access-log", "--log-level", "warning", "--backlog", "2048"]
        self.start_module(module, *command, *arguments, is_ready=lambda: listens(address))
        return address

    def start_module(self, name: str, *command: str, is_ready: Callable[[], bool] | None = None) -> None:
        """`python -m COMMAND`, which finds the servers where Fuelroute's own processes do."""
        argv = [sys.executable, "-m", *command]
        log = self._logs / f"{name}.log"
        self._supervisor.start([Spec(name, argv, log, env=self._environment(), is_ready=is_ready)])

    def start_spec(self, spec: Spec) -> None:
        self._supervisor.start([spec])

    def kill(self, *names: str) -> None:
        """Kills processes at once, as a disaster does. Nobody starts them again."""
        for child in self._supervisor.children:
            if child.spec.name in names:
                child.signal(signal.SIGKILL)

    def _start_process(self, name: str, arguments: tuple[str, ...], settings: dict[str, str], url: str = "") -> None:
        environment = self._environment(**settings)
        self._supervisor.start([process_spec(name, arguments, self._logs, environment, url)], seconds=60)

    def _environment(self, **settings: str) -> dict[str, str]:
        return {
            "FUELROUTE_DATABASE_URL": self.settings.require_database_url(),
            "FUELROUTE_REDIS_URL": self.settings.require_redis_url(),
            "FUELROUTE_DATA": str(self.settings.data),
            "FUELROUTE_HOST": HOST,
            "FUELROUTE_HEAD_TIMEOUT_SECONDS": "60",  # a load opens all its connections before the first request
            **{f"FUELROUTE_{name}": value for name, value in settings.items()},
        }

    def execute(self, statement: str, *parameters: Any) -> None:
        with self.database.transaction() as connection:
            connection.execute(statement, parameters)

    def query(self, statement: str, *parameters: Any) -> list[Any]:
        """The rows of a look at the database, with the columns' names."""
        with self.database.transaction() as connection:
            return named(connection).execute(statement, parameters).fetchall()

    def wait_until(self, statement: str, *, seconds: float) -> None:
        """Waits until a query gives true. Raises LoadFailed."""
        deadline = time.monotonic() + seconds
        while not self.query(statement)[0][0]:
            if time.monotonic() > deadline:
                raise LoadFailed(f"waited {seconds:g} s for {statement}")
            time.sleep(0.02)

    def memory(self) -> dict[str, float]:
        """Megabytes of each process's own memory, its children's included, without what it maps or shares."""
        return {name: sum(map(own_megabytes, pids)) for name, pids in self._processes().items()}

    def resident_memory(self) -> dict[str, float]:
        """Megabytes of each process and its children, with all that they map."""
        return {name: sum(_megabytes(pid, "VmRSS") for pid in pids) for name, pids in self._processes().items()}

    def cpu_seconds(self) -> dict[str, float]:
        """Processor seconds so far: of each process with its children, of the load generator, and those that a virtual
        machine's host gave to others.
        """
        pids = {**self._processes(), "load generator": [os.getpid()]}
        spent = {name: sum(map(_cpu_seconds, of_name)) for name, of_name in pids.items()}
        return spent | {STOLEN: _stolen_seconds()}

    def measure(self, load: Coroutine[Any, Any, Load]) -> Run:
        """Runs a load to its end."""
        with self.watched() as shares:
            return Run(drive(load), shares)

    @contextmanager
    def watched(self) -> Iterator[dict[str, float]]:
        """Gives the part of one core that each process uses in the block. It is filled at the end of the block."""
        shares: dict[str, float] = {}
        started, before = time.perf_counter(), self.cpu_seconds()
        yield shares
        seconds = time.perf_counter() - started
        shares.update({name: (spent - before[name]) / seconds for name, spent in self.cpu_seconds().items()})

    def pids(self) -> list[int]:
        """The processes that were started here, and their children."""
        return [pid for pids in self._processes().values() for pid in pids]

    def pids_of(self, name: str) -> list[int]:
        """A process that was started here, and its children."""
        return self._processes()[name]

    def _processes(self) -> dict[str, list[int]]:
        return {child.spec.name: _family(child.process.pid) for child in self._supervisor.children}


def _family(pid: int) -> list[int]:
    """The process and its children, and theirs."""
    try:
        lists = [(thread / "children").read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:  # gone meanwhile
        return [pid]
    return [pid, *(below for one in lists for child in one.split() for below in _family(int(child)))]


def busiest(shares: Mapping[str, float]) -> str:
    """A note that names the processes that used the processors most."""
    used = sorted(shares.items(), key=lambda item: -item[1])
    return "CPU: " + ", ".join(f"{name} {share:.0%}" for name, share in used if share >= 0.02)


def listens(address: Address) -> bool:
    try:
        socket.create_connection(address, timeout=1).close()
    except OSError:
        return False
    return True


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; none when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _cpu_seconds(pid: int) -> float:
    """The processor time of a process and of its children that have ended; 0 when it is gone."""
    return sum(map(int, _stat(pid)[11:15])) / os.sysconf("SC_CLK_TCK")


def exact_cpu_seconds(pid: int) -> float:
    """The processor time of a process by the scheduler's clock, which is finer than the ticks of /proc/PID/stat; 0 when
    the process is gone."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
    except OSError:
        return 0.0


def _stolen_seconds() -> float:
    """The time that other machines took from all processors together, since the machine started."""
    return int(Path("/proc/stat").read_text().split()[8]) / os.sysconf("SC_CLK_TCK")


def own_megabytes(pid: int) -> float:
    """The memory of one process, without mapped and shared pages; 0 when it is gone."""
    return _megabytes(pid, "RssAnon")


def _megabytes(pid: int, field: str) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(f"{field}:")), 0.0)
