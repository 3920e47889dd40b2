"""`fuelroute up`, and its PostgreSQL killed under load: what was accepted is kept."""

import json
import os
import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psycopg
import pytest

from domain.database.connections import Database
from domain.ids import shown_id
from domain.settings import STACK_FILE, Settings
from tests.factories import route_body
from tests.forking import forked_command
from tests.rows import named, stored_id
from tests.run_folder import own_folder
from tests.servers import CopiedPostgres
from tests.service import Service, eventually

pytestmark = pytest.mark.servers


@contextmanager
def running_stack(**environment: str) -> Iterator[tuple[Service, int]]:
    """A stack of its own, and the process id of its supervisor."""
    with own_folder("kills") as folder:
        data, screen = folder / "data", folder / "screen"
        CopiedPostgres(data).prepare()
        up = forked_command(
            "up", "--port", "0", "--data", str(data), environment=os.environ | environment, output=screen
        )
        try:
            eventually((data / STACK_FILE).exists, bool, 900, "the stack")
            stack = json.loads((data / STACK_FILE).read_text())
            settings = Settings(data=data, database_url=stack["database_url"], redis_url=stack["redis_url"])
            with Database.of(settings) as database:
                yield Service(stack["http_url"], database, settings), up.pid
        finally:
            up.terminate()
            assert up.wait(timeout=900) == 0, screen.read_text()


def children(supervisor: int) -> dict[str, int]:
    """The processes of the supervisor by their names."""
    found = {}
    for pid in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split():
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:  # gone since it was listed
            continue
        found["redis" if name == "valkey-server" else name] = int(pid)
    return found


def kept(service: Service, shown_ids: Iterable[str]) -> set[str] | None:
    """The routes of these that are stored. None while PostgreSQL is away."""
    ids = [stored_id(shown) for shown in shown_ids]
    try:
        with service.database.transaction() as connection:
            rows = named(connection).execute("SELECT id FROM routes WHERE id = ANY(%s)", (ids,)).fetchall()
    except psycopg.OperationalError:
        return None
    return {shown_id("rte", row.id) for row in rows}


def test_a_killed_database_keeps_every_push_that_was_answered_without_an_import() -> None:
    """A push is stored before it is on disk. The commit of its import writes it there, which the random machine tests;
    what is answered without that has to be written first."""
    environment = {"FUELROUTE_IMPORT_WAIT_SECONDS": "0", "FUELROUTE_SWEEP_SECONDS": "3600"}
    with running_stack(**environment) as (service, supervisor), service.new_tenant() as tms:
        accepted: dict[str, int] = {}
        killed = False

        def push() -> bool:
            """False once the database has been killed."""
            try:
                answer = tms.push(route_body(datetime.now(UTC)))
            except httpx.TransportError:
                return False
            if answer.status_code < 300:
                accepted[answer.json()["id"]] = answer.status_code
            return not killed

        def push_on() -> None:
            while push():
                pass

        def kill() -> None:
            nonlocal killed
            try:
                eventually(lambda: len(accepted), lambda count: count > 20, wanted="pushes")
                os.kill(children(supervisor)["postgres"], signal.SIGKILL)
            finally:
                killed = True

        worker = children(supervisor)["imports"]
        try:
            os.kill(worker, signal.SIGSTOP)
            with ThreadPoolExecutor(5) as threads:
                for one in [threads.submit(kill), *(threads.submit(push_on) for _ in range(4))]:
                    one.result()
        finally:
            os.kill(worker, signal.SIGCONT)

        assert list(accepted.values()).count(202) > 20
        assert eventually(
            lambda: kept(service, accepted), lambda ids: ids is not None, wanted="PostgreSQL again"
        ) == set(accepted)
