"""Sources of price files for tests: a company with a source, and polls of it."""

import os
from datetime import datetime
from pathlib import Path

from cryptography.fernet import Fernet

from domain.accounts.contacts import Contacts
from domain.database.connections import Database
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_polling import SourcePoll, poll_source
from domain.stations.price_runs import latest_runs
from domain.stations.price_sources import (
    NewSource,
    PriceSource,
    SourceAddress,
    SourceKind,
    add_source,
    read_source,
)
from tests.factories import DOT, Fleet
from tests.sftp_server import SftpServer

HEADER = "Store No.,City,State,Retail Price,Best Discounted Price,Latitude,Longitude\n"
ROW = "305,Elkhart,IN,3.999,3.499,41.735,-85.97\n"
KEY = Fernet.generate_key().decode()
CONTACTS = Contacts(KEY)


class World:
    """A company with a source, and polls of it."""

    def __init__(
        self,
        database: Database,
        company: Fleet,
        kind: SourceKind,
        address: SourceAddress,
        secret: str | None = None,
        *,
        name: str = "daily",
        profile: str = "loves",
    ) -> None:
        self.database, self.company, self.name = database, company, name
        self.now = datetime.now().astimezone()
        with database.transaction() as connection:
            new = NewSource(name, kind, profile, address, secret, takes_retail=True)
            add_source(connection, company.company_id, new, DOT, contacts=CONTACTS, now=self.now)

    @property
    def source(self) -> PriceSource:
        with self.database.transaction() as connection:
            return read_source(connection, self.company.company_id, self.name)

    def poll(self, *, retry: bool = False) -> SourcePoll:
        return poll_source(
            self.database.transaction,
            self.source,
            contacts=CONTACTS,
            limits=OutlierLimits(),
            now=self.now,
            retry=retry,
        )

    def runs(self) -> list[tuple[str, int, int, str | None]]:
        with self.database.transaction() as connection:
            runs = latest_runs(connection, self.company.company_id)
        return [(one.file_name, one.created, one.refused, one.fault) for one in runs]

    def prices(self) -> dict[str, float]:
        with self.database.transaction() as connection:
            rows = connection.execute("SELECT station_id, net_price FROM quotes ORDER BY effective_at").fetchall()
        return dict(rows)


def put(folder: Path, name: str, price: str, at: datetime) -> None:
    """A file without dates of its own, as old as its time says."""
    (folder / name).write_text(HEADER + ROW.replace("3.499", price))
    os.utime(folder / name, (at.timestamp(), at.timestamp()))


def polls(world: World, count: int = 2) -> SourcePoll:
    for _ in range(count):
        poll = world.poll()
    return poll


def sftp_world(database: Database, company: Fleet, server: SftpServer, secret: str = "right", key: str = "") -> World:
    address = SourceAddress("/", "*.csv", "127.0.0.1", server.port, "fleet", key or server.host_key)
    return World(database, company, "sftp", address, secret=secret)
