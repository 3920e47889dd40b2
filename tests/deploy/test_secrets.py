"""Passwords and keys appear in no output: neither of a mistyped address, nor in a log, nor in a process list."""

import io
import logging
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from domain.database.connections import Database
from domain.settings import Settings
from domain.telemetry.logs import configure_logging, get_logger
from domain.text import without_secrets
from tests.deploy.commands import Cli
from tests.factories import make_fleet
from tests.plain_logs import log_plainly

SECRET = "Tr0ub4dor"
"""The text that nobody may see. Each half of it counts too: a mistyped address is cut in the middle of a password."""
HALVES = ("Tr0ub", "b4dor")

MISTYPED_DATABASE = [
    "postgres:/me:{}@db.example/routes",
    "postgresql:me:{}@db.example/routes",
    "postgresql//me:{}@db.example/routes",
    "postgresql+psycopg://me:{}@db.example/routes",
    "jdbc:postgresql://db.example/routes?user=me&password={}",
    "me:{}@db.example:5432/routes",
    "postgresql://me:Tr0ub@b4dor@db.example/routes",
    "postgresql://me:Tr0ub/b4dor@db.example/routes",
    "postgresql://me:5/b4dor@db.example/routes",
    "postgresql://me:{}%@db.example/routes",
    "postgresql://me:{}%zz@db.example/routes",
    "postgresql://me:{}@[::1/routes",
    "postgresql://me:{}@db.example:54x2/routes",
    "postgresql://me@db.example:{}@db.example/routes",
    "postgresql://me:{}",
    "postgresql://db.example/routes?passwort={}",
    "postgresql://db.example/routes?user=me?password={}",
    "host=db.example password={} dbname",
    "host=db.example pasword={} dbname=routes",
    "host=db.example password=Tr0ub b4dor dbname=routes",
    "host=db.example password='{} dbname=routes",
    "mysql://me:{}@db.example/routes",
    "postgresql://me:{}\n@db.example:x/routes",
]
MISTYPED_REDIS = [
    "redis:/:{}@cache.example:6379/0",
    "redis//:{}@cache.example:6379/0",
    ":{}@cache.example:6379",
    "rdis://:{}@cache.example:6379/0",
    "redis://:Tr0ub/b4dor@cache.example:6379/0",
    "redis://:Tr0ub?b4dor@cache.example:6379/0",
    "redis://:Tr0ub#b4dor@cache.example:6379/0",
    "redis://:5/b4dor@cache.example:6379/0",
    "redis://me:5/b4dor@cache.example:6379/0",
    "redis://me:5?b4dor@cache.example:6379/0",
    "redis://me:5#b4dor@cache.example:6379/0",
    "redis://:{}[@cache.example:6379/0",
    "redis://:{}@cache.example:63x9/0",
    "redis://cache.example:{}",
    "redis://cache.example:6379:{}",
    "redis://:{}@cache.example:6379/zero",
    "redis://cache.example:6379/0?passwrd={}",
    "redis://cache.example:6379/0?password={}&db=zero",
    "redis://cache.example:6379/0?{}",
    "redis://cache.example:6379/0&password={}",
    "redis://:{}@",
    "unix:/tmp/redis.sock?password={}@",
    "unix://:Tr0ub/b4dor@/tmp/redis.sock",
    "redis://:{}\u2100@cache.example:6379",
]
MISTYPED_VALHALLA = [
    "http//me:{}@roads.example",
    "me:{}@roads.example:8002",
    "http://me:Tr0ub/b4dor@roads.example:8002",
    "http://me:Tr0ub#b4dor@roads.example:8002",
    "ftp://me:{}@roads.example",
    "http://me:{}@roads.example:80x2",
]
MISTYPED = [
    *(("FUELROUTE_DATABASE_URL", url.format(SECRET)) for url in MISTYPED_DATABASE),
    *(("FUELROUTE_REDIS_URL", url.format(SECRET)) for url in MISTYPED_REDIS),
    *(("FUELROUTE_VALHALLA_URL", url.format(SECRET)) for url in MISTYPED_VALHALLA),
]
WELL_TYPED = [
    ("FUELROUTE_DATABASE_URL", f"postgresql://me:{SECRET}@127.0.0.1:9/routes"),
    ("FUELROUTE_DATABASE_URL", f"postgresql://127.0.0.1:9/routes?user=me&password={SECRET}"),
    ("FUELROUTE_DATABASE_URL", "postgresql://me:Tr0ub?b4dor#:@127.0.0.1:9/routes"),
    ("FUELROUTE_DATABASE_URL", f"postgresql://me:%40{SECRET}%2F@127.0.0.1:9/routes"),
    ("FUELROUTE_DATABASE_URL", f"host=127.0.0.1 port=9 user=me password={SECRET} dbname=routes"),
    ("FUELROUTE_DATABASE_URL", f"host=127.0.0.1 port=9 user=me password = 'a {SECRET} \\' {SECRET}' dbname=routes"),
    ("FUELROUTE_DATABASE_URL", f"host=127.0.0.1 port=9 user=me password=a\\ {SECRET} sslpassword={SECRET}"),
    ("FUELROUTE_REDIS_URL", f"redis://:{SECRET}@127.0.0.1:9/0"),
    ("FUELROUTE_REDIS_URL", f"redis://:Tr0ub@b4dor{SECRET}@127.0.0.1:9/0"),
    ("FUELROUTE_REDIS_URL", f"redis://{SECRET}@127.0.0.1:9/0"),
    ("FUELROUTE_REDIS_URL", f"redis://127.0.0.1:9/0?username=me&password={SECRET}"),
    ("FUELROUTE_REDIS_URL", f"unix://:{SECRET}@/nowhere/redis.sock?db=0"),
]
COMMANDS = [
    ("settings",),
    ("settings", "--json"),
    ("companies", "create", "--name", "Acme"),
    ("migrate",),
    ("workers",),
]


def seen(text: str) -> list[str]:
    """The parts of the secret that are in a text."""
    return [part for part in (SECRET, *HALVES) if part.lower() in text.lower()]


@pytest.mark.parametrize(("variable", "url"), MISTYPED)
def test_a_mistyped_address_is_reported_without_its_password(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    url: str,
) -> None:
    monkeypatch.setenv(variable, url)
    for command in COMMANDS:
        result = cli(*command)

        assert seen(result.out + result.err) == [], (command, result)
        assert variable in result.sentence


@pytest.mark.parametrize(("variable", "url"), WELL_TYPED)
def test_an_unreachable_server_is_reported_without_its_password(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    url: str,
) -> None:
    monkeypatch.setenv(variable, url)
    for command in COMMANDS:
        result = cli(*command)

        assert seen(result.out + result.err) == [], (command, result)
    assert "127.0.0.1" in cli("settings").out or "unix" in url, "the rest of the address is useful"


def test_addresses_as_people_write_them_are_accepted() -> None:
    for variable, url in WELL_TYPED:
        Settings.model_validate({variable.removeprefix("FUELROUTE_").lower(): url})
    for url in (
        "postgresql://",
        "postgresql:///routes",
        "postgres://a,b:5432/routes?target_session_attrs=primary",
        "dbname=routes",
        "postgresql://me@%2Ftmp%2Fsockets/routes",
        "postgresql://[2001:db8::1]:5432/routes",
        "service=fuelroute",
    ):
        assert Settings(database_url=url).database_url == url
    for url in (
        "redis://cache",
        "rediss://me:p@cache:6380/1?ssl_cert_reqs=none",
        "unix:///tmp/a%40b.sock?db=0",
        "redis://[::1]:6379/0",
        "redis://cache/?socket_timeout=3&db=2",
    ):
        assert Settings(redis_url=url).redis_url == url
    for url in ("http://roads:8002", "https://me:p@roads.example/valhalla?api_key=x"):
        assert Settings(valhalla_url=url).valhalla_url == url


def test_settings_that_are_refused_do_not_repeat_their_value() -> None:
    with pytest.raises(ValueError, match="database_url") as refused:
        Settings(database_url=MISTYPED[0][1])

    assert seen(str(refused.value) + repr(refused.value)) == []
    assert seen(repr(Settings(database_url=WELL_TYPED[0][1], redis_url=WELL_TYPED[-1][1]))) == []


@pytest.mark.parametrize(
    "text",
    [
        f'could not translate host name "postgresql://me:{SECRET}@db" to address',
        f"FUELROUTE_REDIS_URL=redis://:{SECRET}@cache:6379/0 is wrong",
        f"me:Tr0ub@b4dor/{SECRET}@db.example",
        f"connection failed: password={SECRET} host=db",
        f"password = 'it\\'s {SECRET}' host=db",
        f"https://roads.example/route?api_key={SECRET}&x=1",
        f"Authorization: Bearer {SECRET}.{SECRET}",
        f"AUTHORIZATION: BEARER {SECRET}",
        f"PassWord={SECRET} beaReR  {SECRET} \u0130",
        f"the key svc_live_abcdefgh{SECRET} is bad",
        f"DETAIL:  Failing row contains (rte_1, {SECRET}, (a)\nb, {SECRET}",
    ],
)
def test_secrets_are_removed_from_any_text(text: str) -> None:
    assert seen(without_secrets(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        'connection to server at "db.example" (10.0.0.1), port 5432 failed: FATAL: role "me" does not exist',
        "Error 111 connecting to 127.0.0.1:6379. Connection refused.",
        "line 3: contact: give ops@example.com a phone number",
        "redis://cache:6379/0",
        "2026-01-01T00:00:00Z: Key (company_id)=(cmp_1) is not present",
        "prefix svc_live_abcdefgh",
        "postgresql:///fuelroute?host=/tmp/a&port=5432",
    ],
)
def test_texts_without_secrets_stay_unchanged(text: str) -> None:
    assert without_secrets(text) == text


def test_long_texts_are_searched_for_secrets_quickly() -> None:
    started = time.process_time()
    for text in (
        "a:" * 500_000,
        "a" * 1_000_000,
        "passw" * 200_000,
        "password=" * 100_000,
        "bearer " * 100_000,
        "@:" * 500_000,
        "Failing row contains (" * 50_000,
    ):
        without_secrets(text)

    assert time.process_time() - started < 60


def test_a_row_that_breaks_a_constraint_is_shown_to_nobody(database: Database) -> None:
    """PostgreSQL quotes it whole, with names of drivers and places."""
    with database.transaction() as connection:
        fleet = make_fleet(connection)
    with database.transaction() as connection, pytest.raises(psycopg.Error) as raised:
        connection.execute("UPDATE drivers SET company_id = NULL WHERE company_id = %s", (fleet.company_id,))

    for text in (str(raised.value), repr(raised.value), "".join(traceback.format_exception(raised.value))):
        assert "Ann Lee" in text
        shown = without_secrets(f"{text}\nthe next line")
        assert "Ann Lee" not in shown
        assert "violates not-null constraint" in shown
        assert shown.endswith("the next line")


@pytest.fixture
def reset_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    logger, handlers, level = logging.getLogger(), logging.getLogger().handlers, logging.getLogger().level
    yield
    logger.handlers = handlers
    logger.setLevel(level)
    log_plainly()


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.usefixtures("reset_logs")
def test_logs_hold_no_secrets_and_no_control_characters(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(Settings.model_validate({"log_format": form}), "test")
    log = get_logger("tests.logs")
    url = f"redis://:{SECRET}@cache:6379/0"
    try:
        raise RuntimeError(f"cannot reach {url}\x1b[2J")
    except RuntimeError as error:
        log.exception(
            "tests.failed", error=str(error), cause=error, nested={"urls": [url]}, name="a\nforged \u202eline"
        )
        logging.getLogger("library").warning("cannot reach %s\nforged", url)

    written = capsys.readouterr().err
    assert seen(written) == []
    assert "\x1b" not in written
    assert "\u202e" not in written
    assert not [line for line in written.splitlines() if line.startswith("forged")]
    assert "cache:6379" in written


@pytest.mark.slow
def test_an_unexpected_error_of_a_process_shows_no_secrets(tmp_path: Path) -> None:
    code = (
        "import os, sys; from deploy import cli; from deploy.cli.commands import app\n"
        "def fail(): raise RuntimeError(os.environ['GIVEN'])\n"
        "app.command('fail')(fail)\n"
        "cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "fail"],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "FUELROUTE_DATA": str(tmp_path),
            "GIVEN": f"postgresql://me:{SECRET}@db/routes\x1b[31m",
        },
        check=False,
    )

    assert done.returncode == 1
    assert "RuntimeError" in done.stderr
    assert "Traceback" in done.stderr
    assert seen(done.stderr) == []
    assert "\x1b" not in done.stderr


@pytest.fixture
def driven_with(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The keys that `fuelroute drive` drives with; nothing is driven."""
    keys: list[str | None] = []

    def drive_route(*_: object, key: str | None, **__: object) -> dict[str, object]:
        keys.append(key)
        return {"fixes": 0, "status": "draft"}

    monkeypatch.setattr("deploy.drive.drive_route", drive_route)
    return keys


def test_the_key_for_driving_can_stay_out_of_the_process_list(
    cli: Cli,
    driven_with: list[str | None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "key").write_text(f"{SECRET}\n")
    assert cli("drive", "rte_1").status == 0
    assert cli("drive", "rte_1", "--key", SECRET).status == 0
    assert cli("drive", "rte_1", "--key-file", str(tmp_path / "key")).status == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{SECRET}\n".encode())))
    assert cli("drive", "rte_1", "--key-file", "-").status == 0
    monkeypatch.setenv("FUELROUTE_DRIVE_KEY", SECRET)
    assert cli("drive", "rte_1").status == 0

    assert driven_with == [None, SECRET, SECRET, SECRET, SECRET]


def test_a_message_url_may_come_from_standard_input(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = f"mailto://me:{SECRET}@example.com\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line.encode())))
    company = cli("companies", "create", "--name", "Acme", "--message-url", "-", "--json")
    assert seen(company.out + company.err) == []

    listed = cli("companies", "set", company.document["id"], "--json")

    assert listed.document["message_url"] == "mailto://***"


@pytest.mark.parametrize(("content", "told"), [(None, "cannot read"), ("\n", "is empty")])
def test_a_key_file_without_a_key_is_refused_with_a_sentence(
    cli: Cli,
    driven_with: list[str | None],
    tmp_path: Path,
    content: str | None,
    told: str,
) -> None:
    if content is not None:
        (tmp_path / "key").write_text(content)

    assert told in cli("drive", "rte_1", "--key-file", str(tmp_path / "key")).sentence
    assert driven_with == []
