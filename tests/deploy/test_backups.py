"""`deploy/backup.md`, executed: a stack is backed up and killed, and the restored one goes on. No driver gets a second
message."""

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg
import pytest

from deploy.backups.archive import superuser
from deploy.embedded import EmbeddedPostgres, running
from domain.accounts.contacts import Contacts
from domain.database.connections import Database
from domain.routes.intake.fleet_changes import add_mapping
from domain.settings import CONTACT_KEY_FILE, STACK_FILE, Settings
from tests.command_line import forked_fuelroute
from tests.factories import DOT, JOLIET, NEWARK, Fleet, route_body
from tests.forking import forked_command
from tests.gateway import Gateway, running_gateway
from tests.pipeline.world import store_prices
from tests.rows import named, stored_id
from tests.run_folder import own_folder
from tests.service import Client, Service, eventually

pytestmark = pytest.mark.servers

DOCUMENT = Path(__file__).parents[2] / "deploy" / "backup.md"


class World:
    """A folder for everything, and the commands of the document as they are written there, with our paths."""

    def __init__(self, folder: Path, path: str) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.places = {
            " /backups/": f" {folder}/backups/",
            " /safe/": f" {folder}/",
            " .fuelroute/": f" {self.data}/",
            " restored": f" {folder}/restored",
        }
        self.environment = {
            **os.environ,
            "PATH": path,
            "FUELROUTE_MESSAGE_ALLOWED_HOSTS": "127.0.0.1",
            "FUELROUTE_SWEEP_SECONDS": "1",
            "FUELROUTE_IMPORT_PASS_SECONDS": "2",
            "FUELROUTE_PORT": "0",
        }
        (folder / "backups").mkdir()

    def command(self, start: str, having: str = "", values: Mapping[str, str] = MappingProxyType({})) -> str:
        """The first command of the document that begins so and has that option."""
        lines = (line.strip() for line in DOCUMENT.read_text().splitlines() if line.startswith("    "))
        line = next(line for line in lines if line.startswith(start) and having in line)
        for written, ours in {**values, **self.places}.items():
            line = line.replace(written, ours)
        return line

    def run(
        self,
        start: str,
        having: str = "",
        *,
        more: str = "",
        data: Path | None = None,
        values: Mapping[str, str] = MappingProxyType({}),
    ) -> Any:
        """Runs a command of the document. Gives the JSON that it prints."""
        done = self.attempt(f"{self.command(start, having, values)} {more}", data or self.data)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout) if done.stdout else None

    def attempt(self, command: str, data: Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder,
            env={**self.environment, "FUELROUTE_DATA": str(data)},
            capture_output=True,
            text=True,
            check=False,
        )

    @contextmanager
    def up(self, start: str, data: Path) -> Iterator[tuple[Service, int]]:
        """The stack that a command of the document starts, and the process id of its supervisor."""
        _, *arguments = shlex.split(self.command(start))
        environment, screen = {**self.environment, "FUELROUTE_DATA": str(data)}, self.folder / "screen"
        up = forked_command(*arguments, environment=environment, output=screen, folder=self.folder)
        try:
            eventually((data / STACK_FILE).exists, bool, 180, f"the stack, see {screen}")
            stack = json.loads((data / STACK_FILE).read_text())
            settings = Settings(data=data, database_url=stack["database_url"], redis_url=stack["redis_url"])
            with Database.of(settings) as database:
                yield Service(stack["http_url"], database, settings), up.pid
        finally:
            up.terminate()
            try:
                up.wait(timeout=900)
            finally:
                up.kill()


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with own_folder("backups") as folder, forked_fuelroute(folder) as path:
        yield World(folder, path)


def family(pid: int) -> list[int]:
    """The process and its children, and theirs."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # gone since it was listed
        return []
    return [pid, *(one for child in children for one in family(int(child)))]


def kill_all(supervisor: int) -> None:
    """Kills a stack at once. The supervisor is stopped first: it restarts nothing, and its end does not tell the others
    to stop in good order."""
    os.kill(supervisor, signal.SIGSTOP)
    for one in reversed(family(supervisor)):
        with suppress(ProcessLookupError):  # such as a worker of PostgreSQL that has ended by itself
            os.kill(one, signal.SIGKILL)


def push(client: Client, **changes: Any) -> str:
    answer = client.push(route_body(datetime.now(UTC), **changes))
    assert answer.status_code < 300, answer.text
    return str(answer.json()["id"])


def archived(data: Path) -> None:
    """Waits until the archive has all that is committed now."""
    with superuser(EmbeddedPostgres(data)) as connection:
        (now,) = named(connection).execute("SELECT pg_current_wal_insert_lsn() AS place").fetchall()
        eventually(
            lambda: named(connection).execute("SELECT %s <= flush_lsn AS yes FROM pg_stat_replication", now).fetchall(),
            lambda rows: any(row.yes for row in rows),
            wanted="the archive",
        )


def tell(service: Service, fleet: Fleet, gateway: Gateway, key: str) -> None:
    """Gives the drivers a contact, which is sealed."""
    with service.database.transaction() as connection:
        connection.execute(
            "UPDATE drivers SET contact = %s WHERE id = ANY(%s)", (Contacts(key).seal(gateway.url), list(fleet.drivers))
        )


def secrets_found(folder: Path, *secrets: str) -> list[str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert files
    return [f"{secret} in {file}" for file in files for secret in secrets if secret.encode() in file.read_bytes()]


def test_the_way_back_after_a_disaster(world: World) -> None:
    with running_gateway() as gateway:
        with world.up("fuelroute up --archive", world.data) as (service, pid), service.new_tenant() as acme:
            key = (world.data / CONTACT_KEY_FILE).read_text()
            store_prices(service)
            tell(service, acme.fleet, gateway, key)
            sent = push(acme)
            acme.post_fixes(JOLIET, fuelPercent=60)
            acme.wait_for(sent, "active")
            held = push(acme, vehicle={"unitNumber": "TRUCK-9"})

            backup = world.run("fuelroute backup --to", more="--json")
            world.run("cp ")
            listed = world.run("fuelroute backup list", more="--json")
            assert ([one["name"] for one in listed["backups"]], listed["archive_running"]) == ([backup["name"]], True)

            started = push(acme, vehicle={"unitNumber": "102"}, driver={"name": "Bo Diaz"})
            before = [sent, held, started, *(push(acme) for _ in range(10))]
            moment = datetime.now(UTC)
            acme.post_fixes(JOLIET, unit_number="102", fuelPercent=60)
            acme.wait_for(started, "active")
            after = [push(acme) for _ in range(3)]
            archived(world.data)
            kill_all(pid)
        assert len(gateway.received) == 2

        everything_is_restored(world, before + after, started)
        nothing_is_sent_twice(world, gateway, acme, moment, before, after, sent=sent, held=held, started=started)

        stored = world.folder / "backups"
        assert secrets_found(stored, "driver:secret", key, acme.key) == []
        assert {path.stat().st_mode & 0o077 for path in (stored / "fuelroute").rglob("*")} == {0}


def everything_is_restored(world: World, pushed: list[str], started: str) -> None:
    """A restore without a time brings back everything that the archive has."""
    outcome = world.run("fuelroute restore", more="--json", values={" restored ": f" {world.folder}/all "})

    assert (outcome["ended_sessions"], outcome["withheld_messages"]) == (0, 0)
    with running(EmbeddedPostgres(world.folder / "all")) as url, psycopg.connect(url) as connection:
        rows = named(connection).execute("SELECT id, status FROM routes").fetchall()
    assert {row.id for row in rows} == {stored_id(one) for one in pushed}
    assert {row.status for row in rows if row.id == stored_id(started)} == {"active"}


def nothing_is_sent_twice(
    world: World,
    gateway: Gateway,
    client: Client,
    moment: datetime,
    before: list[str],
    after: list[str],
    *,
    sent: str,
    held: str,
    started: str,
) -> None:
    """A restore to the moment before a truck started: it starts again, and its driver is not told again."""
    restored = world.folder / "restored"
    time = {"2026-11-23T08:00:00Z": moment.isoformat()}
    world.run("fuelroute restore", "--at", more="--json", values=time)
    again = world.attempt(world.command("fuelroute restore", "--at", time), world.data)
    assert (again.returncode, "is not empty" in again.stderr) == (1, True)
    other = world.attempt(f"fuelroute up --data {restored} --archive {world.folder}/backups/fuelroute", restored)
    assert (other.returncode, "before it was restored" in other.stderr) == (1, True)

    with world.up("fuelroute up --data restored", restored) as (service, _), ExitStack() as clients:
        acme = clients.enter_context(Client(service, client.fleet, client.key_id, client.key))
        late = clients.enter_context(service.new_tenant())
        tell(service, late.fleet, gateway, (restored / CONTACT_KEY_FILE).read_text())
        assert {acme.get(f"/v1/routes/{one}").status_code for one in before} == {200}
        assert {acme.get(f"/v1/routes/{one}").status_code for one in after} == {404}

        acme.post_fixes(JOLIET, unit_number="102", fuelPercent=60)
        released = push(late)
        late.post_fixes(JOLIET, fuelPercent=60)
        with service.database.transaction() as connection:
            add_mapping(connection, acme.fleet.company_id, "unit_number", "TRUCK-9", acme.fleet.trucks[0], DOT)
        acme.post_fixes(NEWARK, at=datetime.now(UTC) + timedelta(seconds=30))
        acme.wait_for(started, "planned")
        late.wait_for(released, "planned")
        acme.wait_for(sent, "completed")
        acme.wait_for(held, "draft")
        withheld = {row["route_id"]: row["id"] for row in run_messages(world, restored, "withheld", "--json")}
        assert set(withheld) == {started, released}

        run_messages(world, restored, "release", "--json", {"MESSAGE_ID": withheld[released]})
        run_messages(world, restored, "discard", "--json")
        late.wait_for(released, "active")
        assert acme.route(started)["status"] == "planned"
        assert run_messages(world, restored, "withheld", "--json") == []
    assert len(gateway.received) == 3, "one for each route"


def run_messages(
    world: World, data: Path, command: str, more: str, values: Mapping[str, str] = MappingProxyType({})
) -> Any:
    return world.run(f"fuelroute messages {command}", more=more, data=data, values=values)
