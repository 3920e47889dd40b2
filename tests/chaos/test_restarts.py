"""PostgreSQL restarts: a service that was idle meanwhile answers every request afterwards, and a busy one goes on."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import httpx
import psycopg
import pytest

from domain.lifecycle import Role
from domain.settings import STACK_FILE
from tests.chaos.test_kills import children, running_stack
from tests.factories import JOLIET, route_body, signed_in
from tests.service import Client, Service, eventually, one_below

pytestmark = pytest.mark.servers

Ask = Callable[[], httpx.Response]


@pytest.fixture(scope="module")
def stack() -> Iterator[tuple[Service, int]]:
    with running_stack(FUELROUTE_SWEEP_SECONDS="1") as running:
        yield running


def browser_of(service: Service, client: Client) -> httpx.Client:
    with service.database.transaction() as connection:
        token = signed_in(connection, Role.OWNER, client.fleet.company_id)
    url = json.loads((service.settings.data / STACK_FILE).read_text())["console_url"]
    return httpx.Client(base_url=url, cookies={"fuelroute": token}, timeout=120)


def everything(client: Client, browser: httpx.Client) -> dict[str, Ask]:
    route_id = client.push(route_body(datetime.now(UTC))).json()["id"]
    update = route_body(datetime.now(UTC))
    client.push(update)
    return {
        "push": lambda: client.push(route_body(datetime.now(UTC))),
        "update": lambda: client.push({**update, "scheduledStart": datetime.now(UTC).isoformat()}),
        "me": lambda: client.get("/v1/me"),
        "get": lambda: client.get(f"/v1/routes/{route_id}"),
        "list": lambda: client.get("/v1/routes"),
        "feed": lambda: client.post_fixes(JOLIET, unit_number="102"),  # it is on no route, so none starts
        "delete": lambda: client.delete(f"/v1/routes/{route_id}"),
        "console": lambda: browser.get("/routes"),
    }


def restart(service: Service, supervisor: int, stop_signal: signal.Signals) -> None:
    """Returns when it is over."""
    before = children(supervisor)["postgres"]
    os.kill(before, stop_signal)
    eventually(lambda: children(supervisor).get("postgres", before) != before, bool, wanted="another server")
    eventually(lambda: _answers(service), bool, wanted="an answer of PostgreSQL")


def _answers(service: Service) -> bool:
    try:
        with psycopg.connect(service.settings.require_database_url()) as connection:
            connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def timed(ask: Ask) -> tuple[int, float]:
    started = time.monotonic()
    return ask().status_code, time.monotonic() - started


@pytest.mark.parametrize("stop_signal", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
def test_a_restart_between_requests_fails_no_request(stack: tuple[Service, int], stop_signal: signal.Signals) -> None:
    service, supervisor = stack
    with service.new_tenant() as client, browser_of(service, client) as browser, ThreadPoolExecutor(24) as threads:
        asks = everything(client, browser)
        for ask in [*asks.values()] * 2:
            for one in [threads.submit(ask) for _ in range(12)]:  # every pool opens connections
                assert one.result().status_code < 300
        time.sleep(2)

        def slowest_after_a_restart() -> float:
            restart(service, supervisor, stop_signal)
            time.sleep(1)
            slowest = 0.0
            for name, ask in everything(client, browser).items():
                status, seconds = timed(ask)
                assert status < 300, name
                slowest = max(slowest, seconds)
            return slowest

        assert one_below(2.5, slowest_after_a_restart)  # some hundredths on an idle machine


def test_a_restart_under_load_fails_only_requests_that_it_cuts_off(stack: tuple[Service, int]) -> None:
    """A request whose statement was cut off is answered 500; later requests notice nothing."""
    service, supervisor = stack
    with service.new_tenant() as client, browser_of(service, client) as browser, ThreadPoolExecutor(8) as threads:
        asks = everything(client, browser)
        done = False

        def again_and_again(ask: Ask) -> list[tuple[float, int]]:
            answers = []
            while not done:
                answers.append((time.monotonic(), ask().status_code))
                time.sleep(0.02)
            return answers

        running = {name: threads.submit(again_and_again, ask) for name, ask in asks.items()}
        time.sleep(1)
        restart(service, supervisor, signal.SIGINT)
        back_at = time.monotonic()
        time.sleep(2)
        done = True

        for name, one in running.items():
            afterwards = [status for started_at, status in one.result() if started_at > back_at + 0.5]
            assert afterwards, name
            assert {status for status in afterwards if status >= 500} == set(), name
