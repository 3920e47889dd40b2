"""`fuelroute up`: the whole service as real processes on one machine, forked from this one, watched and restarted."""

import base64
import json
import os
import secrets
import signal
import sys
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

from pydantic import SecretStr

from deploy.backups.archive import ArchiveUnusable, archive_spec, end_archive, superuser
from deploy.embedded import DataFolder, EmbeddedPostgres, EmbeddedRedis, write_private
from deploy.embedded.valkey import CANNOT_READ
from deploy.forks import Forked, answer_of_fork, fork, fork_command, load_service
from deploy.processes import FUELROUTE, RECOVERY_SECONDS, Spec, StartFailed, StopRequested, Supervisor
from deploy.terminal import Terminal
from domain.addresses import reachable
from domain.database.checks import check_servers
from domain.errors import FuelrouteError
from domain.queue.jobs import QUEUES
from domain.queue.redis_clients import check_redis
from domain.settings import CONTACT_KEY_FILE, DEMO_FILE, Settings, UnusableSetting
from domain.text import printable, without_secrets
from ingress.http.serving import PortTaken, free_port

EmbeddedServer = EmbeddedPostgres | EmbeddedRedis
METRICS_FILE = "metrics.json"
"""The file in the data folder from which Prometheus learns where the processes' metrics are."""


class StackScreen(Terminal):
    """A terminal that may go away, as with `fuelroute up | head`, or whose file may lie on a full disk, without ending
    the stack."""

    def print(self, *objects: Any, **options: Any) -> None:
        try:
            super().print(*objects, **options)
        except OSError:  # the file keeps the line until it can be written, so the console forgets it
            self.quiet = True
            super().print()
            self.quiet = False

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor fails the last flush


def run_stack(settings: Settings, *, demo: bool, screen: Terminal, fleet: bool = True) -> int:
    """Runs until Ctrl-C or SIGTERM. Returns the exit status. Raises AlreadyRunning, EmbeddedUnavailable, NoContactKey,
    DatabaseProblem, RedisProblem, PortTaken, TwoValhallas or StartFailed if it cannot start; the command prints the
    text. `fleet`: a demo has its living fleet."""
    require_one_valhalla(settings)
    data = settings.data.absolute()
    # The stack runs on the servers that it is told or starts itself, never on those that another stack left in the
    # folder.
    with suppress(StopRequested), ExitStack() as life:
        folder = life.enter_context(DataFolder(data))
        supervisor = reporting_supervisor(screen)
        servers: list[EmbeddedServer] = []
        life.callback(_end, supervisor, servers, screen, settings)
        stop_on_signals(supervisor)
        metrics_ports = free_metrics_ports(settings)
        database_url, redis_url = _start_servers(settings, data, supervisor, servers, screen)
        # It may go through all rows of a large table, and waits for a run that another stack has begun.
        url = settings.database_direct_url or database_url
        screen.print(answer_of_fork(_migrate, url, is_stopping=lambda: supervisor.stopping), highlight=False)
        running = settings.model_copy(
            update={"database_url": database_url, "redis_url": redis_url, **_free_ports(settings)}
        )
        http_url = f"http://{reachable(running.host)}:{running.port}"
        console_url = f"http://{reachable(running.console_host)}:{running.console_port}"
        roads = start_roads(running, data, supervisor, screen)
        env = _environment(running, data) | contact_key(settings, data) | _roads_environment(roads)
        has_demo = demo or (data / DEMO_FILE).exists()
        if has_demo and settings.driver_page_url is None:
            env["FUELROUTE_DRIVER_PAGE_URL"] = http_url
        load_service()
        each = zip(PROCESSES, metrics_ports.values() or repeat(""), strict=False)
        specs = [
            process_spec(name, PROCESSES[name], folder.logs, env | {"FUELROUTE_METRICS_PORT": ports}, http_url)
            for name, ports in each
        ]
        supervisor.start([replace(spec, begin=fork_command) for spec in specs])
        folder.announce(
            database_url=database_url, redis_url=redis_url, http_url=http_url, console_url=console_url, **roads
        )
        screen.print(f"ready {http_url}", style="bold green", highlight=False, soft_wrap=True)
        screen.print(f"console {console_url}", highlight=False, soft_wrap=True)
        if metrics_ports:
            _announce_metrics(settings, metrics_ports, data)
            told = f"ports {min(metrics_ports)} to {max(metrics_ports)}"
            screen.print(f"metrics on {settings.metrics_host}, {told}", highlight=False)
        screen.print(f"logs in {folder.logs}; Ctrl-C stops everything", highlight=False, soft_wrap=True)
        known = running.model_copy(update={"contact_key": _key_in(env) or running.contact_key})
        guests = [fork("demo", _run_demo, known, screen, fleet)] if demo else []
        if fleet and has_demo:
            guests.append(fork("fleet", _drive_fleet, known, screen))
        life.callback(end_guests, guests)  # before the servers that they use are stopped
        supervisor.watch(lambda: _forget_ended(guests, screen))
    return 0


PROCESSES: Mapping[str, tuple[str, ...]] = {
    "ingress": ("ingress",),
    "console": ("console",),
    **{queue: ("workers", "--queues", queue) for queue in QUEUES},
    "scheduler": ("scheduler",),
    "connectors": ("connectors",),
}
"""The processes of a machine that runs all of Fuelroute: the arguments of each by its name."""


def free_metrics_ports(settings: Settings) -> dict[int, str]:
    """A free port for the metrics of each process, with the setting that makes the process take it, or the next free
    one if a stranger has it by then. Empty if no port is set. Raises UnusableSetting if too few are free."""
    ports = settings.metrics_ports_of(len(PROCESSES))
    if ports is None:
        return {}
    first, last = map(int, ports.split("-"))
    free = dict[int, str]()
    for port in range(first, last + 1):
        with suppress(PortTaken):
            free[free_port(settings.metrics_host, port)] = f"{port}-{last}"
        if len(free) == len(PROCESSES):
            return free
    raise UnusableSetting(f"FUELROUTE_METRICS_PORT: {len(free)} of {ports} are free, for {len(PROCESSES)} processes")


def _announce_metrics(settings: Settings, ports: Iterable[int], data: Path) -> None:
    """Writes the addresses of the processes' metrics for Prometheus."""
    targets = [f"{reachable(settings.metrics_host)}:{port}" for port in ports]
    (data / METRICS_FILE).write_text(json.dumps([{"targets": targets}]))


def run_workers(settings: Settings, queues: Sequence[str], processes: int, *, screen: Terminal) -> int:
    """Runs several worker processes of the same queues, and restarts those that die, until Ctrl-C or SIGTERM."""
    supervisor = reporting_supervisor(screen)
    stop_on_signals(supervisor)
    arguments = ("workers", "--queues", ",".join(queues), "--threads", str(settings.worker_threads))
    env = {"FUELROUTE_METRICS_PORT": settings.metrics_ports_of(processes) or ""}
    try:
        supervisor.start(
            [
                Spec(name=f"workers {number}", argv=[*FUELROUTE, *arguments], log=None, env=env)
                for number in range(1, processes + 1)
            ]
        )
        supervisor.watch()
    except StopRequested:
        pass
    finally:
        supervisor.stop(settings.longest_stop_seconds())
    return 0


class NoContactKey(FuelrouteError):
    def __init__(self, file: Path) -> None:
        super().__init__(
            f"{file} is empty, and contacts are sealed with the key that stood there: put its copy back. Without a copy"
            " delete the file, so that a new key is made, and import contacts again"
        )


def contact_key(settings: Settings, data: Path) -> dict[str, str]:
    """The variable with the processes' key for contacts: a key in the folder of the embedded database, made at its
    first start. For a database elsewhere the operator sets the key. Raises NoContactKey if the key's file is empty."""
    if settings.contact_key is not None or settings.database_url is not None:
        return {}
    file = data / CONTACT_KEY_FILE
    if not file.exists():
        write_private(file, base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())
    key = file.read_text()
    if not key.strip():
        raise NoContactKey(file)
    return {"FUELROUTE_CONTACT_KEY": key}


def reporting_supervisor(screen: Terminal) -> Supervisor:
    """A supervisor that prints what befalls its processes."""
    return Supervisor(lambda line: screen.print(printable(without_secrets(line)), highlight=False))


def _key_in(env: Mapping[str, str]) -> SecretStr | None:
    """The embedded database's key for contacts."""
    key = env.get("FUELROUTE_CONTACT_KEY")
    return SecretStr(key) if key is not None else None


def _start_servers(
    settings: Settings, data: Path, supervisor: Supervisor, servers: list[EmbeddedServer], screen: Terminal
) -> tuple[str, str]:
    """Checks the servers that the settings name, and starts embedded ones in place of missing ones. Started servers are
    added to `servers`. Returns the URLs of PostgreSQL and Redis."""
    if settings.database_url is not None:
        check_servers(settings)
    if settings.redis_url is not None:
        check_redis(settings.redis_url)

    def start(server: EmbeddedServer) -> str:
        servers.append(server)
        server.prepare()
        spec = server.spec()
        try:
            supervisor.start([spec], seconds=RECOVERY_SECONDS)
        except StartFailed as failed:
            if not isinstance(server, EmbeddedRedis) or CANNOT_READ not in str(failed):
                raise
            aside = server.set_aside()
            screen.print(f"redis cannot read its data and starts without them; they are in {aside}", soft_wrap=True)
            supervisor.start([spec])
        screen.print(f"{spec.name} runs", highlight=False)
        return server.url

    database_url = settings.database_url
    if database_url is None:
        options = {"wal_level": "logical"} if settings.companies_can_leave else None
        postgres = EmbeddedPostgres(data, options=options)
        database_url = start(postgres)
        _start_archive(settings.archive, postgres, data, supervisor, screen)
    elif settings.archive is not None:
        raise ArchiveUnusable(
            "only the embedded database is archived by `fuelroute up`: unset FUELROUTE_ARCHIVE, and archive the other"
            " server as deploy/backup.md says"
        )
    return database_url, settings.redis_url or start(EmbeddedRedis(data))


ARCHIVE_ENDS = (
    "the archive of this database ends here: no change from now on can be restored. To go on, stop and start again with"
    " --archive DIR"
)


def _start_archive(
    folder: Path | None, postgres: EmbeddedPostgres, data: Path, supervisor: Supervisor, screen: Terminal
) -> None:
    """Archives each change of the embedded database, if there is a folder for it."""
    if folder is None:
        with superuser(postgres) as connection:
            has_ended = end_archive(connection)  # nobody reads it now, and what is kept for it would fill the disk
        if has_ended:
            screen.print(ARCHIVE_ENDS, style="yellow", highlight=False, soft_wrap=True)
        return
    spec = archive_spec(postgres, folder, data / "logs" / "archive.log")
    supervisor.start([spec], outlives_others=True)  # PostgreSQL gives it the rest of the log when it stops
    screen.print(f"archive in {folder}", highlight=False, soft_wrap=True)


ROADS_WAIT_MINUTES = 60
"""Time until a failed build of the roads is tried again. Plans take the embedded roads meanwhile."""


class TwoValhallas(FuelrouteError):
    def __init__(self) -> None:
        super().__init__("FUELROUTE_VALHALLA_URL names a Valhalla, and --roads-pbf starts another: unset one of them")


def require_one_valhalla(settings: Settings) -> None:
    """Check which Valhalla the plans ask. Raises TwoValhallas if the settings name a server and an extract."""
    if settings.roads_pbf is not None and settings.valhalla_url is not None:
        raise TwoValhallas


def start_roads(running: Settings, data: Path, supervisor: Supervisor, screen: Terminal) -> dict[str, str]:
    """Starts a Valhalla over the extract of the settings, if they name one. Its roads may take hours to build, so that
    nothing waits for them. Returns its address under the name `valhalla_url`. Raises PortTaken."""
    if running.roads_pbf is None:
        return {}
    port = free_port(running.roads_host, running.roads_port, "FUELROUTE_ROADS_PORT")
    arguments = ("roads", "serve", "--pbf", str(running.roads_pbf.absolute()), "--port", str(port))
    log = data / "logs" / "roads.log"
    argv = [*FUELROUTE, *arguments, "--wait-minutes", str(ROADS_WAIT_MINUTES)]
    supervisor.start([Spec(name="roads", argv=argv, log=log, env=_environment(running, data))])
    screen.print(f"roads of {running.roads_pbf}, see {log}", highlight=False, soft_wrap=True)
    return {"valhalla_url": f"http://{reachable(running.roads_host)}:{port}"}


def _roads_environment(roads: Mapping[str, str]) -> dict[str, str]:
    return {"FUELROUTE_VALHALLA_URL": roads["valhalla_url"], "FUELROUTE_VALHALLA_URL_FILE": ""} if roads else {}


def _free_ports(settings: Settings) -> dict[str, int]:
    """The ports of the ingress and of the console. Raises PortTaken, which names the variable, if one is in use."""
    port = free_port(settings.host, settings.port)
    variable = "--console-port or FUELROUTE_CONSOLE_PORT"
    return {
        "port": port,
        "console_port": free_port(settings.console_host, settings.console_port_or_next(), variable),
    }


def _environment(running: Settings, data: Path) -> dict[str, str]:
    """The variables by which the processes find the servers and their own ports."""
    return {
        "FUELROUTE_DATABASE_URL": running.require_database_url(),
        "FUELROUTE_DATABASE_URL_FILE": "",  # read already; a variable and its file exclude each other
        "FUELROUTE_REDIS_URL": running.require_redis_url(),
        "FUELROUTE_REDIS_URL_FILE": "",
        "FUELROUTE_DATA": str(data),
        "FUELROUTE_HOST": running.host,
        "FUELROUTE_PORT": str(running.port),
        "FUELROUTE_CONSOLE_HOST": running.console_host,
        "FUELROUTE_CONSOLE_PORT": str(running.console_port),
        "FUELROUTE_ARCHIVE": str(running.archive.absolute()) if running.archive is not None else "",
    }


def process_spec(name: str, arguments: Sequence[str], logs: Path, env: dict[str, str], url: str) -> Spec:
    """One process of the service: the command `fuelroute ARGUMENTS` with that environment and its output in `logs`."""
    log = logs / f"{name}.log"
    is_ready = (lambda: _answers(url)) if arguments[0] == "ingress" else _says(log, f"{arguments[0]}.ready")
    return Spec(name=name, argv=[*FUELROUTE, *arguments], log=log, env=env, is_ready=is_ready)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=10) as answer:  # noqa: S310 (our own address)
            return bool(answer.status == 200)
    except OSError:
        return False


def _says(log: Path, event: str) -> Callable[[], bool]:
    """A function that tells whether a process has logged the event since now."""
    start = log.stat().st_size if log.exists() else 0

    def said() -> bool:
        with log.open("rb") as lines:
            lines.seek(start)
            return event.encode() in lines.read()

    return said


def stop_on_signals(supervisor: Supervisor) -> None:
    """Let Ctrl-C, SIGTERM and the end of the terminal ask the supervisor to stop."""

    def stop(number: int, _: Any) -> None:
        supervisor.ask_to_stop(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # `nohup` means it
            signal.signal(number, stop)


def _migrate(database_url: str) -> str:
    """Brings the schema to this release, unless it is of a later one, as after a step back. Returns what to print."""
    from domain.migrations import LaterSchema, migrate  # which takes more memory than all else of `up`

    try:
        return f"schema is at revision {migrate(database_url)}"
    except LaterSchema as later:
        return f"schema stays at the later revision {later.revision}"


def _run_demo(running: Settings, screen: Terminal, fleet: bool) -> None:
    """Runs the demo as a guest of the stack: its failure is reported and stops nothing."""
    from deploy.demo import run_demo

    try:
        run_demo(running, screen, fleet=fleet)
    except Exception as error:
        _say_that_demo_failed(screen, error)


def _drive_fleet(running: Settings, screen: Terminal) -> None:
    """Drives the demo's trucks as a guest of the stack, from the moment when they are there."""
    from deploy.demo.living import drive_fleet

    try:
        drive_fleet(running)
    except Exception as error:
        _say_that_demo_failed(screen, error)


def _say_that_demo_failed(screen: Terminal, error: object) -> None:
    screen.print(f"the demo failed: {printable(without_secrets(str(error)))}", style="red", soft_wrap=True)


def _forget_ended(guests: list[Forked], screen: Terminal) -> None:
    """Forgets the guests that have ended, and reports those that were killed."""
    for guest in [guest for guest in guests if guest.poll() is not None]:
        guests.remove(guest)
        if guest.returncode != 0:
            _say_that_demo_failed(screen, f"its process {guest.pid} ended with status {guest.returncode}")


GUEST_SECONDS = 2.0
"""Time for a guest to end. One that somebody has frozen does not, and would keep the stack from its own end."""


def end_guests(guests: Sequence[Forked]) -> None:
    for guest in guests:
        guest.terminate()
    for guest in guests:
        with suppress(TimeoutExpired):
            guest.wait(GUEST_SECONDS)
        guest.kill()
        guest.wait()


def _end(supervisor: Supervisor, servers: Sequence[EmbeddedServer], screen: Terminal, settings: Settings) -> None:
    supervisor.stop(1.5 * settings.longest_stop_seconds())  # of which our processes get two thirds
    for server in servers:
        server.leave()
    screen.print("stopped", highlight=False)
