"""The administrator's commands for companies and keys, and those of the system: each prints JSON or readable text."""

import json
import os
import re
import subprocess
import sys
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path

import pytest
from typer import Typer
from typer.core import TyperGroup

import deploy.cli
from deploy.cli.commands import COMMANDS, GROUPS
from deploy.stack import process_spec
from domain.accounts.keys import PresentedKey, find_callers
from domain.database.connections import Database
from domain.ids import read_id
from domain.settings import Settings
from tests.deploy.commands import NO_COMPANY, Cli, commands, libraries_of
from tests.domain.messages.loads import message, refused_message
from tests.factories import Fleet

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


# --- Companies and keys ----------------------------------------------------------------------------------------


def test_a_company_is_created_and_its_policy_set(cli: Cli) -> None:
    company = cli("companies", "create", "--name", "Acme", "--time-zone", "America/Chicago", "--json").document
    assert read_id("cmp", company["id"])
    assert company["name"] == "Acme"

    changed = cli(
        *("companies", "set", company["id"], "--superseding", "--import-window-days", "3", "--reserve-percent", "20"),
        *("--end-fuel-percent", "30", "--assumed-fuel-percent", "60", "--min-purchase-gallons", "50"),
        *("--stop-cost", "15", "--max-detour-miles", "2", "--max-stops", "4", "--json"),
    ).document

    assert changed["superseding"] is True
    assert (changed["import_window_days"], changed["max_stops"], changed["time_zone"]) == (3, 4, "America/Chicago")
    assert cli("companies", "set", company["id"], "--no-superseding", "--json").document["superseding"] is False


def test_a_sandbox_is_told_to_drive_itself(cli: Cli) -> None:
    company = cli("companies", "create", "--name", "Acme", "--sandbox-autodrive", "60", "--json").document["id"]
    show = ("companies", "show", company, "--json")
    assert cli(*show).document["sandbox_autodrive"] == "60x"

    refused = cli("companies", "set", company, "--sandbox-autodrive", "4000x")

    assert "off, or from 1x to 3600x such as 60x, not '4000x'" in refused.sentence
    assert cli("companies", "set", company, "--sandbox-autodrive", "off", "--json").status == 0
    assert cli(*show).document["sandbox_autodrive"] == "off"


def test_the_limit_of_fuel_stops_is_set_and_removed(cli: Cli, fleet: Fleet) -> None:
    change = ("companies", "set", fleet.shown_company_id, "--json")
    assert cli(*change, "--max-stops", "2").document["max_stops"] == 2
    assert cli(*change, "--stop-cost", "12.5").document["max_stops"] == 2
    assert cli(*change, "--no-max-stops").document["max_stops"] is None
    both = cli(*change, "--max-stops", "3", "--no-max-stops")
    assert (both.status, both.err) == (1, "fuelroute: give either --max-stops or --no-max-stops\n")


def test_the_policy_is_printed_as_text_without_json(cli: Cli, fleet: Fleet) -> None:
    result = cli("companies", "set", fleet.shown_company_id, "--stop-cost", "12.5")

    assert result.status == 0
    fields = [line.split() for line in result.out.splitlines()]
    assert {("stop", "cost", "12.5"), ("superseding", "no"), ("message", "url")} <= set(map(tuple, fields))
    assert not re.search("None|True|False", result.out)
    made = cli("companies", "create", "--name", "Acme").out
    assert made.startswith("company cmp_")
    assert "UTC until" in made
    assert "UTC until" not in cli("companies", "create", "--name", "Acme", "--time-zone", "America/Denver").out


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_the_secrets_of_a_message_url_are_never_printed(cli: Cli, fleet: Fleet, form: tuple[str, ...]) -> None:
    result = cli(
        "companies", "set", fleet.shown_company_id, "--message-url", "json://user:secret@gateway.example/secret", *form
    )

    assert result.status == 0
    assert "json://***" in result.out
    assert "secret" not in result.out + result.err


def test_refused_messages_go_out_once_the_message_url_is_changed(
    cli: Cli, fleet: Fleet, database: Database, now: datetime
) -> None:
    later = now + timedelta(hours=1)
    with database.transaction() as connection:
        message_id = refused_message(connection, fleet, retry_at=later)
    for option, value, waits in (("--stop-cost", "25", True), ("--message-url", "json://hooks.example.com", False)):
        assert cli("companies", "set", fleet.shown_company_id, option, value).status == 0
        with database.transaction() as connection:
            assert (message(connection, message_id).retry_at == later) is waits


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_key_is_shown_once_and_works(cli: Cli, fleet: Fleet, database: Database, form: tuple[str, ...]) -> None:
    result = cli(
        *("keys", "create", "--company", fleet.shown_company_id, "--name", "TMS", "--environment", "sandbox"),
        *("--scope", "routes:write", "--scope", "routes:read", "--expires-at", "2999-01-01T00:00:00Z", *form),
    )

    key = result.document["key"] if form else next(line for line in result.out.splitlines() if line.startswith("svc_"))
    with database.transaction() as connection:
        (caller,) = find_callers([PresentedKey.of(key)]).on(connection)
    assert caller is not None
    assert caller.tenant == fleet.sandbox
    assert sorted(caller.scopes) == ["routes:read", "routes:write"]
    listed = cli("keys", "list", "--company", fleet.shown_company_id, *form).out
    assert "TMS" in listed
    assert key[:17] in listed
    assert key not in listed


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_revoked_key_is_refused(cli: Cli, fleet: Fleet, database: Database, form: tuple[str, ...]) -> None:
    made = cli(
        *("keys", "create", "--company", fleet.shown_company_id, "--name", "TMS", "--environment", "live"),
        *("--scope", "routes:read", "--json"),
    ).document

    assert cli("keys", "revoke", made["id"], *form).status == 0

    with database.transaction() as connection:
        assert find_callers([PresentedKey.of(made["key"])]).on(connection) == [None]


# --- The system ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_migrating_a_second_time_changes_nothing(cli: Cli, form: tuple[str, ...]) -> None:
    first, second = cli("migrate", *form), cli("migrate", *form)

    assert first.status == 0
    assert (second.status, second.out) == (0, first.out)
    if form:
        assert first.document["revision"]


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_settings_are_listed_without_passwords(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]
) -> None:
    monkeypatch.setenv("FUELROUTE_DATABASE_URL", "postgresql://fuel:secret@db.example/fuelroute")
    monkeypatch.setenv("FUELROUTE_REDIS_URL", "redis://:secret@cache.example/0")

    result = cli("settings", *form)

    assert "secret" not in result.out
    if form:
        rows = {row["variable"]: row for row in result.document}
        assert rows["FUELROUTE_DATABASE_URL"]["value"] == "postgresql://fuel:***@db.example/fuelroute"
        assert rows["FUELROUTE_SWEEP_SECONDS"]["value"] == "10.0"
        assert all(row["description"] for row in rows.values())
    else:
        assert "FUELROUTE_IMPORT_PASS_SECONDS" in result.out


def test_the_program_runs_as_a_process_of_its_own(settings: Settings, fleet: Fleet, tmp_path: Path) -> None:
    environment = {**os.environ, "FUELROUTE_DATABASE_URL": settings.require_database_url()}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from deploy.cli import main; main()", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900, check=False)

    listed = run("keys", "list", "--company", fleet.shown_company_id, "--json")
    assert (listed.returncode, json.loads(listed.stdout)) == (0, [])
    failed = run("keys", "list", "--company", NO_COMPANY, "--json")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == f"fuelroute: there is no company '{NO_COMPANY}': see `fuelroute companies list`\n"


@pytest.mark.slow
def test_a_process_of_the_stack_takes_no_code_from_the_folder_it_is_started_in(tmp_path: Path) -> None:
    for package in ("deploy", "domain", "ingress"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('the code of another project')\n")
    command = process_spec("ingress", ["ingress", "--help"], tmp_path, {}, "http://127.0.0.1:1").argv
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_of_every_module_is_reached() -> None:
    """The table of commands is written by hand. A command that it lacks could not be run."""
    modules = [import_module(f"deploy.cli.{path.stem}") for path in Path(deploy.cli.__file__).parent.glob("[a-z]*.py")]
    apps = {id(one): one for module in modules for one in vars(module).values() if isinstance(one, Typer)}
    reached = [name for name, command in commands() if not isinstance(command, TyperGroup)]
    assert len(reached) == sum(len(one.registered_commands) for one in apps.values()) > 40


@pytest.mark.slow
def test_a_process_of_the_service_loads_no_other_commands() -> None:
    """Each process would start a second later."""
    program = "import sys, deploy.cli, deploy.cli.running; print(*{'alembic', 'numpy', 'sqlalchemy'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.split() == []


def loaded(modules: str, *libraries: str) -> list[str]:
    """The libraries among these that the modules of commands load before any command runs."""
    program = f"import sys; from deploy.cli import {modules}; print(*{{*{libraries}}} & {{*sys.modules}})"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.slow
def test_everyday_commands_load_neither_numerics_nor_gateways_nor_what_the_service_measures_and_logs_with() -> None:
    """Each of them starts in 0.3 s of processor time; each of these libraries takes 0.05 to 0.2 s more."""
    modules = "companies, fleet, stations, keys, users, savings, queues, backups, routes, messages, webhooks, notices"
    heavy = ("apprise", "dramatiq", "numpy", "prometheus_client", "shapely", "sqlalchemy", "structlog")
    assert loaded(f"{modules}, driving, previews, settings", *heavy) == []


@pytest.mark.slow
def test_a_command_loads_what_reads_files_and_finds_roads_only_where_it_does_so() -> None:
    """Each of these is a tenth of the start of a command."""
    roads = ("domain.planning.plan_tasks", "domain.roads.highways", "domain.driven_lanes.lanes")
    assert loaded("commands, failures, companies, queues", "domain.files.csvfiles", "numpy") == []
    assert loaded("ifta, queues", *roads, "psycopg") == []
    assert loaded("fills, prices, connectors, backups", *roads, "numpy", "shapely", "rapidfuzz", "httpx", "redis") == []
    program = (
        "import sys, deploy.cli.driving, deploy.explain, domain.routes.reading.explanations;"
        "print(*{'numpy', 'shapely'} & {*sys.modules})"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.split() == []


@pytest.mark.slow
def test_commands_that_only_read_the_database_load_nothing_of_redis() -> None:
    assert loaded("companies, keys, users, stations, fleet, routes, messages, notices, settings", "redis") == []


def test_the_version_and_the_list_of_commands_load_none_of_them() -> None:
    """The list took 3 seconds of processor time while it loaded each command."""
    commands = {f"deploy.cli.{path.stem}" for path in Path(deploy.cli.__file__).parent.glob("[a-z]*.py")}
    commands -= {f"deploy.cli.{name}" for name in ("commands", "failures", "garbage", "output", "version")}
    assert libraries_of("--help") & (commands | {"pydantic", "psycopg", "asyncio"}) == set()
    assert libraries_of("--version") & (commands | {"typer", "rich", "msgspec", "pydantic"}) == set()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["explain", "check", "drive", "queues dead", "ifta report"])
def test_the_help_of_a_command_loads_neither_the_settings_nor_a_server_s_library(command: str) -> None:
    """They are two thirds of its start."""
    loaded = libraries_of(*command.split(), "--help")
    assert loaded & {"psycopg", "asyncio", "pydantic", "redis", "sqlalchemy", "numpy"} == set()


def test_the_list_of_commands_says_of_each_what_its_own_help_says_first() -> None:
    own = dict(commands())
    for name, entry in {**COMMANDS, **GROUPS}.items():
        first, _, _ = own[f"fuelroute {name}"].help.partition("\n\n")
        assert entry.help == " ".join(first.split())


@pytest.mark.slow
def test_a_command_that_prints_json_loads_nothing_of_rich() -> None:
    assert "rich" not in libraries_of("settings", "--json")


@pytest.mark.slow
def test_the_check_of_the_embedded_servers_addresses_loads_nothing_of_redis() -> None:
    """Every command checks all settings; redis-py and what it measures itself by are a quarter of its start."""
    program = (
        "import sys; from domain.settings import Settings; Settings();"
        "print(*{'redis', 'opentelemetry'} & {*sys.modules})"
    )
    addresses = {"FUELROUTE_REDIS_URL": "unix:///run/redis.sock?db=0", "FUELROUTE_DATABASE_URL": "postgresql://x"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | addresses)
    assert (done.stdout.split(), done.returncode) == ([], 0)


@pytest.mark.slow
def test_the_first_line_of_a_command_s_log_is_written_like_those_of_the_service() -> None:
    program = (
        "from domain.telemetry.logs import configure_logging_of_a_command, get_logger\n"
        "from domain.settings import Settings\n"
        "import logging, sys\n"
        "log = get_logger('tests')\n"
        "configure_logging_of_a_command(Settings())\n"
        "assert 'structlog' not in sys.modules\n"
        "{line}\n"
        "log.info('second', count=2)\n"
    )
    for line in ("log.info('first', count=1)", "logging.getLogger('library').warning('first')"):
        done = subprocess.run([sys.executable, "-c", program.format(line=line)], capture_output=True, text=True)
        first, second = (json.loads(one) for one in done.stderr.splitlines())
        assert (first["event"], first["process"]) == ("first", "command")
        assert (second["event"], second["count"]) == ("second", 2)


@pytest.mark.slow
def test_a_logger_that_was_used_before_the_command_writes_to_standard_error_from_then_on() -> None:
    program = (
        "from domain.telemetry.logs import configure_logging_of_a_command, get_logger\n"
        "from domain.settings import Settings\n"
        "log = get_logger('tests')\n"
        "log.debug\n"
        "configure_logging_of_a_command(Settings())\n"
        "log.warning('during')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, json.loads(done.stderr)["event"]) == ("", "during")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("fuelroute comp", ["companies", "compliance"]),
        ("fuelroute companies sh", ["show"]),
        ("fuelroute companies set --reserve", ["--reserve-percent"]),
    ],
)
def test_a_shell_completes_commands_and_options(words: str, completed: list[str]) -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "fuelroute"],
        env={"_FUELROUTE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == completed


def test_every_command_and_option_has_a_help_text() -> None:
    for name, command in commands():
        assert command.help, name
        assert not re.search("upsert|docstring|module|`domain`", command.help), name
        for parameter in command.params:
            assert getattr(parameter, "help", None), f"{name} {parameter.name}"


def test_every_port_is_within_the_bounds_of_ports() -> None:
    ports = {
        f"{name} {parameter.opts[0]}": (getattr(parameter, "min", None), getattr(parameter, "max", None))
        for name, command in commands()
        for parameter in command.params
        if str(parameter.name).endswith("port")
    }
    assert set(ports.values()) == {(0, 65535), (1, 65535)}, ports


def test_the_help_of_an_import_names_its_columns(cli: Cli) -> None:
    told = " ".join(cli("deals", "import", "--help").out.split())

    assert "Optional columns: station_id, brand, discount_per_gallon, net_price, valid_from, valid_to." in told
    assert "Required columns: name." in " ".join(cli("drivers", "import", "--help").out.split())
