"""Connectors: the share of a core that one process needs for 10,000 trucks that report every 30 s.

    python -m tests.benchmarks.connectors

The trucks report every ten seconds, so that a run is short; the share is that of 30 s. A bare loop fetches the same
pages in the same run and discards them.
"""

import asyncio
import sys
import time

from rich.console import Console

from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contacts import IN_CLEAR
from domain.connectors.connectors import ConnectorValues, add_connector
from domain.connectors.vendor_http import BoundedHttp
from domain.database.connections import Tenant
from domain.ids import new_id
from domain.lifecycle import Environment
from tests.benchmarks.connector_pages import PAGES, TRUCKS
from tests.benchmarks.harness import Bench, Figure, Stack, new_progress
from tests.benchmarks.loader import load_fleet
from tests.factories import DOT

ROUNDS = 3
EVERY_SECONDS = 30.0
MOST_OF_A_CORE = 0.5
_ALLOWED = "127.0.0.0/8"


def run(bench: Bench) -> list[Figure]:
    with bench.stack("connectors") as stack:
        host, port = stack.start_app("connector_pages")
        url = f"http://{host}:{port}"
        _prepare(stack, url)
        stack.start("connectors", CONNECTOR_ALLOWED_HOSTS=_ALLOWED, CONNECTOR_POLL_SECONDS="1")
        with bench.task("connectors: the first round, in which vehicles are matched"):
            stack.wait_until(f"SELECT coalesce(max(fixes), 0) >= {TRUCKS} FROM connectors", seconds=60)
        bare: list[float] = []
        ours: list[float] = []
        for number in range(ROUNDS):
            with bench.task(f"connectors: round {number + 1} of {ROUNDS}"):
                fixes, before = _fixes(stack), stack.cpu_seconds()["connectors"]
                wanted = fixes + TRUCKS
                stack.wait_until(f"SELECT max(fixes) >= {wanted} FROM connectors", seconds=60)
                spent = stack.cpu_seconds()["connectors"] - before
                ours.append(spent / (_fixes(stack) - fixes) * TRUCKS)
                bare.append(asyncio.run(_fetch(url)))
    shares = [one / EVERY_SECONDS for one in ours]
    against = [one / other for one, other in zip(ours, bare, strict=True)]
    return [
        Figure("connectors: share of a core for 10,000 trucks every 30 s", "", shares, at_most=MOST_OF_A_CORE),
        Figure("connectors: processor seconds for 10,000 positions", "s", ours),
        Figure("connectors: a bare loop that fetches the same pages", "s", bare),
        Figure("connectors: times the bare loop", "", against),
    ]


def _prepare(stack: Stack, url: str) -> None:
    with stack.database.transaction() as connection:
        company_id = load_fleet(connection, 1).company_id
        connection.execute("DELETE FROM vehicles WHERE company_id = %s", (company_id,))
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO vehicles (id, company_id, unit_number) VALUES (%s, %s, %s)",
                [(new_id(), company_id, str(number)) for number in range(TRUCKS)],
            )
        add_connector(
            connection,
            Tenant(company_id, Environment.LIVE),
            ConnectorValues("samsara", {"token": "a-token"}, url=url),
            DOT,
            allowed=AllowedHosts.read(_ALLOWED),
            contacts=IN_CLEAR,
        )


def _fixes(stack: Stack) -> int:
    return int(stack.query("SELECT max(fixes) AS fixes FROM connectors")[0].fixes)


async def _fetch(url: str) -> float:
    """Processor seconds of this process for one round of pages."""
    http = BoundedHttp(allowed=AllowedHosts.read(_ALLOWED))
    began = time.process_time()
    for number in range(PAGES):
        await http.get(f"{url}/fleet/vehicles/stats/feed", query={"after": str(number), "bare": "1"})
    spent = time.process_time() - began
    await http.close()
    return spent


if __name__ == "__main__":
    with new_progress(Console(stderr=True)) as progress:
        figures = run(Bench(progress))
    for figure in figures:
        values = ", ".join(f"{value:.3g}" for value in figure.rounds)
        print(f"{figure.work}: {figure.median:.3g} {figure.unit} ({values})")
    sys.exit(1 if any(figure.reached is False for figure in figures) else 0)
