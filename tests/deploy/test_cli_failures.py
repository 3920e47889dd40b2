"""Every failure of a command is one sentence, and status 1."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import osmium
import psycopg
import pytest
from pydantic import ValidationError

from deploy.cli import benchmarks, main
from deploy.cli.failures import run
from domain.database.connections import Database, unreachable
from domain.settings import Settings, mistyped_variables
from tests.conftest import make_database
from tests.deploy.commands import NO_COMPANY, Cli
from tests.domain.helpers import imported, route_row
from tests.domain.roads.made_extract import interstate_map
from tests.factories import Fleet
from tests.rows import named

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


@pytest.mark.parametrize(
    "arguments",
    [
        ("companies", "set", "COMPANY", "--stop-cost", "5"),
        ("keys", "list", "--company", "COMPANY"),
        ("keys", "create", "--company", "COMPANY", "--name", "x", "--environment", "live", "--scope", "routes:read"),
        ("vehicles", "import", "--company", "COMPANY", "FILE"),
        ("drivers", "import", "--company", "COMPANY", "FILE"),
        ("deals", "import", "--company", "COMPANY", "FILE"),
        ("messages", "list", "--company", "COMPANY"),
        ("mappings", "add", "--company", "COMPANY", "--kind", "vin", "--value", "x", "--to", "veh_1"),
    ],
)
@pytest.mark.parametrize("company", ["cmp_nobody", NO_COMPANY])
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_an_unknown_company_is_reported_in_one_sentence(
    cli: Cli, csv_file: Callable[..., str], arguments: tuple[str, ...], company: str, form: tuple[str, ...]
) -> None:
    given = {"FILE": csv_file("name,unit_number,station_id", "a,b,c"), "COMPANY": company}

    result = cli(*(given.get(argument, argument) for argument in arguments), *form)

    assert f"there is no company '{company}'" in result.sentence


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("companies", "set", "COMPANY", "--reserve-percent", "101"), "reserve_percent"),
        (("companies", "set", "COMPANY", "--time-zone", "Mars"), "Mars"),
        (("companies", "create", "--name", ""), "name"),
        (("keys", "revoke", "key_nothing"), "key_nothing"),
        (("keys", "revoke", "key_" + "0" * 32), "key_000"),
        (
            ("keys", "create", "--company", "COMPANY", "--name", "x", "--environment", "live", "--scope", "all"),
            "no such scope: 'all'",
        ),
        (
            (
                *("keys", "create", "--company", "COMPANY", "--name", "x", "--environment", "live"),
                *("--scope", "routes:read", "--expires-at", "tomorrow"),
            ),
            "--expires-at: Expected an RFC 3339 date-time",
        ),
        (
            (
                *("keys", "create", "--company", "COMPANY", "--name", "x", "--environment", "live"),
                *("--scope", "routes:read", "--expires-at", "2026-01-31T00:00:00Z"),
            ),
            "--expires-at: 2026-01-31T00:00:00Z is past",
        ),
        (("vehicles", "import", "--company", "COMPANY", "/nowhere.csv"), "cannot read /nowhere.csv"),
        (("stations", "import", "/nowhere.csv", "--json"), "cannot read /nowhere.csv"),
        (
            ("mappings", "add", "--company", "COMPANY", "--kind", "vin", "--value", "x", "--to", "veh_nothing"),
            "no vehicle with the id 'veh_nothing'",
        ),
        (
            ("mappings", "add", "--company", "COMPANY", "--kind", "vin", "--value", "x", "--to", "veh_" + "0" * 32),
            "no vehicle with the id 'veh_000",
        ),
        (
            ("mappings", "add", "--company", "COMPANY", "--kind", "unit_number", "--value", "", "--to", "veh_1"),
            "--value: give the value",
        ),
        (
            ("mappings", "add", "--company", "COMPANY", "--kind", "vin", "--value", "x" * 201, "--to", "veh_1"),
            "--value: give the value",
        ),
        (
            (
                *("keys", "create", "--company", "COMPANY", "--name", " ", "--environment", "live"),
                *("--scope", "routes:read"),
            ),
            "--name: give the key a name",
        ),
        (("explain", "rte_nothing"), "has no plan to explain"),
        (("explain", "rte_" + "0" * 32), "has no plan to explain"),
        (
            ("ifta", "report", "--company", "COMPANY", "--quarter", "2026Q5"),
            "there is no quarter '2026Q5'",
        ),
        (
            ("ifta", "report", "--company", "COMPANY", "--quarter", "2026Q4", "--csv", "/nowhere/ifta.csv"),
            "cannot write /nowhere/ifta.csv: No such file or directory",
        ),
        (
            ("savings", "report", "--company", "COMPANY", "--from", "2026-11-02", "--to", "2026-11-01"),
            "the span ends on 2026-11-01, before it begins on 2026-11-02",
        ),
        (
            ("savings", "report", "--company", "COMPANY", "--from", "0001-01-01", "--to", "9999-12-31"),
            "0001-01-01 is out of range",
        ),
        (
            ("savings", "report", "--company", "cmp_" + "0" * 32, "--from", "2026-11-01", "--to", "2026-11-01"),
            "there is no company",
        ),
        (
            (
                "savings",
                "report",
                "--company",
                "COMPANY",
                "--from",
                "2026-11-01",
                "--to",
                "2026-11-01",
                "--csv",
                "/no/x",
            ),
            "cannot write /no/x: No such file or directory",
        ),
        (("roads", "build-states", "/nowhere.tgz", "/nowhere.tgz"), "`npm pack us-atlas@3.0.1` fetches it"),
        (("workers", "--queues", "imports,dreams"), "no such queue: dreams"),
        (("workers", "--queues", ","), "no such queue"),
    ],
)
def test_a_failure_is_reported_in_one_sentence(cli: Cli, fleet: Fleet, arguments: tuple[str, ...], told: str) -> None:
    result = cli(*(fleet.shown_company_id if argument == "COMPANY" else argument for argument in arguments))

    assert told in result.sentence


@pytest.mark.parametrize(
    "url",
    [
        "slack://secret/x",
        "nonsense-secret",
        "json://u:secret@127.0.0.1/",
        "syslog://secret",
        "json://a.example.com?rto=secret",
        "json://a.example.com,json://secret.example.com",
    ],
)
def test_a_refused_message_url_is_reported_in_one_sentence_without_its_secrets(
    cli: Cli, fleet: Fleet, url: str
) -> None:
    result = cli("companies", "set", fleet.shown_company_id, "--message-url", url)

    assert "secret" not in result.err
    assert "message URL" in result.sentence


def test_an_operator_s_own_gateway_is_accepted_once_the_settings_name_it(
    cli: Cli, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = ("--message-url", "json://10.1.2.3/drivers")
    assert "FUELROUTE_MESSAGE_ALLOWED_HOSTS" in cli("companies", "set", fleet.shown_company_id, *url).sentence

    monkeypatch.setenv("FUELROUTE_MESSAGE_ALLOWED_HOSTS", "sms.internal, 10.1.0.0/16")

    assert cli("companies", "set", fleet.shown_company_id, *url).status == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("keys", "create", "--company", NO_COMPANY),
        ("keys", "create", "--company", NO_COMPANY, "--name", "x", "--environment", "test", "--scope", "routes:read"),
        ("mappings", "add", "--company", NO_COMPANY, "--kind", "license", "--value", "x", "--to", "y"),
        ("companies", "set", "x", "--max-stops", "few"),
        ("doctor", "--seconds", "inf"),
        ("dance",),
    ],
)
def test_invalid_arguments_are_a_usage_error(cli: Cli, arguments: tuple[str, ...]) -> None:
    result = cli(*arguments)

    assert (result.status, result.out) == (2, "")
    assert "Usage: " in result.err


def test_benchmarks_without_a_checkout_are_refused_in_one_sentence(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(benchmarks, "CHECKOUT", tmp_path)

    assert "run this from a checkout" in cli("bench", "plan", "--rounds", "1").sentence


def test_an_unreachable_database_is_reported_in_one_sentence(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUELROUTE_DATABASE_URL", "postgresql://postgres@127.0.0.1:9/nowhere")
    monkeypatch.setenv("FUELROUTE_DATABASE_TIMEOUT_SECONDS", "0.3")

    assert "check FUELROUTE_DATABASE_URL" in cli("keys", "list", "--company", NO_COMPANY).sentence


def test_a_malformed_address_is_reported_in_one_sentence(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUELROUTE_DATABASE_URL", "not an address")
    monkeypatch.setenv("FUELROUTE_DATABASE_TIMEOUT_SECONDS", "0.3")

    for command in (("keys", "list", "--company", NO_COMPANY), ("migrate",), ("ingress",)):
        assert cli(*command).sentence


def test_an_unreachable_redis_stops_workers_with_one_sentence(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("redis://127.0.0.1:9/0", "nonsense"):
        monkeypatch.setenv("FUELROUTE_REDIS_URL", address)
        assert "FUELROUTE_REDIS_URL" in cli("workers").err


def test_a_command_without_a_server_says_how_to_get_one(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FUELROUTE_DATABASE_URL")

    assert "start the stack with `fuelroute up`" in cli("keys", "list", "--company", NO_COMPANY).sentence


def test_the_servers_of_a_running_stack_are_found_in_its_folder(
    cli: Cli, fleet: Fleet, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("FUELROUTE_DATABASE_URL")
    monkeypatch.delenv("FUELROUTE_REDIS_URL")
    (tmp_path / "stack.json").write_text(json.dumps({"database_url": settings.database_url}))

    assert cli("keys", "list", "--company", fleet.shown_company_id, "--json").document == []


def test_a_database_without_the_schema_says_to_migrate_and_migrating_helps(
    cli: Cli, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = make_database("empty")
    monkeypatch.setenv("FUELROUTE_DATABASE_URL", url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE companies RENAME COLUMN time_zone TO of_a_later_release")
        assert "the schema of another release" in cli("companies", "list").sentence
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")

    assert "run `fuelroute migrate` first" in cli("keys", "list", "--company", NO_COMPANY).sentence
    assert cli("migrate").status == 0
    assert "there is no company" in cli("keys", "list", "--company", NO_COMPANY).sentence


@pytest.mark.parametrize("name", ["FUELROUTE_PORT", "FUELROUTE_SWEEP_SECONDS", "FUELROUTE_LOG_LEVEL"])
def test_an_invalid_setting_is_reported_by_name_in_one_sentence(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "lots")

    assert name in cli("keys", "list", "--company", NO_COMPANY).sentence


NUMBERS = [
    f"FUELROUTE_{name.upper()}" for name, field in Settings.model_fields.items() if field.annotation in (int, float)
]


@pytest.mark.parametrize("value", ["inf", "nan", "1e300", "-1"])
def test_no_number_is_too_great_to_be_counted(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """The scheduler ended at a `sweep_seconds` without end, and each arrival failed at `early_arrival_hours`."""
    assert len(NUMBERS) > 40
    for name in NUMBERS:
        with monkeypatch.context() as one:
            one.setenv(name, value)
            with pytest.raises(ValidationError):
                Settings()


@pytest.mark.parametrize(
    "value", ["gateway:8080", "https://gateway", "10.1.0.0/99", "*.internal", "sms.internal 10.1.2.3"]
)
def test_an_allowed_host_that_could_allow_nothing_is_refused(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    for kind in ("MESSAGE", "WEBHOOK", "CONNECTOR"):
        with monkeypatch.context() as one:
            one.setenv(f"FUELROUTE_{kind}_ALLOWED_HOSTS", value)
            sentence = cli("keys", "list", "--company", NO_COMPANY).sentence
        assert f"FUELROUTE_{kind}_ALLOWED_HOSTS: give hosts, without a scheme, a port or a path" in sentence


def test_a_name_that_looks_like_a_setting_is_told_with_the_one_that_is_meant() -> None:
    """A mistyped `FUELROUTE_ARCHIVE` was an archive that nobody had, and nobody missed."""
    others = ("API_KEY", "DRIVE_KEY", "WEBHOOK_SECRET", "IMAGE", "SERVICE_HOST", "PORT_80_TCP")
    right = ("ARCHIVE", "CONTACT_KEY_FILE")
    mistyped = {"ARCHVE": "ARCHIVE", "DATABASE_URI": "DATABASE_URL", "LOGLEVEL": "LOG_LEVEL"}
    given = [f"FUELROUTE_{name}" for name in (*others, *right, *mistyped)]

    assert mistyped_variables(["PATH", *given]) == {
        f"FUELROUTE_{name}": f"FUELROUTE_{meant}" for name, meant in mistyped.items()
    }


def test_a_process_logs_a_mistyped_setting(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUELROUTE_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/fuelroute")
    monkeypatch.setenv("FUELROUTE_SWEEP_SECOND", "5")

    lines = cli("scheduler").err.splitlines()
    (told,) = [json.loads(line) for line in lines if "settings.mistyped" in line]
    assert (told["variable"], told["meant"]) == ("FUELROUTE_SWEEP_SECOND", "FUELROUTE_SWEEP_SECONDS")


def test_text_that_is_not_unicode_is_reported_in_one_sentence(cli: Cli) -> None:
    assert cli("companies", "create", "--name", os.fsdecode(b"caf\xe9")).sentence


def test_nothing_is_stored_by_a_command_that_fails(cli: Cli, fleet: Fleet, database: Database, now: datetime) -> None:
    with database.transaction() as connection:
        route_id = imported(connection, fleet.live, now=now)
        before = route_row(connection, route_id)

    assert cli("companies", "set", fleet.shown_company_id, "--stop-cost", "5", "--reserve-percent", "500").status == 1

    with database.transaction() as connection:
        assert route_row(connection, route_id) == before
        (company,) = (
            named(connection).execute("SELECT stop_cost FROM companies WHERE id = %s", (fleet.company_id,)).fetchall()
        )
    assert company.stop_cost == 20


def test_the_embedded_roads_are_only_made_where_their_sources_are_installed(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "scgraph_data", None)
    file = tmp_path / "highways.npz"

    assert "run it in a checkout with the extra `roads`" in cli("roads", "build", "--file", str(file)).sentence
    assert not file.exists()


def test_the_roads_of_an_extract_are_made_of_whole_ones_alone(cli: Cli, tmp_path: Path) -> None:
    extract, file = tmp_path / "map.osm.pbf", str(tmp_path / "roads.npz")
    assert "name the file to write: --file" in cli("roads", "build", "--from", str(extract)).sentence
    assert "cannot read it" in cli("roads", "build", "--from", str(extract), "--file", file).sentence
    for target in (str(tmp_path), "/nowhere/roads.npz"):
        assert f"cannot write {target}: " in cli("roads", "build", "--from", str(extract), "--file", target).sentence
    extract.write_text("<html>404")
    assert "a page of text" in cli("roads", "build", "--from", str(extract), "--file", file).sentence
    extract.unlink()
    interstate_map().write(osmium.io.File(str(extract), "pbf,pbf_compression=none"))
    extract.write_bytes(extract.read_bytes().replace(b"NE 92", b"NE 9\xb2"))
    assert "it cannot be read ('utf-8'" in cli("roads", "build", "--from", str(extract), "--file", file).err
    assert "name the extract: --pbf" in cli("roads", "serve").sentence
    assert "no Valhalla is known" in cli("roads", "compare").sentence
    assert "--valhalla: " in cli("roads", "compare", "--valhalla", "127.0.0.1").sentence


def test_a_file_that_cannot_be_written_is_named(cli: Cli, tmp_path: Path) -> None:
    result = cli("push", "routes.csv", "--save-mapping", str(tmp_path))

    assert result.sentence == f"fuelroute: cannot use {tmp_path}: Is a directory"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_behind_the_output_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit, match="1"):
            run(lambda: print("a result"))

    assert capsys.readouterr().err == "fuelroute: cannot write the output: No space left on device\n"


def test_a_terminal_that_lacks_a_character_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with (tmp_path / "out").open("w", encoding="ascii") as ascii_only:
        monkeypatch.setattr(sys, "stdout", ascii_only)
        with pytest.raises(SystemExit, match="1"):
            run(lambda: print("Söhne"))

    assert capsys.readouterr().err == "fuelroute: the output has characters that ascii lacks: set PYTHONUTF8=1\n"


def test_a_reader_that_goes_away_ends_a_command_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "w") as broken:
        monkeypatch.setattr(sys, "stdout", broken)
        with pytest.raises(SystemExit, match="1"):
            run(lambda: print("a result"))

    assert capsys.readouterr().err == ""


def test_a_command_runs_without_standard_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    monkeypatch.setattr(sys, "argv", ["fuelroute", "--version"])

    main()

    with sys.stdin, sys.stdout, sys.stderr:
        assert sys.stdin.read() == ""


CTRL_C_WHILE_LOADING = """
import os, signal, sys
from deploy.cli import main
class Pressed:
    def find_spec(self, name, *_):
        if name == "deploy.cli.records":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Pressed())
signal.signal(signal.SIGINT, signal.default_int_handler)  # a run of tests in the background ignores it
main()
"""


def test_ctrl_c_while_a_command_loads_ends_it_without_a_word() -> None:
    done = subprocess.run([sys.executable, "-c", CTRL_C_WHILE_LOADING, "companies", "list"], capture_output=True)

    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_a_database_that_takes_no_changes_is_told_in_one_sentence(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    url = make_database("read_only")
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"ALTER DATABASE {owner.info.dbname} SET default_transaction_read_only = on")
    monkeypatch.setenv("FUELROUTE_DATABASE_URL", url)

    assert "name the server that takes changes" in cli("companies", "create", "--name", "Late Freight").sentence


@pytest.mark.parametrize(
    "refusal",
    [
        "FATAL:  sorry, too many clients already",
        "FATAL:  remaining connection slots are reserved for non-replication superuser connections",
        'FATAL:  too many connections for role "fuelroute"',
    ],
)
def test_a_server_without_a_free_connection_is_not_called_away(refusal: str) -> None:
    problem = str(unreachable(psycopg.OperationalError(refusal)))
    assert "max_connections" in problem
    assert "that the server runs" not in problem
