"""The processes of the service."""

import os
import socket
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

from deploy.cli.failures import CommandFailed
from deploy.cli.output import errors, screen
from domain.database.checks import check_servers
from domain.operations.server_checks import health_of, known_revisions
from domain.queue.jobs import QUEUES
from domain.queue.redis_clients import check_redis
from domain.settings import Settings, get_settings, mistyped_variables
from domain.telemetry.health import Health
from domain.telemetry.logs import configure_logging, get_logger
from domain.telemetry.metrics import BUILD
from domain.telemetry.metrics_ports import serve_metrics
from ingress.http.garbage import collect_rarely

app = typer.Typer()
log = get_logger(__name__)

Host = Annotated[str | None, typer.Option("--host", metavar="H", help="Address to listen on; 127.0.0.1 unless set.")]


def port_option(told: str, name: str = "--port") -> Any:
    """The option of a command for a port to listen on."""
    return typer.Option(name, min=0, max=65535, metavar="N", help=told)


ConsolePort = Annotated[
    int | None, port_option("Port of the console; the one after the API's unless set.", "--console-port")
]


@app.command()
def up(
    demo: Annotated[
        bool, typer.Option("--demo", help="Fill an empty database with a demo company, and drive some of its trucks.")
    ] = False,
    demo_fleet: Annotated[
        Literal["on", "off"],
        typer.Option("--demo-fleet", help="`off` leaves the demo's 24 trucks and their history out."),
    ] = "on",
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Folder for the database, logs and keys; .fuelroute unless set."),
    ] = None,
    host: Host = None,
    port: Annotated[int | None, port_option("Port to listen on; 8080 unless set, and 0 takes a free one.")] = None,
    console_port: ConsolePort = None,
    archive: Annotated[
        Path | None,
        typer.Option(
            "--archive",
            metavar="DIR",
            help="Folder for backups, where each change of the database is archived; FUELROUTE_ARCHIVE unless given.",
        ),
    ] = None,
    roads_pbf: Annotated[
        Path | None,
        typer.Option(
            "--roads-pbf",
            metavar="FILE",
            help="Extract of OpenStreetMap for truck roads; FUELROUTE_ROADS_PBF unless given.",
        ),
    ] = None,
) -> None:
    """Runs the whole service on this machine until Ctrl-C.

    Starts PostgreSQL and Redis too, unless the settings name others.
    """
    from deploy.stack import StackScreen, run_stack  # each command imports what it runs: the others start faster

    settings = settings_with(
        data=data, host=host, port=port, console_port=console_port, archive=archive, roads_pbf=roads_pbf
    )
    configure_logging(settings, "up")
    for variable, meant in mistyped_variables(os.environ).items():
        told = f"{variable} is no setting and changes nothing: is {meant} meant?"
        errors.print(told, style="yellow", highlight=False, soft_wrap=True)
    fleet = demo_fleet == "on"
    raise SystemExit(run_stack(settings, demo=demo, fleet=fleet, screen=StackScreen(width=screen.width)))


@app.command()
def ingress(
    host: Host = None,
    port: Annotated[int | None, port_option("Port to listen on; 8080 unless set.")] = None,
) -> None:
    """Runs one process that answers HTTP: the API, the telematics feed and health checks."""
    from ingress.process import run

    settings = settings_with(host=host, port=port)
    serve("ingress", settings, run)


@app.command()
def console(
    host: Host = None,
    port: Annotated[int | None, port_option("Port to listen on; the one after the API's unless set.")] = None,
) -> None:
    """Runs one process that serves the console: the pages for people in a browser."""
    from ingress.console.process import run

    settings = settings_with(console_host=host, console_port=port)
    serve("console", settings, run)


@app.command()
def workers(
    queues: Annotated[str, typer.Option("--queues", metavar="A,B", help="Queues to take work from.")] = ",".join(
        QUEUES
    ),
    processes: Annotated[int, typer.Option("--processes", min=1, metavar="N", help="How many processes to run.")] = 1,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            min=1,
            metavar="N",
            help="Threads of each process; the setting FUELROUTE_WORKER_THREADS unless given.",
        ),
    ] = None,
) -> None:
    """Runs workers, which import routes, notice arrivals, make plans and send messages."""
    chosen = [queue.strip() for queue in queues.split(",") if queue.strip()]
    unknown = sorted(set(chosen) - set(QUEUES))
    if unknown or not chosen:
        raise CommandFailed(f"no such queue: {', '.join(unknown) or '(none)'}; choose from {', '.join(QUEUES)}")
    settings = settings_with(worker_threads=threads)
    if processes > 1:
        from deploy.stack import StackScreen, run_workers

        raise SystemExit(run_workers(settings, chosen, processes, screen=StackScreen(width=screen.width)))
    from workers.process import run

    process = f"workers-{'-'.join(chosen)}" if len(chosen) < len(QUEUES) else "workers"
    serve("workers", settings, partial(run, queues=chosen), process=process, redis_needed=True)


@app.command()
def scheduler() -> None:
    """Runs the scheduler, which imports held routes every five minutes, finds lost work and deletes old data.

    Several may run; one of them works, the others stand by.
    """
    from scheduler.process import run

    serve("scheduler", get_settings(), run)


def settings_with(**given: object) -> Settings:
    """The settings, with the given options in their place."""
    return get_settings().model_copy(update={name: value for name, value in given.items() if value is not None})


def serve(
    kind: str,
    settings: Settings,
    run: Callable[[Settings, Health], int],
    *,
    process: str = "",
    redis_needed: bool = False,
) -> NoReturn:
    """Name the process for PostgreSQL, check the servers, export telemetry where that is asked for, spare the garbage
    collector what is loaded, serve the metrics, and run until the end. `process` is its name in traces, metrics and
    logs if that differs from `kind`. Without `redis_needed` the process starts even while Redis is away, and logs
    that."""
    process = process or kind
    configure_logging(settings, process)
    for variable, meant in mistyped_variables(os.environ).items():
        log.warning("settings.mistyped", variable=variable, meant=meant)
    # libpq shows it in pg_stat_activity as the name of this process, by which `doctor` counts processes of each kind.
    os.environ["PGAPPNAME"] = f"fuelroute {kind} {os.getpid()}@{socket.gethostname()}"
    check_servers(settings)
    check_redis(settings.require_redis_url(), needed=redis_needed)
    from domain.telemetry.export import end_export, export_telemetry

    export_telemetry(process)
    BUILD.labels(version("fuelroute"), known_revisions()[0]).set(1)
    collect_rarely()
    health = health_of(settings, process, queue_needed=redis_needed)
    serve_metrics(settings, process, health)
    try:
        raise SystemExit(run(settings, health))
    finally:
        end_export()
