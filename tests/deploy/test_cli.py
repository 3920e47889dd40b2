"""The administrator's commands: each prints one JSON document or readable text."""

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from typer.main import get_command

from deploy.cli import app
from deploy.stack import process_spec
from domain.accounts.keys import PresentedKey, find_callers
from domain.database import Database
from domain.ids import read_id, shown_id
from domain.queue.job_queue import JobQueue
from domain.settings import Settings, get_settings
from domain.wording import counted
from tests.deploy.commands import NO_COMPANY, Cli
from tests.domain.helpers import deliver, driven_without_a_plan, imported, planned_by_hand
from tests.factories import Fleet
from tests.rows import named

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


def test_the_policy_is_also_readable_for_people(cli: Cli, fleet: Fleet) -> None:
    result = cli("companies", "set", fleet.shown_company_id, "--stop-cost", "12.5")

    assert result.status == 0
    assert ["stop", "cost", "12.5"] in [line.split() for line in result.out.splitlines()]
    assert cli("companies", "create", "--name", "Acme").out.startswith("company cmp_")


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_the_secrets_of_a_message_url_are_never_printed(cli: Cli, fleet: Fleet, form: tuple[str, ...]) -> None:
    result = cli(
        "companies", "set", fleet.shown_company_id, "--message-url", "json://user:secret@gateway.example/secret", *form
    )

    assert result.status == 0
    assert "json://***" in result.out
    assert "secret" not in result.out + result.err


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
def test_a_revoked_key_is_gone(cli: Cli, fleet: Fleet, database: Database, form: tuple[str, ...]) -> None:
    made = cli(
        *("keys", "create", "--company", fleet.shown_company_id, "--name", "TMS", "--environment", "live"),
        *("--scope", "routes:read", "--json"),
    ).document

    assert cli("keys", "revoke", made["id"], *form).status == 0

    with database.transaction() as connection:
        assert find_callers([PresentedKey.of(made["key"])]).on(connection) == [None]


# --- Imports and mappings --------------------------------------------------------------------------------------

IMPORTS = [
    ("vehicles", ["unit_number,vin,mpg", "201,1XKAD49X0CJ000201,6.5", "202,short,7"]),
    ("drivers", ["name,external_id", "Cy Oh,D-9", ",D-10"]),
    ("deals", ["station_id,brand,discount_per_gallon,net_price", "S1,,0.25,", "S2,,,"]),
]


@pytest.mark.parametrize(("what", "lines"), IMPORTS)
def test_an_import_with_refused_rows_keeps_the_others_and_exits_with_2(
    cli: Cli, fleet: Fleet, csv_file: Callable[..., str], what: str, lines: list[str]
) -> None:
    result = cli(what, "import", "--company", fleet.shown_company_id, csv_file(*lines), "--json")

    assert result.status == 2
    assert {name: result.document[name] for name in ("created", "updated", "unchanged")} == {
        "created": 1,
        "updated": 0,
        "unchanged": 0,
    }
    (rejected,) = result.document["rejected"]
    assert rejected["line"] == 3
    assert rejected["message"]


@pytest.mark.parametrize(("what", "lines"), IMPORTS)
def test_an_import_tells_people_what_it_did_and_which_lines_it_refused(
    cli: Cli, fleet: Fleet, csv_file: Callable[..., str], what: str, lines: list[str]
) -> None:
    refused = cli(what, "import", "--company", fleet.shown_company_id, csv_file(*lines))
    assert refused.status == 2
    assert refused.out == f"{what}: 1 created, 0 updated, 0 unchanged\n"
    assert "line 3: " in refused.err

    clean = cli(what, "import", "--company", fleet.shown_company_id, csv_file(*lines[:2]))
    assert (clean.status, clean.out) == (0, f"{what}: 0 created, 0 updated, 1 unchanged\n")


def test_a_refused_row_without_one_column_at_fault_names_none(
    cli: Cli, fleet: Fleet, csv_file: Callable[..., str]
) -> None:
    result = cli("vehicles", "import", "--company", fleet.shown_company_id, csv_file("unit_number,vin,mpg", ",,6.5"))

    assert result.err.splitlines() == [
        "line 2: unit_number or vin is needed",
        "1 row was refused; the others are imported",
    ]


@pytest.mark.parametrize(("count", "said"), [(0, "0 routes"), (1, "1 route"), (2, "2 routes")])
def test_one_thing_is_counted_in_the_singular(count: int, said: str) -> None:
    assert counted(count, "route") == said
    assert counted(count, "row was", "rows were").endswith("row was" if count == 1 else "rows were")


def test_taxes_are_imported_for_everybody(cli: Cli, csv_file: Callable[..., str]) -> None:
    lines = ["state,rate_per_gallon,valid_from", "ZZ,0.74,2026-01-01", "Illinois,0.74,2026-01-01"]

    result = cli("taxes", "import", csv_file(*lines), "--json")

    assert (result.status, [row["line"] for row in result.document["rejected"]]) == (2, [3])
    assert "2 rows" not in cli("taxes", "import", csv_file(*lines[:2])).err
    assert cli("taxes", "import", csv_file("state,rate_per_gallon")).status == 1


def test_the_objective_and_the_value_of_leftover_fuel_are_set(cli: Cli, fleet: Fleet) -> None:
    def set_(*options: str) -> Any:
        return cli("companies", "set", fleet.shown_company_id, *options, "--json")

    assert (set_().document["objective"], set_().document["leftover_value_per_gallon"]) == ("pump", 0)
    assert set_("--objective", "tax-adjusted").document["objective"] == "tax-adjusted"
    assert set_("--leftover-value-per-gallon", "2.5").document["leftover_value_per_gallon"] == 2.5
    assert set_("--objective", "cheapest").status == 2


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_stations_are_imported_for_everybody(cli: Cli, csv_file: Callable[..., str], form: tuple[str, ...]) -> None:
    path = csv_file("station_id,name,latitude,longitude,retail_price", "cli-1,A,-80,10,3.5", "cli-2,B,-800,10,3.5")

    result = cli("stations", "import", path, *form)

    assert result.status == 2
    if form:
        assert [row["line"] for row in result.document["rejected"]] == [3]
    else:
        assert result.out.startswith("stations: ")


def test_an_import_wakes_the_routes_that_waited(
    cli: Cli,
    fleet: Fleet,
    database: Database,
    jobs: JobQueue,
    csv_file: Callable[..., str],
    now: datetime,
) -> None:
    with database.transaction() as connection:
        imported(connection, fleet.live, now=now, vehicle={"unitNumber": "201"})

    assert cli("vehicles", "import", "--company", fleet.shown_company_id, csv_file("unit_number", "201")).status == 0

    assert jobs.backlog("imports") == 1


def test_an_import_succeeds_without_redis(
    cli: Cli,
    fleet: Fleet,
    database: Database,
    csv_file: Callable[..., str],
    now: datetime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with database.transaction() as connection:
        imported(connection, fleet.live, now=now, vehicle={"unitNumber": "201"})
    monkeypatch.setenv("FUELROUTE_REDIS_URL", "redis://127.0.0.1:9/0")

    result = cli("vehicles", "import", "--company", fleet.shown_company_id, csv_file("unit_number", "201"), "--json")

    assert (result.status, result.document["created"]) == (0, 1)


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_mapping_tells_how_many_routes_waited_for_it(
    cli: Cli, fleet: Fleet, database: Database, now: datetime, form: tuple[str, ...]
) -> None:
    with database.transaction() as connection:
        imported(connection, fleet.live, now=now, vehicle={"unitNumber": "theirs"})

    result = cli(
        *("mappings", "add", "--company", fleet.shown_company_id, "--kind", "unit_number", "--value", "theirs"),
        *("--to", fleet.shown_trucks[0], *form),
    )

    assert result.status == 0
    if form:
        assert result.document == {
            "kind": "unit_number",
            "value": "theirs",
            "to": fleet.shown_trucks[0],
            "waiting_routes": 1,
        }
    else:
        assert f"'theirs' now means {fleet.shown_trucks[0]}; 1 held route is imported" in result.out


def test_messages_are_listed_with_their_text(cli: Cli, fleet: Fleet, database: Database, now: datetime) -> None:
    with database.transaction() as connection:
        route_id = imported(connection, fleet.live, now=now)
        message_id = planned_by_hand(connection, route_id, now=now)
        deliver(connection, message_id, settings=get_settings(), now=now)

    (listed,) = cli("messages", "list", "--company", fleet.shown_company_id, "--json").document
    assert {name: listed[name] for name in ("id", "route_id", "driver_id", "status", "channel", "environment")} == {
        "id": shown_id("msg", message_id),
        "route_id": shown_id("rte", route_id),
        "driver_id": fleet.shown_drivers[0],
        "status": "sent",
        "channel": "outbox",
        "environment": "live",
    }
    assert "Lakeside Travel Plaza" in listed["text"]
    assert listed["sent_at"].endswith("Z")

    text = cli("messages", "list", "--company", fleet.shown_company_id).out
    assert "Lakeside Travel Plaza" in text
    assert text.splitlines()[-1] == "1 message"


# --- Retiring and erasing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize("kind", ["vehicles", "drivers"])
def test_a_vehicle_or_driver_is_retired(
    cli: Cli, fleet: Fleet, database: Database, now: datetime, jobs: JobQueue, kind: str, form: tuple[str, ...]
) -> None:
    with database.transaction() as connection:
        imported(connection, fleet.live, now=now)
    record = {"vehicles": fleet.shown_trucks, "drivers": fleet.shown_drivers}[kind][0]

    result = cli(kind, "retire", "--company", fleet.shown_company_id, record, *form)

    if form:
        assert result.document == {"id": record, "retired": True, "matched_again_routes": 1, "ended_routes": 0}
    else:
        assert f"retired {record}; 1 route is matched again, 0 were ended" in result.out
    assert jobs.backlog("imports") == 1
    for unknown in ("nobody", record[:4] + "0" * 32):
        sentence = cli(kind, "retire", "--company", fleet.shown_company_id, unknown, *form).sentence
        assert f"the company has no {kind[:-1]} with the id '{unknown}'" in sentence


def test_a_driver_on_the_road_is_kept_without_force(cli: Cli, fleet: Fleet, database: Database, now: datetime) -> None:
    with database.transaction() as connection:
        route_id = imported(connection, fleet.live, now=now)
        connection.execute("UPDATE routes SET status = 'active' WHERE id = %s", (route_id,))

    for command in (("retire",), ("erase", "--yes")):
        given = ("drivers", *command, "--company", fleet.shown_company_id, fleet.shown_drivers[0])
        assert (
            f"({shown_id('rte', route_id)}): wait until they are finished, or end them with --force"
            in cli(*given).sentence
        )
    assert cli(*given, "--force").status == 0


def test_a_station_is_retired(cli: Cli, csv_file: Callable[..., str]) -> None:
    station = f"S-{uuid4().hex}"
    header = "station_id,name,latitude,longitude"
    cli("stations", "import", csv_file(header, f"{station},A,41.6,-87.3", f"{station}-2,B,41.6,-87.3"))

    result = cli("stations", "retire", station, f"{station}-2", "--json")
    assert result.document == {"ids": [station, f"{station}-2"], "retired": True}
    assert "there is no station 'nowhere'" in cli("stations", "retire", "nowhere").sentence


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_retired_company_refuses_its_keys_and_ends_its_routes(
    cli: Cli, fleet: Fleet, database: Database, now: datetime, form: tuple[str, ...]
) -> None:
    key = ("keys", "create", "--company", fleet.shown_company_id, "--name", "k", "--environment", "live")
    secret = cli(*key, "--scope", "routes:read", "--json").document["key"]
    with database.transaction() as connection:
        imported(connection, fleet.live, now=now)

    result = cli("companies", "retire", fleet.shown_company_id, *form)

    if form:
        assert result.document == {"id": fleet.shown_company_id, "retired": True, "ended_routes": 1}
    else:
        assert f"retired {fleet.shown_company_id}; 1 route was ended" in result.out
    with database.transaction() as connection:
        assert find_callers([PresentedKey.of(secret)]).on(connection) == [None]
    assert "is retired" in cli(*key, "--scope", "routes:read").sentence
    assert len(cli("keys", "list", "--company", fleet.shown_company_id, "--json").document) == 1
    for unknown in ("cmp_x", NO_COMPANY):
        assert f"there is no company '{unknown}'" in cli("companies", "retire", unknown).sentence


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_nothing_is_erased_without_a_yes(cli: Cli, fleet: Fleet, database: Database, form: tuple[str, ...]) -> None:
    driver = ("drivers", "erase", "--company", fleet.shown_company_id, fleet.shown_drivers[0], *form)
    company = ("companies", "erase", fleet.shown_company_id, *form)

    assert "give --yes" in cli(*driver).sentence
    assert "give --yes" in cli(*company).sentence
    erased = cli(*driver, "--yes")
    assert erased.document["erased"] if form else f"erased {fleet.shown_drivers[0]}" in erased.out
    for _ in range(2):  # again is fine
        erased = cli(*company, "--yes")
        assert erased.document["erased"] if form else f"erased {fleet.shown_company_id}" in erased.out
    for unknown in ("cmp_x", NO_COMPANY):
        assert "there is no company" in cli("companies", "erase", unknown, "--yes").sentence
    with database.transaction() as connection:
        assert named(connection).execute("SELECT FROM drivers WHERE company_id = %s", (fleet.company_id,)).rowcount == 0


def test_a_contact_key_seals_what_commands_store_and_is_never_printed(
    cli: Cli, fleet: Fleet, database: Database, csv_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "dGhlIHNlY3JldCBvZiBhbGwgdGhlIGNvbnRhY3RzISE="
    monkeypatch.setenv("FUELROUTE_CONTACT_KEY", key)
    url = "mailto://a:hidden@example.org"

    shown = cli("companies", "set", fleet.shown_company_id, "--message-url", url, "--json").document
    cli("drivers", "import", "--company", fleet.shown_company_id, csv_file("name,contact", f"Ann Lee,{url}"))

    assert shown["message_url"] == "mailto://***"
    with database.transaction() as connection:
        stored = (
            named(connection)
            .execute(
                "SELECT contact FROM drivers WHERE id = %s UNION ALL SELECT message_url FROM companies WHERE id = %s",
                (fleet.drivers[0], fleet.company_id),
            )
            .fetchall()
        )
    assert all(row.contact.startswith("sealed:") for row in stored)
    assert key not in cli("settings").out
    monkeypatch.setenv("FUELROUTE_CONTACT_KEY", "hidden")
    assert "hidden" not in cli("settings").sentence


# --- Fuel tax --------------------------------------------------------------------------------------------------


def test_the_miles_of_a_quarter_are_reported_by_state(
    cli: Cli, fleet: Fleet, database: Database, tmp_path: Path
) -> None:
    with database.transaction() as connection:
        driven_without_a_plan(connection, fleet, datetime(2026, 11, 20, 12, tzinfo=UTC))
    file = tmp_path / "ifta.csv"
    arguments = ("ifta", "report", "--company", fleet.shown_company_id, "--quarter", "2026Q4")

    shown, document = cli(*arguments, "--csv", str(file)), cli(*arguments, "--json").document

    assert shown.status == 0
    assert "planned, not bought" in shown.out
    assert "1 leg of 1 route in 2026Q4 (2026-10-01 to 2026-12-31, UTC)" in shown.out
    assert "1 leg without a plan" in shown.out
    assert f"wrote {file}" in shown.out.replace("\n", "")
    assert document["company_id"] == fleet.shown_company_id
    assert (document["basis"].partition(":")[0], document["legs_without_plan"]) == ("planned, not bought", 1)
    assert {line["state"] for line in document["states"]} == {"IL", "IN", "OH", "PA", "NJ"}
    assert document["totals"]["miles"] == pytest.approx(sum(line["miles"] for line in document["states"]))
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["state"] for row in rows] == [line["state"] for line in document["states"]]
    assert [float(row["miles"]) for row in rows] == [line["miles"] for line in document["states"]]
    assert {row["quarter"] for row in rows} == {"2026Q4"}
    for row in rows:
        assert row["state"] in shown.out


def test_the_report_of_a_quarter_without_a_drive_says_so(cli: Cli, fleet: Fleet) -> None:
    arguments = ("ifta", "report", "--company", fleet.shown_company_id, "--quarter", "2025Q1")

    assert cli(*arguments).out == "no leg was driven in 2025Q1\n"
    assert cli(*arguments, "--json").document["states"] == []
    ahead = cli("ifta", "report", "--company", fleet.shown_company_id, "--quarter", "2099Q4").out
    assert ahead == "no leg was driven in 2099Q4 so far: the quarter is not over\n"


# --- Savings ---------------------------------------------------------------------------------------------------


def send_live(database: Database, fleet: Fleet, settings: Settings, load: str, saved: float) -> None:
    """An active live route of truck 101, with a plan of November 20 that its driver has."""
    planned_at = datetime(2026, 11, 20, 12, tzinfo=UTC)
    with database.transaction() as connection:
        route_id = imported(connection, fleet.live, now=planned_at, externalId=load)
        message_id = planned_by_hand(connection, route_id, now=planned_at, savingsTotal=saved)
        deliver(connection, message_id, settings=settings, now=planned_at)


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads
def test_the_savings_of_plans_are_reported(
    cli: Cli, fleet: Fleet, database: Database, settings: Settings, tmp_path: Path
) -> None:
    send_live(database, fleet, settings, "=LOAD1", 31.5)
    send_live(database, fleet, settings, "=LOAD2", 10.07)
    file = tmp_path / "savings.csv"
    arguments = ("savings", "report", "--company", fleet.shown_company_id, "--from", "2026-11-01", "--to", "2026-11-30")

    for by in ("week", "truck", "driver", "lane", "plan"):
        shown, document = (
            cli(*arguments, "--by", by, "--csv", str(file)),
            cli(*arguments, "--by", by, "--json").document,
        )
        assert shown.status == 0
        assert "planned, not bought" in shown.out
        assert "2 plans from 2026-11-01 to 2026-11-30 (UTC)" in shown.out
        assert "41.57" in shown.out
        assert document["totals"]["saved"] == 41.57
        assert sum(line["saved"] for line in document["lines"]) == pytest.approx(41.57)
        with file.open(newline="") as lines:
            rows = list(csv.DictReader(lines))
        assert [float(row["saved"]) for row in rows] == [line["saved"] for line in document["lines"]]
    assert {row["external_id"] for row in rows} == {"'=LOAD1", "'=LOAD2"}
    assert cli(*arguments, "--environment", "sandbox").out == "no plan counts from 2026-11-01 to 2026-11-30\n"


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
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)

    listed = run("keys", "list", "--company", fleet.shown_company_id, "--json")
    assert (listed.returncode, json.loads(listed.stdout)) == (0, [])
    failed = run("keys", "list", "--company", NO_COMPANY, "--json")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == f"fuelroute: there is no company '{NO_COMPANY}'\n"


def test_a_process_of_the_stack_takes_no_code_from_the_folder_it_is_started_in(tmp_path: Path) -> None:
    for package in ("deploy", "domain", "ingress"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('the code of another project')\n")
    command = process_spec("ingress", ["ingress", "--help"], tmp_path, {}, "http://127.0.0.1:1").argv
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def commands(command: Any, name: str = "fuelroute") -> Iterator[tuple[str, Any]]:
    """The command and all that are under it, with their names."""
    yield name, command
    for one, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{name} {one}")


def test_every_command_and_option_explains_itself_to_its_users() -> None:
    for name, command in commands(get_command(app)):
        assert command.help, name
        assert not re.search("upsert|docstring|module|`domain`", command.help), name
        for parameter in command.params:
            assert getattr(parameter, "help", None), f"{name} {parameter.name}"


def test_the_help_of_an_import_names_its_columns(cli: Cli) -> None:
    told = " ".join(cli("deals", "import", "--help").out.split())

    assert "Optional columns: station_id, brand, discount_per_gallon, net_price, valid_from, valid_to." in told
    assert "Required columns: name." in " ".join(cli("drivers", "import", "--help").out.split())
