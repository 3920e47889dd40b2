"""Shared by the tests of the process: real processes of connectors, that can be killed, and connectors for them."""

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from deploy.processes import Child
from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contacts import IN_CLEAR
from domain.connectors.connectors import Connector, ConnectorValues, add_connector
from domain.database.connections import Database, Tenant
from domain.settings import Settings
from tests.factories import DOT, Fleet, make_fleet
from tests.forking import forked_spec
from tests.rows import named

LOOPBACK = "127.0.0.0/8"


class PollingProcess:
    """A process `fuelroute connectors`."""

    def __init__(self, settings: Settings, logs: Path, name: str = "connectors") -> None:
        env = {
            "FUELROUTE_DATABASE_URL": settings.require_database_url(),
            "FUELROUTE_REDIS_URL": settings.require_redis_url(),
            "FUELROUTE_DATA": str(settings.data),
            "FUELROUTE_CONNECTOR_ALLOWED_HOSTS": LOOPBACK,
            "FUELROUTE_CONNECTOR_POLL_SECONDS": "1",
        }
        self._child = Child(forked_spec(name, ("connectors",), logs, env, ""))
        self.log = logs / f"{name}.log"
        self.pid = self._child.process.pid

    def kill(self) -> None:
        self._child.kill_group()

    def stop(self) -> int:
        """Asks it to stop. Returns its exit status."""
        self._child.signal(signal.SIGTERM)
        return self._child.process.wait(180)


@contextmanager
def polling(settings: Settings, logs: Path, name: str = "connectors") -> Iterator[PollingProcess]:
    process = PollingProcess(settings, logs, name)
    try:
        yield process
    finally:
        process.kill()


@contextmanager
def fleet_of_its_own(database: Database) -> Iterator[Fleet]:
    """A committed company, whose connectors are gone at the end: the next process must not poll them."""
    with database.transaction() as connection:
        fleet = make_fleet(connection)
    try:
        yield fleet
    finally:
        with database.transaction() as connection:
            connection.execute("DELETE FROM connectors WHERE company_id = %s", (fleet.company_id,))


def connected(
    database: Database, tenant: Tenant, kind: str, url: str, credentials: Mapping[str, str], *, name: str = ""
) -> Connector:
    values = ConnectorValues(kind, credentials, name, url)
    with database.transaction() as connection:
        return add_connector(connection, tenant, values, DOT, allowed=AllowedHosts.read(LOOPBACK), contacts=IN_CLEAR)


def row_of(database: Database, connector: Connector) -> Any:
    with database.transaction() as connection:
        return named(connection).execute("SELECT * FROM connectors WHERE id = %s", (connector.id,)).fetchone()


def times_of(database: Database, fleet: Fleet) -> list[datetime]:
    """`recorded_at` of every stored position of the company, in order."""
    with database.transaction() as connection:
        rows = connection.execute(
            "SELECT recorded_at FROM positions WHERE company_id = %s ORDER BY recorded_at, vehicle_id",
            (fleet.company_id,),
        )
        return [one for (one,) in rows.fetchall()]


def leases_run_out(database: Database, connector: Connector) -> None:
    """Ends the lease, like the half minute that a killed process leaves behind."""
    with database.transaction() as connection:
        connection.execute("UPDATE connectors SET leased_until = now() - interval '1 s' WHERE id = %s", (connector.id,))


def wait_until(good: Any, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not good():
        assert time.monotonic() < deadline, f"waited {seconds} s"
        time.sleep(0.05)
