"""An upgrade keeps the data and stops nobody: the last release goes on serving while its schema is migrated and beside
the new processes, until it is stopped. Its routes, plans, messages and keys read the same afterwards."""

import itertools
import json
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from deploy.embedded import EmbeddedPostgres
from domain.database.connections import Database
from domain.ids import shown_id
from domain.messages.due_messages import list_messages
from domain.migrations import migrate
from domain.settings import Settings
from tests.conftest import make_database, redis_database
from tests.rows import stored_id
from tests.service import Service, eventually, running_service
from tests.upgrades import last_release_data
from tests.upgrades.last_release import REPOSITORY, unpack_last_release
from tests.upgrades.load import Load

MEMPHIS = {"latitude": 35.022, "longitude": -89.905}
AMARILLO = {"latitude": 35.205, "longitude": -101.720}
ALBUQUERQUE = {"latitude": 35.055, "longitude": -106.690}
DALLAS = {"latitude": 32.600, "longitude": -96.690}
ENTRY = "from deploy.cli import main; main()"


@dataclass
class Upgrade:
    """All that was seen during an upgrade."""

    demo: dict[str, Any]
    before: dict[str, Any]
    """The answers of the last release on its own schema."""
    told_before: list[Any]
    load: Load
    on_new_schema: dict[str, Any] = field(default_factory=dict)
    """The answers of the last release on the new schema."""
    after: dict[str, Any] = field(default_factory=dict)
    """The answers of this release."""
    told_after: list[Any] = field(default_factory=list)
    at_the_end: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The live routes, by id."""
    messages: Counter[str] = field(default_factory=Counter)


def program(settings: Settings, code: Path, *arguments: str) -> str:
    """The output of Python with the packages of a release."""
    env = os.environ | {
        "PYTHONPATH": str(code),
        "FUELROUTE_DATABASE_URL": settings.require_database_url(),
        "FUELROUTE_REDIS_URL": settings.require_redis_url(),
        "FUELROUTE_DATA": str(settings.data),
        "FUELROUTE_PORT": str(settings.port),
    }
    done = subprocess.run([sys.executable, "-P", *arguments], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def last_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("last_release")
    unpack_last_release(folder)
    return folder


@pytest.fixture(scope="module")
def last_settings(last_code: Path, worker_id: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A database with the schema of the last release, made by its own `fuelroute migrate`."""
    made = Settings(
        data=tmp_path_factory.mktemp("upgraded"),
        database_url=make_database("upgraded", template="template1"),
        redis_url=redis_database(worker_id, "upgrade"),
    )
    program(made, last_code, "-c", ENTRY, "migrate")
    return made


@pytest.fixture(scope="module")
def last_schema(last_settings: Settings) -> str:
    """A copy of that database, which no release has served."""
    name = psycopg.conninfo.conninfo_to_dict(last_settings.require_database_url())["dbname"]
    return make_database("compared", template=f'"{name}"')


def dump(url: str) -> list[str]:
    """The schema as SQL."""
    written = subprocess.run(
        [EmbeddedPostgres(Path("unused")).installed / "pg_dump", "--schema-only", url],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [line for line in written.splitlines() if not line.startswith(("\\restrict", "\\unrestrict", "--"))]


def test_the_last_releases_schema_becomes_the_same_as_a_fresh_one(last_schema: str) -> None:
    """It also finds a released migration that was changed afterwards."""
    migrate(last_schema)

    assert dump(last_schema) == dump(make_database("fresh"))


def answers(url: str, demo: dict[str, Any]) -> dict[str, Any]:
    """All that the demo's company reads through the API: its key, fleet and routes."""
    found: dict[str, Any] = {}
    for environment in ("live", "sandbox"):
        headers = {"Authorization": f"Bearer {demo[f'{environment}_key']}"}
        with httpx.Client(base_url=url, headers=headers, timeout=120) as client:
            for path in ("/v1/me", "/v1/vehicles?limit=100", "/v1/drivers?limit=100"):
                found[f"{environment} {path}"] = client.get(path).raise_for_status().json()
            for external_id in demo["external_ids"]:
                path = f"/v1/routes?externalId={external_id}"
                found[f"{environment} {path}"] = client.get(path).raise_for_status().json()
                for route in found[f"{environment} {path}"]["data"]:
                    path = f"/v1/routes/{route['id']}"
                    found[f"{environment} {path}"] = client.get(path).raise_for_status().json()
    return found


def tell(settings: Settings, code: Path, demo: dict[str, Any]) -> list[Any]:
    """All that commands tell of the demo's company: its keys, messages and plans."""
    told = program(
        settings,
        code,
        str(last_release_data.__file__),
        str(code),
        "tell",
        demo["company_id"],
        *(demo["routes"][name] for name in ("sandbox", "live")),
    )
    keys, messages, *explained = json.loads(told)
    for key in keys:
        key.pop("last_used_at", None)
    return [keys, sorted(messages, key=lambda message: message["id"]), *explained]


def lost(before: Any, after: Any, path: str = "") -> list[str]:
    """The values that are not there any more, or not the same. What is new is no fault."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [fault for name in before for fault in lost(before[name], after.get(name), f"{path}.{name}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            fault for n, pair in enumerate(zip(before, after, strict=True)) for fault in lost(*pair, f"{path}[{n}]")
        ]
    return [] if before == after else [f"{path}: {before!r} is now {after!r}"]


def live_through(url: str, demo: dict[str, Any]) -> None:
    """A sandbox route is completed, a live one active, another one canceled; the others are held or drafts."""
    client = httpx.Client(base_url=url, timeout=120)
    begun = datetime.now(UTC)
    moments = (begun + timedelta(seconds=15 * number) for number in itertools.count())

    def call(key: str, method: str, path: str, **more: Any) -> httpx.Response:
        answer = client.request(method, path, headers={"Authorization": f"Bearer {demo[key]}"}, **more)
        assert answer.status_code < 300, answer.text
        return answer

    def arrive(key: str, unit: str, place: dict[str, float], name: str, status: str) -> None:
        fix = {"unitNumber": unit, **place, "speedMph": 0, "fuelPercent": 60}
        positions = [{**fix, "recordedAt": next(moments).isoformat()} for _ in range(3)]
        call(key, "POST", "/telematics/positions", json={"positions": positions})
        path = f"/v1/routes/{demo['routes'][name]}"

        def status_now() -> str:
            time.sleep(0.25)  # the key has 600 requests in a minute
            return str(call(key, "GET", path).json()["status"])

        eventually(status_now, lambda seen: seen == status, 900, status)

    with client:
        arrive("live_key", "4105", DALLAS, "live", "active")
        arrive("sandbox_key", "4106", MEMPHIS, "sandbox", "active")
        arrive("sandbox_key", "4106", AMARILLO, "sandbox", "active")
        arrive("sandbox_key", "4106", ALBUQUERQUE, "sandbox", "completed")
        call("live_key", "DELETE", f"/v1/routes/{demo['routes']['draft']}")


@pytest.fixture(scope="module")
def upgrade(
    last_schema: str, last_settings: Settings, last_code: Path, tmp_path_factory: pytest.TempPathFactory
) -> Upgrade:
    """The whole way: the last release alone, the migration, both releases, this one alone; requests never stop."""
    logs, new_logs = (tmp_path_factory.mktemp(name) for name in ("old_logs", "new_logs"))
    begin = partial(running_service, last_settings, IMPORT_WAIT_SECONDS="30", SWEEP_SECONDS="1")
    with ExitStack() as new, ExitStack() as old:
        old_service = old.enter_context(begin(logs, code=str(last_code)))
        seen = fill(last_settings.model_copy(update={"port": httpx.URL(old_service.url).port}), last_code, old_service)
        with seen.load as load:
            load.wait_for(pushes=10, drives=1)
            migrate(last_settings.require_database_url())
            load.wait_for(pushes=20, drives=2)
            seen.on_new_schema = answers(old_service.url, seen.demo)

            new_service = new.enter_context(begin(new_logs))
            load.move(old_service.url, new_service.url)
            load.wait_for(pushes=20, drives=2)
            load.move(new_service.url)
            old.close()
            load.wait_for(pushes=20, drives=2)
        seen.after = answers(new_service.url, seen.demo)
        seen.told_after = tell(last_settings, REPOSITORY, seen.demo)
        seen.at_the_end = read_routes(new_service.url, seen.demo)
        seen.messages = count_messages(new_service.database, seen.demo)
    return seen


def fill(settings: Settings, code: Path, service: Service) -> Upgrade:
    demo = json.loads(program(settings, code, str(last_release_data.__file__), str(code), "fill"))
    demo["external_ids"] = [f"DEMO-{number}" for number in range(1, 8)]
    live_through(service.url, demo)
    load = Load([service.url], demo["load_keys"], unit_number="4101", driver="Maria Villanueva")
    return Upgrade(demo, answers(service.url, demo), tell(settings, code, demo), load)


def read_routes(url: str, demo: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every live route of the company by its id, from the pages of the list: a key may not ask for each."""
    found: dict[str, dict[str, Any]] = {}
    with httpx.Client(headers={"Authorization": f"Bearer {demo['live_key']}"}, timeout=120) as client:
        while True:
            page = client.get(f"{url}/v1/routes?limit=100&offset={len(found)}").raise_for_status().json()
            found |= {route["id"]: route for route in page["data"]}
            if len(found) >= page["total"]:
                return found


def count_messages(database: Database, demo: dict[str, Any]) -> Counter[str]:
    """The number of messages to drivers about each route."""
    with database.transaction() as connection:
        found = list_messages(connection, stored_id(demo["company_id"]))
        return Counter(shown_id("rte", message.route_id) for message in found)


def test_no_request_fails_at_any_moment_of_an_upgrade(upgrade: Upgrade) -> None:
    assert upgrade.load.faults == []


def test_every_route_that_was_accepted_during_an_upgrade_is_there(upgrade: Upgrade) -> None:
    assert len(upgrade.load.accepted) > 70
    read = {route_id: route["externalId"] for route_id, route in upgrade.at_the_end.items()}
    assert read.items() >= upgrade.load.accepted.items()
    assert len(set(read.values())) == len(read), "one route for each externalId"


def test_trucks_drive_through_an_upgrade_and_each_driver_gets_one_message(upgrade: Upgrade) -> None:
    driven = upgrade.load.driven

    assert len(driven) >= 7
    assert {upgrade.at_the_end[route_id]["status"] for route_id in driven} == {"completed"}
    assert {route_id: upgrade.messages[route_id] for route_id in driven} == dict.fromkeys(driven, 1)


def test_the_last_release_reads_on_the_new_schema_what_it_read_before(upgrade: Upgrade) -> None:
    statuses = {document["status"] for path, document in upgrade.before.items() if "/v1/routes/rte_" in path}
    assert statuses >= {"active", "completed", "canceled", "draft", "pending_mapping", "pending_window"}
    assert lost(upgrade.before, upgrade.on_new_schema) == []


def test_this_release_reads_all_that_the_last_one_stored(upgrade: Upgrade) -> None:
    assert lost(upgrade.before, upgrade.after) == []


def test_commands_tell_the_same_of_keys_messages_and_plans(upgrade: Upgrade) -> None:
    keys, messages, *explained = upgrade.told_before
    assert len(keys) == 2 + last_release_data.KEYS
    assert len(messages) >= 2
    assert all(one["candidates"] for one in explained)

    new_keys, new_messages, *new_explained = upgrade.told_after
    known = {message["id"] for message in messages}
    same = [message for message in new_messages if message["id"] in known]
    assert lost(upgrade.told_before, [new_keys, same, *new_explained]) == []
