"""The command line `fuelroute`. Each command reads like its row in the README; what it does lives in `domain`."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec
import psycopg
import redis
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from deploy.terminal import Terminal
from domain import database
from domain.accounts import companies, keys
from domain.accounts.companies import Policy
from domain.accounts.contacts import Contacts
from domain.contract.checking import write
from domain.contract.csvfiles import Report
from domain.contract.shapes import Instant
from domain.database import Connection
from domain.errors import FuelrouteError
from domain.fleet import fleet
from domain.housekeeping import erasure
from domain.ids import is_id
from domain.jobs import QUEUES, Job, JobQueue, check_redis
from domain.lifecycle import Environment
from domain.messages import messages
from domain.metrics_ports import serve_metrics
from domain.observability import configure_logging
from domain.planning import replanning
from domain.planning.prices import Objective
from domain.routes import imports
from domain.routes.pushes import Matched
from domain.settings import Settings, get_settings
from domain.stations import stations
from domain.text import printable, without_secrets

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
companies_app = typer.Typer(no_args_is_help=True, help="Companies and their import and planning policy.")
keys_app = typer.Typer(no_args_is_help=True, help="API keys.")
vehicles_app = typer.Typer(no_args_is_help=True, help="A company's vehicles.")
drivers_app = typer.Typer(no_args_is_help=True, help="A company's drivers.")
mappings_app = typer.Typer(no_args_is_help=True, help="What unknown units and drivers mean.")
messages_app = typer.Typer(no_args_is_help=True, help="Messages to drivers.")
stations_app = typer.Typer(no_args_is_help=True, help="Truck stops and their retail prices.")
deals_app = typer.Typer(no_args_is_help=True, help="Negotiated prices.")
taxes_app = typer.Typer(no_args_is_help=True, help="Diesel taxes by state.")
roads_app = typer.Typer(no_args_is_help=True, help="The embedded main roads.")
for name, sub in (
    ("companies", companies_app),
    ("keys", keys_app),
    ("vehicles", vehicles_app),
    ("drivers", drivers_app),
    ("mappings", mappings_app),
    ("messages", messages_app),
    ("stations", stations_app),
    ("deals", deals_app),
    ("taxes", taxes_app),
    ("roads", roads_app),
):
    app.add_typer(sub, name=name)

screen = Terminal(width=None if sys.stdout.isatty() else 160)
errors = Terminal(stderr=True)

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, for scripts.")]
CompanyId = Annotated[str, typer.Option("--company", help="The company's id.", metavar="ID")]
CsvFile = Annotated[Path, typer.Argument(metavar="FILE.csv", help="UTF-8, the first line names the columns.")]


class CommandFailed(FuelrouteError):
    """One sentence for the person at the terminal; exit status 1."""


def main() -> None:
    """The entry point: every failure is one sentence that says what to do, and exit status 1."""
    try:
        app()
    except psycopg.errors.UndefinedTable:
        _fail("the database has no Fuelroute schema: run `fuelroute migrate` first")
    except psycopg.OperationalError as error:
        _fail(f"cannot use PostgreSQL ({_first_line(error)}): check FUELROUTE_DATABASE_URL and that the server runs")
    except redis.RedisError as error:
        _fail(f"cannot use Redis ({_first_line(error)}): check FUELROUTE_REDIS_URL and that the server runs")
    except UnicodeError:
        _fail("an argument is not text: give it in UTF-8")
    except (FuelrouteError, PermissionError) as error:
        _fail(str(error))


@app.callback()
def prepare() -> None:
    """Logs go to standard error, whatever the command: standard output is for its result."""
    configure_logging(get_settings(), "command")


def _fail(sentence: str) -> None:
    sentence = printable(without_secrets(sentence))
    errors.print(f"fuelroute: {sentence}", style="red", highlight=False, soft_wrap=True)
    sys.exit(1)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def show(as_json: bool, document: Any, text: Callable[[], object]) -> None:
    """The result: one JSON document for scripts, or something readable."""
    if as_json:
        sys.stdout.write(printable(msgspec.json.format(write(document)).decode(), keep="\n") + "\n")
    else:
        text()


@contextmanager
def transaction() -> Iterator[Connection]:
    """One transaction of a command."""
    with database.connected(get_settings().require_database_url()) as connection:
        yield connection


def enqueue(jobs: list[Job]) -> None:
    """Hints for the workers; without Redis the passes find the work."""
    if jobs:
        JobQueue.of(get_settings()).put(*jobs)


# --- Processes -------------------------------------------------------------------------------------------------


@app.command()
def up(
    demo: Annotated[bool, typer.Option("--demo", help="Fill an empty database and drive two trucks.")] = False,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Folder of the stack's data.")] = None,
    host: Annotated[str | None, typer.Option("--host", metavar="H", help="Address to listen on.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="N", help="Port to listen on; 0 takes a free one.")
    ] = None,
) -> None:
    """The whole stack as real processes. Ctrl-C stops everything."""
    from deploy.stack import StackScreen, run_stack  # each command imports what it runs: the others start faster

    given: dict[str, Any] = {"data": data, "host": host, "port": port}
    settings = get_settings().model_copy(update={name: value for name, value in given.items() if value is not None})
    configure_logging(settings, "up")
    raise SystemExit(run_stack(settings, demo=demo, screen=StackScreen(width=screen.width)))


@app.command()
def ingress(
    host: Annotated[str | None, typer.Option("--host", metavar="H")] = None,
    port: Annotated[int | None, typer.Option("--port", metavar="N")] = None,
) -> None:
    """One HTTP process: the API, the feed and health."""
    from ingress.process import run

    given: dict[str, Any] = {"host": host, "port": port}
    settings = get_settings().model_copy(update={name: value for name, value in given.items() if value is not None})
    configure_logging(settings, "ingress")
    _prepare_to_serve(settings, redis_needed=False)
    serve_metrics(settings, "ingress")
    raise SystemExit(run(settings))


@app.command()
def workers(
    queues: Annotated[str, typer.Option("--queues", metavar="A,B", help="Queues to work on.")] = ",".join(QUEUES),
    processes: Annotated[int, typer.Option("--processes", min=1, metavar="N", help="Processes.")] = 1,
    threads: Annotated[int | None, typer.Option("--threads", min=1, metavar="N", help="Threads of each.")] = None,
) -> None:
    """Workers of some queues, or of all."""
    chosen = [queue.strip() for queue in queues.split(",") if queue.strip()]
    unknown = sorted(set(chosen) - set(QUEUES))
    if unknown or not chosen:
        raise CommandFailed(f"no such queue: {', '.join(unknown) or '(none)'}; choose from {', '.join(QUEUES)}")
    settings = get_settings()
    if threads is not None:
        settings = settings.model_copy(update={"worker_threads": threads})
    if processes > 1:
        from deploy.stack import run_workers

        raise SystemExit(run_workers(settings, chosen, processes, screen=screen))
    process = f"workers-{'-'.join(chosen)}" if len(chosen) < len(QUEUES) else "workers"
    configure_logging(settings, process)
    from workers.process import run

    _prepare_to_serve(settings)
    serve_metrics(settings, process)
    raise SystemExit(run(settings, chosen))


@app.command()
def scheduler() -> None:
    """The five-minute pass, the sweep and housekeeping. Many may run; one leads."""
    from scheduler.process import run

    settings = get_settings()
    configure_logging(settings, "scheduler")
    _prepare_to_serve(settings, redis_needed=False)
    serve_metrics(settings, "scheduler")
    raise SystemExit(run(settings))


_GARBAGE_OBJECTS = 50_000
"""Objects made and not freed before a search for cycles. At Python's 700, a burst of pushes (each some hundred objects
that wait for their batch) was searched again and again: a tenth of the processor time, and twice the p99."""


def _prepare_to_serve(settings: Settings, *, redis_needed: bool = True) -> None:
    """What a process does before it runs for long. One that can do without Redis for a while starts without it, and
    says so."""
    database.check_server(settings.require_database_url())
    check_redis(settings.require_redis_url(), needed=redis_needed)
    gc.freeze()  # what is imported by now stays, and need not be searched
    gc.set_threshold(_GARBAGE_OBJECTS)


@app.command("migrate")
def migrate_schema(as_json: AsJson = False) -> None:
    """Brings the schema up to date. Safe to run twice and at the same time."""
    from domain.migrations import migrate  # Alembic is needed here only

    revision = migrate(get_settings().require_database_url())
    show(as_json, {"revision": revision}, lambda: screen.print(f"the schema is at revision {revision}"))


@app.command("settings")
def list_settings(as_json: AsJson = False) -> None:
    """Every setting: its variable, its value, what it does."""
    current = get_settings()
    rows = [
        {
            "variable": f"FUELROUTE_{name.upper()}",
            "value": without_secrets(str(getattr(current, name))) if getattr(current, name) is not None else None,
            "description": field.description,
        }
        for name, field in Settings.model_fields.items()
    ]
    show(as_json, rows, lambda: _print_table(rows, "variable", "value", "description"))


# --- Companies and keys ----------------------------------------------------------------------------------------

Name = Annotated[str | None, typer.Option("--name", metavar="N")]
TimeZone = Annotated[str | None, typer.Option("--time-zone", metavar="Z", help="Such as America/Chicago.")]
WindowDays = Annotated[float | None, typer.Option("--import-window-days", metavar="D", help="7 unless set.")]
Superseding = Annotated[bool | None, typer.Option("--superseding/--no-superseding", help="Off unless set.")]
Reserve = Annotated[float | None, typer.Option("--reserve-percent", metavar="P", help="15 unless set.")]
EndFuel = Annotated[float | None, typer.Option("--end-fuel-percent", metavar="P", help="25 unless set.")]
AssumedFuel = Annotated[float | None, typer.Option("--assumed-fuel-percent", metavar="P", help="50 unless set.")]
MinPurchase = Annotated[float | None, typer.Option("--min-purchase-gallons", metavar="G", help="30 unless set.")]
StopCost = Annotated[float | None, typer.Option("--stop-cost", metavar="C", help="Dollars; 20 unless set.")]
MaxDetour = Annotated[float | None, typer.Option("--max-detour-miles", metavar="M", help="5 each way unless set.")]
MaxStops = Annotated[int | None, typer.Option("--max-stops", metavar="K", help="No limit unless set.")]
ObjectiveOption = Annotated[
    Objective | None,
    typer.Option("--objective", help="What plans make least: prices at the pump (unless set), or less the fuel tax."),
]
LeftoverValue = Annotated[
    float | None,
    typer.Option("--leftover-value-per-gallon", metavar="V", help="Of fuel left beyond what is wanted; 0 unless set."),
]
MessageUrl = Annotated[
    str | None,
    typer.Option(
        "--message-url",
        metavar="APPRISE",
        help="For drivers without contact. - reads it from standard input, which no process list shows.",
    ),
]


@companies_app.command("create")
def companies_create(
    name: Annotated[str, typer.Option("--name", metavar="N")],
    time_zone: TimeZone = None,
    import_window_days: WindowDays = None,
    superseding: Superseding = None,
    reserve_percent: Reserve = None,
    end_fuel_percent: EndFuel = None,
    assumed_fuel_percent: AssumedFuel = None,
    min_purchase_gallons: MinPurchase = None,
    stop_cost: StopCost = None,
    max_detour_miles: MaxDetour = None,
    max_stops: MaxStops = None,
    objective: ObjectiveOption = None,
    leftover_value_per_gallon: LeftoverValue = None,
    message_url: MessageUrl = None,
    as_json: AsJson = False,
) -> None:
    """A new company."""
    policy = _policy(locals())
    with transaction() as connection:
        company_id = companies.create_company(connection, policy, contacts=Contacts.of(get_settings()))
    show(as_json, {"id": company_id, "name": name}, lambda: screen.print(f"company {company_id}"))


@companies_app.command("set")
def companies_set(
    company_id: Annotated[str, typer.Argument(metavar="ID")],
    name: Name = None,
    time_zone: TimeZone = None,
    import_window_days: WindowDays = None,
    superseding: Superseding = None,
    reserve_percent: Reserve = None,
    end_fuel_percent: EndFuel = None,
    assumed_fuel_percent: AssumedFuel = None,
    min_purchase_gallons: MinPurchase = None,
    stop_cost: StopCost = None,
    max_detour_miles: MaxDetour = None,
    max_stops: MaxStops = None,
    objective: ObjectiveOption = None,
    leftover_value_per_gallon: LeftoverValue = None,
    message_url: MessageUrl = None,
    as_json: AsJson = False,
) -> None:
    """Changes a company's policy; what is not given stays."""
    policy = _policy(locals())
    with transaction() as connection:
        row = companies.set_policy(connection, company_id, policy, contacts=Contacts.of(get_settings()))._asdict()
    row["message_url"] = messages.channel_of(row["message_url"]) + "://***" if row["message_url"] else None
    show(as_json, row, lambda: _print_fields(row))


def _policy(given: dict[str, Any]) -> Policy:
    if given["message_url"] == "-":
        given["message_url"] = _first_line_of(Path("-"))
    return Policy(**{name: given[name] for name in Policy.__struct_fields__ if name in given})


@keys_app.command("create")
def keys_create(
    company_id: CompanyId,
    name: Annotated[str, typer.Option("--name", metavar="N")],
    environment: Annotated[Environment, typer.Option("--environment")],
    scopes: Annotated[list[str], typer.Option("--scope", metavar="S", help="Once for each scope.")],
    expires_at: Annotated[str | None, typer.Option("--expires-at", metavar="T", help="RFC 3339 with offset.")] = None,
    as_json: AsJson = False,
) -> None:
    """A new key. This is the only time it is shown."""
    try:
        expiry = Instant.parse(expires_at) if expires_at is not None else None
    except ValueError as error:
        raise CommandFailed(f"--expires-at: {error}") from None
    with transaction() as connection:
        companies.require_company(connection, company_id)
        made = keys.create_key(
            connection, company_id, name=name, environment=environment, scopes=scopes, expires_at=expiry
        )
    document = {
        "id": made.id,
        "key": made.key,
        "prefix": made.prefix,
        "name": name,
        "environment": environment,
        "scopes": sorted(set(scopes)),
        "expires_at": expiry,
    }
    show(
        as_json,
        document,
        lambda: screen.print(f"key {made.id}\n{made.key}\nIt is shown only now: store it.", highlight=False),
    )


@keys_app.command("list")
def keys_list(company_id: CompanyId, as_json: AsJson = False) -> None:
    """A company's keys, without the keys themselves."""
    with transaction() as connection:
        companies.require_company(connection, company_id, even_retired=True)
        rows = [row._asdict() for row in keys.list_keys(connection, company_id)]
    show(
        as_json,
        rows,
        lambda: _print_table(rows, "id", "name", "prefix", "environment", "scopes", "revoked_at"),
    )


@keys_app.command("revoke")
def keys_revoke(key_id: Annotated[str, typer.Argument(metavar="ID")], as_json: AsJson = False) -> None:
    """Takes effect at once, on every process."""
    with transaction() as connection:
        if not keys.revoke_key(connection, key_id):
            raise CommandFailed(f"there is no key {key_id!r}: give the id that `fuelroute keys list` shows")
    show(as_json, {"id": key_id, "revoked": True}, lambda: screen.print(f"revoked {key_id}"))


@companies_app.command("retire")
def companies_retire(company_id: Annotated[str, typer.Argument(metavar="ID")], as_json: AsJson = False) -> None:
    """Refuses its keys at once, and ends what is not finished. Its history stays."""
    with transaction() as connection:
        companies.retire_company(connection, company_id, now=datetime.now(UTC))
    closed = 0
    while True:
        with transaction() as connection:
            portion = companies.close_routes(connection, company_id)
        closed += portion
        if portion == 0:
            break
    show(
        as_json,
        {"id": company_id, "retired": True, "ended_routes": closed},
        lambda: screen.print(f"retired {company_id}; {closed} routes were ended"),
    )


Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@companies_app.command("erase")
def companies_erase(
    company_id: Annotated[str, typer.Argument(metavar="ID")], yes: Yes = False, as_json: AsJson = False
) -> None:
    """Removes a company with everything that is its own, for good. Safe to give again."""
    with transaction() as connection:
        routes = erasure.count_routes(connection, company_id)
    _confirm(yes, f"{company_id} and {routes} routes are removed for good")
    with _counting("routes", routes, quiet=as_json) as progress:
        erasure.erase_company(transaction, company_id, now=datetime.now(UTC), progress=progress)
    show(as_json, {"id": company_id, "erased": True}, lambda: screen.print(f"erased {company_id}"))


def _confirm(yes: bool, what: str) -> None:
    if not yes and not (sys.stdin.isatty() and typer.confirm(f"{what}. Go on?", err=True)):
        raise CommandFailed(f"{what}: give --yes if that is meant")


# --- Fleet, mappings, messages ---------------------------------------------------------------------------------


@vehicles_app.command("import")
def vehicles_import(company_id: CompanyId, file: CsvFile, as_json: AsJson = False) -> None:
    """Upserts vehicles by unit number, else by VIN. An empty cell leaves a value as it is, a `-` clears it."""
    with transaction() as connection:
        companies.require_company(connection, company_id)
        report, jobs = fleet.import_vehicles(connection, company_id, file)
    enqueue(jobs)
    _finish_import(as_json, "vehicles", report)


@drivers_app.command("import")
def drivers_import(company_id: CompanyId, file: CsvFile, as_json: AsJson = False) -> None:
    """Upserts drivers by external id, else by name. An empty cell leaves a value as it is, a `-` clears it."""
    with transaction() as connection:
        companies.require_company(connection, company_id)
        report, jobs = fleet.import_drivers(connection, company_id, file, contacts=Contacts.of(get_settings()))
    enqueue(jobs)
    _finish_import(as_json, "drivers", report)


Force = Annotated[bool, typer.Option("--force", help="Even with planned or active routes, which end.")]


@vehicles_app.command("retire")
def vehicles_retire(
    company_id: CompanyId,
    vehicle_id: Annotated[str, typer.Argument(metavar="VEHICLE_ID")],
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """No route or position finds it any more. Its routes that have not started are matched again."""
    _retire(company_id, "vehicle", vehicle_id, force, as_json)


@drivers_app.command("retire")
def drivers_retire(
    company_id: CompanyId,
    driver_id: Annotated[str, typer.Argument(metavar="DRIVER_ID")],
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """No route finds the driver any more. The driver's routes that have not started are matched again."""
    _retire(company_id, "driver", driver_id, force, as_json)


def _retire(company_id: str, kind: Matched, record_id: str, force: bool, as_json: bool) -> None:
    with transaction() as connection:
        done, jobs = fleet.retire(connection, company_id, kind, record_id, force=force, now=datetime.now(UTC))
    enqueue(jobs)
    show(
        as_json,
        {"id": record_id, "retired": True, "matched_again_routes": done.matched_again, "ended_routes": done.ended},
        lambda: screen.print(
            f"retired {record_id}; {done.matched_again} routes are matched again, {done.ended} were ended"
        ),
    )


@drivers_app.command("erase")
def drivers_erase(
    company_id: CompanyId,
    driver_id: Annotated[str, typer.Argument(metavar="DRIVER_ID")],
    force: Force = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Removes all that tells who the driver is, for good; miles, gallons and cost stay. Safe to give again."""
    _confirm(yes, f"{driver_id} is removed for good, from every route too")
    routes = erasure.erase_driver(transaction, company_id, driver_id, force=force, now=datetime.now(UTC))
    show(
        as_json,
        {"id": driver_id, "erased": True, "routes": routes},
        lambda: screen.print(f"erased {driver_id}, from {routes} routes too"),
    )


MappingKindOption = StrEnum("MappingKindOption", {kind: kind for kind in imports.MAPPING_KINDS})  # type: ignore[misc]


@mappings_app.command("add")
def mappings_add(
    company_id: CompanyId,
    kind: Annotated[MappingKindOption, typer.Option("--kind")],
    value: Annotated[str, typer.Option("--value", metavar="V", help="As the TMS sends it.")],
    target_id: Annotated[str, typer.Option("--to", metavar="ID", help="The vehicle's or driver's id.")],
    as_json: AsJson = False,
) -> None:
    """From now on the value means that vehicle or driver; routes that wait for it are imported at once."""
    with transaction() as connection:
        companies.require_company(connection, company_id)
        waiting, jobs = fleet.add_mapping(
            connection, company_id, cast(imports.MappingKind, kind.value), value, target_id
        )
    enqueue(jobs)
    show(
        as_json,
        {"kind": kind, "value": value, "to": target_id, "waiting_routes": waiting},
        lambda: screen.print(f"{value!r} now means {target_id}; {waiting} held routes are imported"),
    )


@messages_app.command("list")
def messages_list(company_id: CompanyId, as_json: AsJson = False) -> None:
    """Every message to a driver: route, driver, status, channel, text, times."""
    with transaction() as connection:
        companies.require_company(connection, company_id, even_retired=True)
        rows = messages.list_messages(connection, company_id)
    documents = [row._asdict() for row in rows]

    def text() -> None:
        for row in documents:
            screen.rule(f"{row['status']} ({row['channel'] or 'not tried yet'})  {row['sent_at'] or row['created_at']}")
            screen.print(row["text"] or "(the text is not kept any more)")
        screen.print(f"{len(documents)} messages")

    show(as_json, documents, text)


# --- Stations, deals and taxes ----------------------------------------------------------------------------------------


@stations_app.command("import")
def stations_import(file: CsvFile, as_json: AsJson = False) -> None:
    """Upserts truck stops and their prices. Plans of trucks still at their first stop are looked at again."""
    now = datetime.now(UTC)
    with _progress("stations", file, quiet=as_json) as progress, transaction() as connection:
        report = stations.import_stations(connection, file, now=now, progress=progress)
        jobs = replanning.after_new_prices(connection, None, now=now)
    enqueue(jobs)
    _finish_import(as_json, "stations", report)


@deals_app.command("import")
def deals_import(company_id: CompanyId, file: CsvFile, as_json: AsJson = False) -> None:
    """Upserts negotiated prices, by station or brand, with the days they are valid on."""
    now = datetime.now(UTC)
    with transaction() as connection:
        companies.require_company(connection, company_id)
        report = stations.import_deals(connection, company_id, file, now=now)
        jobs = replanning.after_new_prices(connection, company_id, now=now)
    enqueue(jobs)
    _finish_import(as_json, "deals", report)


@taxes_app.command("import")
def taxes_import(file: CsvFile, as_json: AsJson = False) -> None:
    """Upserts the states' diesel taxes, for companies whose objective is tax-adjusted.

    The rate is what a purchase is credited; a surcharge, owed by miles alone, has a column of its own.
    """
    now = datetime.now(UTC)
    with transaction() as connection:
        report = stations.import_taxes(connection, file, now=now)
        jobs = replanning.after_new_prices(connection, None, now=now)
    enqueue(jobs)
    _finish_import(as_json, "taxes", report)


@stations_app.command("retire")
def stations_retire(
    station_ids: Annotated[list[str], typer.Argument(metavar="STATION_ID ...")], as_json: AsJson = False
) -> None:
    """No plan stops there any more, until an import names it again."""
    now = datetime.now(UTC)
    with transaction() as connection:
        stations.retire_stations(connection, station_ids, now=now)
        jobs = replanning.after_new_prices(connection, None, now=now)
    enqueue(jobs)
    show(
        as_json,
        {"ids": station_ids, "retired": True},
        lambda: screen.print(f"retired {printable(', '.join(station_ids))}"),
    )


@contextmanager
def _progress(what: str, file: Path, *, quiet: bool) -> Iterator[Callable[[int], object]]:
    if quiet:
        yield lambda _: None
        return
    try:
        with file.open("rb") as lines:
            total = max(sum(chunk.count(b"\n") for chunk in iter(lambda: lines.read(1 << 20), b"")) - 1, 0)
    except OSError:
        total = None  # the import itself says what is wrong with the file
    with _counting(what, total, quiet=False) as progress:
        yield progress


@contextmanager
def _counting(what: str, total: int | None, *, quiet: bool) -> Iterator[Callable[[int], object]]:
    if quiet:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


def _finish_import(as_json: bool, what: str, report: Report) -> None:
    def text() -> None:
        screen.print(f"{what}: {report.created} created, {report.updated} updated, {report.unchanged} unchanged")
        for line, message in sorted(report.rejected):
            errors.print(f"line {line}: {printable(message)}", highlight=False)
        if report.rejected:
            errors.print(f"{len(report.rejected)} rows were refused; the others are imported")

    show(as_json, report.as_json(), text)
    if report.rejected:
        raise typer.Exit(2)


# --- Routes ----------------------------------------------------------------------------------------------------


@roads_app.command("build")
def roads_build(
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Where to write it; the package's own unless given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The file of the embedded main roads, made anew from its sources. Needs the extra `roads`, and minutes."""
    from domain.roads.highways import FILE

    target = file or FILE
    try:
        from domain.roads.build import build

        graph = build(target)
    except ImportError as error:
        raise CommandFailed(f"{error}: install the extra `roads` first (pip install 'fuelroute[roads]')") from None
    document = {"file": str(target), "bytes": target.stat().st_size, "nodes": len(graph.nodes), "arcs": len(graph.head)}
    show(
        as_json,
        document,
        lambda: screen.print(
            f"{target}: {document['nodes']:,} nodes, {document['arcs']:,} arcs, {document['bytes']:,} bytes"
        ),
    )


@app.command()
def explain(route_id: Annotated[str, typer.Argument(metavar="ROUTE_ID")], as_json: AsJson = False) -> None:
    """Why this plan: its inputs, every candidate, the objective."""
    from deploy.explain import print_explanation
    from domain.planning.plans import read_explanation

    with transaction() as connection:
        explanation = read_explanation(connection, route_id) if is_id(route_id, "rte") else None
    if explanation is None:
        raise CommandFailed(
            f"the route {route_id!r} has no plan to explain: its truck has not arrived, there is no such route, or it"
            " ended more than FUELROUTE_EXPLANATION_RETENTION_DAYS ago"
        )
    show(as_json, explanation, lambda: print_explanation(explanation, screen))


@app.command()
def drive(
    route_id: Annotated[str, typer.Argument(metavar="ROUTE_ID")],
    speed: Annotated[float, typer.Option("--speed", min=5, max=100, metavar="MPH", help="Average speed.")] = 60,
    jump: Annotated[bool, typer.Option("--jump", help="On a live route: appear at each stop.")] = False,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY",
            envvar="FUELROUTE_DRIVE_KEY",
            help="A key with positions:write. Others on the machine see it in the process list: better set the "
            "variable, or use --key-file.",
        ),
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option("--key-file", metavar="FILE", help="Has the key on its first line; - is the input.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """A simulated truck: drives a route and posts its positions to the feed."""
    from deploy.drive import drive_route

    if key_file is not None:
        key = _first_line_of(key_file)
    result = drive_route(
        get_settings(), route_id, speed_mph=speed, jump=jump, key=key, screen=None if as_json else screen
    )
    show(
        as_json,
        result,
        lambda: screen.print(f"{result['fixes']} positions posted; the route is {result['status']}"),
    )


def _first_line_of(file: Path) -> str:
    """A secret, from a file or for `-` from standard input."""
    try:
        with sys.stdin if str(file) == "-" else file.open() as lines:
            line = lines.readline().strip()
    except OSError as error:
        raise CommandFailed(f"cannot read {file}: {error.strerror}") from None
    if not line:
        raise CommandFailed(f"the first line of {file} is empty: the secret belongs there")
    return line


@app.command()
def bench(
    works: Annotated[
        list[str] | None, typer.Argument(metavar="[WORK]...", help="Some of the works; all but the soak unless named.")
    ] = None,
    file: Annotated[Path, typer.Option("--json", metavar="FILE", help="Where the figures are written.")] = Path(
        "fuelroute-bench.json"
    ),
    rounds: Annotated[int, typer.Option("--rounds", min=1, metavar="N", help="Of each measurement.")] = 3,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, metavar="S", help="Of each measurement.")] = 3,
    routes: Annotated[
        int, typer.Option("--routes", min=1000, metavar="N", help="In the table of the reads.")
    ] = 1_000_000,
    minutes: Annotated[float, typer.Option("--minutes", min=0.1, metavar="M", help="Of the soak.")] = 30,
    ingress: Annotated[
        list[int] | None, typer.Option("--ingress", min=1, metavar="N", help="Ingress processes; 1 and 2 unless set.")
    ] = None,
) -> None:
    """Measures the service on a stack of its own, beside its reference, and shows figures and goals."""
    try:
        from tests.benchmarks.run import ALL, known_works, run_benchmarks
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("tests"):
            raise
        raise CommandFailed("the benchmarks are not installed with the package: run this from a checkout") from None
    chosen = works or [ALL]
    unknown = sorted(set(chosen) - set(known_works()))
    if unknown:
        raise CommandFailed(f"no such work: {', '.join(unknown)}; choose from {', '.join(known_works())}")
    configure_logging(get_settings().model_copy(update={"log_level": "warning"}), "bench")
    run_benchmarks(
        chosen,
        file,
        screen,
        rounds=rounds,
        seconds=seconds,
        routes=routes,
        minutes=minutes,
        ingress=ingress or [1, 2],
    )


# --- Printing --------------------------------------------------------------------------------------------------


def _print_table(rows: list[dict[str, Any]], *columns: str) -> None:
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column.replace("_", " "), no_wrap=number == 0, overflow="fold")  # nothing is cut off
    for row in rows:
        values = (row[column] for column in columns)
        texts = (", ".join(value) if isinstance(value, list) else str(value or "") for value in values)
        table.add_row(*map(printable, texts))
    screen.print(table)


def _print_fields(row: dict[str, Any]) -> None:
    for name, value in row.items():
        screen.print(f"{name.replace('_', ' '):24} {printable(str(value))}", highlight=False)
