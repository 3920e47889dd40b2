"""Moves a company between two cells under a steady load, and counts: the pause, pushes answered 2xx and lost, messages
doubled, answers that end a client's attempts.

    deploy/cells/rehearse --seconds 45 --pushes-per-second 30

Each cell has its own PostgreSQL, Valkey, ingress, workers and scheduler; a real HAProxy stands before both. Half of the
load is of the company that is moved, half of one that stays. Trucks of both arrive at their first stops all the time,
so that plans are made and messages are sent through a gateway.
"""

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from deploy.embedded import EmbeddedRedis, running
from domain.accounts.keys import create_key
from domain.contract.shapes import SCOPES
from domain.ids import new_id
from domain.lifecycle import Environment
from domain.migrations import migrate
from domain.settings import Settings
from domain.stations.stations import store_station_rows
from tests.cells.haproxy import PROGRAM, Proxy, running_haproxy
from tests.factories import DOT, JOLIET, STATIONS, Fleet, make_fleet, route_body
from tests.gateway import HOST, Gateway, running_gateway
from tests.run_folder import own_folder
from tests.servers import CopiedPostgres
from tests.service import ALL_PROCESSES, Service, eventually, running_service

_KEYS = 4
"""Keys of a company: one may make 600 requests a minute."""
_THREADS = 12
_PATIENCE_SECONDS = 60.0


class Cell(NamedTuple):
    number: int
    service: Service
    admin_url: str


@dataclass
class Company:
    """A company under load, and the answers that its pushes got."""

    name: str
    fleet: Fleet
    keys: list[str]
    accepted: dict[str, float] = field(default_factory=dict)
    """The externalIds that were answered 2xx, with the time."""
    statuses: Counter[int] = field(default_factory=Counter)
    given_up: list[str] = field(default_factory=list)


@dataclass
class Outcome:
    pause_seconds: float
    longest_gap_seconds: float
    """The longest time without a push of the moved company that was answered 2xx."""
    statuses: dict[str, int]
    pushes: int
    lost: int
    messages: int
    doubled: int
    given_up: int
    move_seconds: float
    rows: int


@contextlib.contextmanager
def running_cell(number: int, folder: Path, *, durable: bool) -> Iterator[Cell]:
    folder.mkdir()
    logs = folder / "processes"
    logs.mkdir()
    postgres = CopiedPostgres(folder / "data", durable=durable, options={"wal_level": "logical"})
    with running(postgres) as url, running(EmbeddedRedis(folder / "data", durable=False)) as redis_url:
        migrate(url)
        settings = Settings(data=folder / "data", database_url=url, redis_url=redis_url)
        more = {"CELL": str(number), "SWEEP_SECONDS": "1", "IMPORT_WAIT_SECONDS": "1", "MESSAGE_ALLOWED_HOSTS": HOST}
        with running_service(settings, logs, processes=ALL_PROCESSES, code="", **more) as service:
            with service.database.transaction() as connection:
                store_station_rows(connection, STATIONS, now=datetime.now(UTC))
            yield Cell(number, service, postgres.service_admin_url)


def new_company(cell: Cell, name: str, gateway: Gateway, trucks: int) -> Company:
    """A company whose trucks `T-0`, `T-1` and so on have a driver each, who is reached through the gateway."""
    with cell.service.database.transaction() as connection:
        fleet = make_fleet(connection)
        for number in range(trucks):
            connection.execute(
                "INSERT INTO vehicles (id, company_id, unit_number, fuel_tank_capacity_gallons, mpg)"
                " VALUES (%s, %s, %s, 200, 6.5)",
                (new_id(), fleet.company_id, f"T-{number}"),
            )
            connection.execute(
                "INSERT INTO drivers (id, company_id, name, contact) VALUES (%s, %s, %s, %s)",
                (new_id(), fleet.company_id, f"Driver {number}", gateway.url),
            )
        made = [
            create_key(
                connection,
                fleet.company_id,
                DOT,
                name=f"{one}",
                environment=Environment.LIVE,
                scopes=list(SCOPES),
                cell=1,
            ).key
            for one in range(_KEYS)
        ]
    return Company(name, fleet, made)


class Load:
    """Pushes of several companies at a steady pace. Each is repeated as the API's documentation asks, until it is
    accepted. Every tenth is of a truck that is at its first stop."""

    def __init__(self, url: str, companies: list[Company], per_second: float, trucks: int) -> None:
        self._client = httpx.Client(base_url=url, timeout=120, limits=httpx.Limits(max_connections=_THREADS))
        self._companies, self._per_second, self._trucks = companies, per_second, trucks
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(_THREADS)
        self._pace = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Load":
        self._pace.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._pace.join()
        self._pool.shutdown()
        self._client.close()

    def _run(self) -> None:
        began = time.monotonic()
        for number in itertools.count():
            if self._ended.wait(max(0.0, began + number / self._per_second - time.monotonic())):
                return
            company = self._companies[number % len(self._companies)]
            self._pool.submit(self._push, company, number // len(self._companies))

    def _push(self, company: Company, number: int) -> None:
        truck = number // 10 if number % 10 == 0 and number // 10 < self._trucks else None
        name = f"{company.name}-{number}"
        unit, driver = (f"T-{truck}", f"Driver {truck}") if truck is not None else ("101", "Ann Lee")
        start = datetime.now(UTC) + timedelta(hours=1 if truck is not None else 30)
        body = route_body(start, externalId=name, vehicle={"unitNumber": unit}, driver={"name": driver})
        key = company.keys[number % len(company.keys)]
        if self._send(company, key, "/v1/routes", body):
            company.accepted[name] = time.monotonic()
            if truck is not None:
                self._send(company, key, "/telematics/positions", _standing_at_joliet(unit))

    def _send(self, company: Company, key: str, path: str, body: dict[str, Any]) -> bool:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            wait = 0.5
            try:
                answer = self._client.post(path, json=body, headers={"Authorization": f"Bearer {key}"})
            except httpx.TransportError:
                company.statuses[0] += 1
            else:
                company.statuses[answer.status_code] += 1
                if answer.is_success:
                    return True
                if answer.status_code not in (429, 500, 502, 503, 504):
                    break
                wait = float(answer.headers.get("Retry-After", wait))
            time.sleep(wait)
        company.given_up.append(f"{path} {body.get('externalId')}")
        return False


def _standing_at_joliet(unit: str) -> dict[str, Any]:
    now = datetime.now(UTC)
    place = {"latitude": JOLIET["latitude"], "longitude": JOLIET["longitude"], "speedMph": 0, "fuelPercent": 40}
    times = [(now - timedelta(seconds=15 * ago)).isoformat() for ago in (2, 1, 0)]
    return {"positions": [{"unitNumber": unit, "recordedAt": at, **place} for at in times]}


def move(first: Cell, second: Cell, company: Company, proxy: Proxy, folder: Path, *more: str) -> dict[str, Any]:
    """Gives the command as an operator does. Returns its document."""
    cells = folder / "cells.toml"
    cells.write_text(
        "".join(f"[{cell.number}]\ndatabase_url = {json.dumps(cell.admin_url)}\n" for cell in (first, second))
    )
    settings = first.service.settings
    environment = {
        **os.environ,
        "FUELROUTE_CELL": str(first.number),
        "FUELROUTE_DATABASE_URL": settings.require_database_url(),
        "FUELROUTE_CELLS_FILE": str(cells),
    }
    arguments = ["companies", "move", company.fleet.shown_company_id, "--to", str(second.number), "--json", *more]
    routing = ["--map", str(proxy.map_file), "--haproxy", str(proxy.control)]
    done = subprocess.run(
        [sys.executable, "-P", "-c", "from deploy.cli import main; main()", *arguments, *routing],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the move failed: {done.stderr}")
    return dict(json.loads(done.stdout))


def rehearse(folder: Path, *, seconds: float, per_second: float, trucks: int, durable: bool) -> Outcome:
    """Runs the load, moves the company in the middle of it, and counts what came of it."""
    with contextlib.ExitStack() as life:
        gateway = life.enter_context(running_gateway())
        cells = [life.enter_context(running_cell(one, folder / f"c{one}", durable=durable)) for one in (1, 2)]
        addresses = [cell.service.url.removeprefix("http://") for cell in cells]
        proxy = life.enter_context(running_haproxy(folder, *addresses))
        moved, stays = (new_company(cells[0], name, gateway, trucks) for name in ("moved", "stays"))
        with Load(proxy.url, [moved, stays], per_second, trucks):
            time.sleep(seconds / 3)
            began = time.monotonic()
            document = move(cells[0], cells[1], moved, proxy, folder)
            took = time.monotonic() - began
            time.sleep(seconds / 3)
            move(cells[0], cells[1], moved, proxy, folder, "--erase", "--yes")
            time.sleep(seconds / 3)
        _wait_for_messages(cells, [moved, stays])
        return _outcome(cells, moved, stays, gateway, document, took)


def _wait_for_messages(cells: list[Cell], companies: list[Company]) -> None:
    def waiting() -> int:
        found = 0
        for cell in cells:
            with cell.service.database.transaction() as connection:
                query = (
                    "SELECT (SELECT count(*) FROM messages WHERE status = 'pending')"
                    " + (SELECT count(*) FROM tracks WHERE unprocessed_from IS NOT NULL)"
                    " + (SELECT count(*) FROM routes WHERE status = 'draft' AND arrived_at IS NOT NULL)"
                )
                found += connection.execute(query).fetchall()[0][0]
        return found

    eventually(waiting, lambda found: found == 0, 900, "all messages")


def _outcome(
    cells: list[Cell], moved: Company, stays: Company, gateway: Gateway, document: dict[str, Any], took: float
) -> Outcome:
    lost = 0
    for cell, company in ((cells[1], moved), (cells[0], stays)):
        with cell.service.database.transaction() as connection:
            rows = connection.execute(
                "SELECT external_id FROM routes WHERE company_id = %s", (company.fleet.company_id,)
            ).fetchall()
        lost += len(company.accepted.keys() - {row[0] for row in rows})
    times = sorted(moved.accepted.values())
    sent = Counter(message["message"] for message in gateway.received)
    return Outcome(
        pause_seconds=document["pause_seconds"],
        longest_gap_seconds=round(max(later - one for one, later in itertools.pairwise(times)), 2),
        statuses={str(status): number for status, number in sorted((moved.statuses + stays.statuses).items())},
        pushes=len(moved.accepted) + len(stays.accepted),
        lost=lost,
        messages=sent.total(),
        doubled=sent.total() - len(sent),
        given_up=len(moved.given_up) + len(stays.given_up),
        move_seconds=round(took, 1),
        rows=sum(document["rows"].values()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60, help="length of the load, without the move")
    parser.add_argument("--pushes-per-second", type=float, default=30, help="pushes of both companies together")
    parser.add_argument("--trucks", type=int, default=200, help="trucks of each company that arrive while it runs")
    options = parser.parse_args()
    if PROGRAM is None:
        sys.exit("HAProxy is not installed here: apt-get install haproxy")
    with own_folder("cells") as folder:
        outcome = rehearse(
            folder,
            seconds=options.seconds,
            per_second=options.pushes_per_second,
            trucks=options.trucks,
            durable=True,
        )
    print(json.dumps(vars(outcome), indent=2))
    sys.exit(1 if outcome.lost or outcome.doubled or outcome.given_up else 0)


if __name__ == "__main__":
    main()
