"""Secrets are planted everywhere that a person can put one, the service works with them, and then everything that it
leaves behind is searched: logs, tables, Redis, metrics, lists of processes."""

import base64
import re
import secrets
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import httpx
import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr

from deploy.embedded import EmbeddedRedis, running
from domain.accounts.contacts import Contacts
from domain.ids import new_id
from domain.messages.due_messages import list_messages
from domain.queue.redis_clients import redis_client
from domain.settings import Settings
from tests.conftest import make_database
from tests.factories import JOLIET, route_body
from tests.gateway import HOST, Gateway, running_gateway
from tests.ingress.console.conftest import Browser, World, running_console
from tests.pipeline.world import store_prices
from tests.ports import own_port
from tests.service import ALL_PROCESSES, Client, Service, eventually, running_service


class Stack(NamedTuple):
    service: Service
    console_url: str
    logs: Path
    metrics_ports: range
    contact_key: str


@pytest.fixture(scope="module")
def stack(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    logs = tmp_path_factory.mktemp("logs")
    contact_key = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    first_port = own_port(10)
    with running(EmbeddedRedis(tmp_path_factory.mktemp("redis"), durable=False)) as redis_url:
        own = settings.model_copy(
            update={
                "database_url": make_database("secrets"),
                "redis_url": redis_url,
                "contact_key": SecretStr(contact_key),
            }
        )
        more = {
            "CONTACT_KEY": contact_key,
            "METRICS_PORT": f"{first_port}-{first_port + 9}",
            "SWEEP_SECONDS": "1",
            "IMPORT_WAIT_SECONDS": "30",
            "MESSAGE_ALLOWED_HOSTS": HOST,
        }
        with (
            running_service(own, logs, processes=ALL_PROCESSES, **more) as service,
            running_console(
                own, redis_url, logs, FUELROUTE_CONTACT_KEY=contact_key, FUELROUTE_MESSAGE_ALLOWED_HOSTS=HOST
            ) as console_url,
        ):
            store_prices(service)
            yield Stack(service, console_url, logs, range(first_port, first_port + 10), contact_key)


def use_the_api(client: Client, password: str) -> None:
    """A route whose message is refused by its gateway, and requests with a key in wrong places. None is in a field that
    is stored: there it would be the route's data."""
    now = datetime.now(UTC)
    pushed = client.push(route_body(now + timedelta(minutes=5)))
    assert pushed.status_code == 201, pushed.text
    client.push({"externalId": [client.key], "apiKey": client.key, "password": password})
    client.get("/v1/routes", params={"externalId": client.key, "key": client.key})
    client.get(f"/v1/routes/{client.key}")
    httpx.get(f"{client.base_url}/v1/me", headers={"Authorization": f"Bearer {client.key}x"}, timeout=120)
    client.post_fixes(JOLIET, note=client.key)


def use_the_console(stack: Stack, client: Client, password: str) -> set[str]:
    """Signs in with a wrong and a right password, makes a key and a contact. Returns the secrets of the session."""
    world = World(stack.console_url, client.service.database)
    email = world.new_user(fleet=client.fleet, password=password)
    with Browser(stack.console_url) as browser:
        browser.sign_in(email, f"{password}-mistyped")
        assert browser.sign_in(email, password).status_code == 303
        browser.look("/keys")
        made = browser.submit("/keys", name="TMS", environment="live", scope="routes:read")
        browser.look("/drivers/new")
        contact = f"json://me:{password}@{HOST}/"
        assert browser.submit("/drivers/new", name="Cy", external_id="D-9", contact=contact).status_code == 303
        browser.look("/notices")
        added = browser.submit("/notices", name="desk", kind="error", after_minutes="0", time_zone="UTC", url=contact)
        assert added.status_code == 303
        path = added.headers["location"].partition("?")[0]
        assert browser.submit(f"{path}/test").status_code == 303
        return {browser.cookies["fuelroute"], *re.findall(r"svc_live_\w{30,}", made.text)}


def left_behind(stack: Stack) -> Iterator[tuple[str, str]]:
    """Each thing that others can read, and its text."""
    for path in stack.logs.iterdir():
        yield f"log {path.name}", path.read_text(errors="replace")
    with psycopg.connect(stack.service.settings.require_database_url()) as connection:
        for (table,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall():
            rows = connection.execute(sql.SQL("SELECT it::text FROM {} AS it").format(sql.Identifier(table))).fetchall()
            yield f"table {table}", "\n".join(row for (row,) in rows)
        statements = connection.execute("SELECT query FROM pg_stat_activity").fetchall()
        yield "running statements", "\n".join(row or "" for (row,) in statements)
    with redis_client(stack.service.settings.require_redis_url()) as client:
        dumped = b"\n".join(b"%s %s" % (key, client.dump(key) or b"") for key in client.scan_iter())
        yield "Redis", dumped.decode(errors="replace")
    for port in stack.metrics_ports:
        try:
            yield f"metrics on {port}", httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=120).text
        except httpx.TransportError:
            continue
    yield "list of processes", subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout


def refuse_messages(gateway: Gateway, client: Client, password: str) -> None:
    """The drivers have a gateway that answers 500 and repeats the password."""
    gateway.status, gateway.body = 500, password.encode()
    contacts = Contacts.of(client.service.settings)
    url = gateway.url.replace("json://", f"json://me:{password}@")
    with client.service.database.transaction() as connection:
        connection.execute(
            "UPDATE drivers SET contact = %s WHERE company_id = %s", (contacts.seal(url), client.fleet.company_id)
        )


def attempts_at_messages(client: Client) -> list[int]:
    with client.service.database.transaction() as connection:
        return [message.attempts for message in list_messages(connection, client.fleet.company_id)]


def test_what_the_service_leaves_behind_holds_no_secret(stack: Stack) -> None:
    password = f"Tr0ub{new_id().hex}"
    with stack.service.new_tenant() as client, running_gateway() as gateway:
        refuse_messages(gateway, client, password)
        use_the_api(client, password)
        from_console = use_the_console(stack, client, password)
        eventually(lambda: attempts_at_messages(client), any, wanted="a refused message")
        hidden = {password, client.key[14:], stack.contact_key, *(secret[14:] for secret in from_console)}

        places = list(left_behind(stack))

    assert len(from_console) == 2
    assert {name.partition(" ")[0] for name, _ in places} == {"log", "table", "running", "Redis", "metrics", "list"}
    found = [(name, secret[:6]) for name, text in places for secret in hidden if secret in text]
    assert found == []
