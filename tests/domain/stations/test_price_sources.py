"""Sources of price files: folders and SFTP servers, whose files are taken once, whole, and by nobody else."""

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import asyncssh
import pytest
from cryptography.fernet import Fernet

from domain.accounts.contacts import Contacts
from domain.database import Connection, Database
from domain.routes.plans.price_sources import SourceLook, look_at_source
from domain.stations import price_fetching
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_runs import latest_runs, refused_rows
from domain.stations.price_sources import (
    NewSource,
    PriceSource,
    SourceAddress,
    SourceKind,
    UnknownSource,
    UnusableSource,
    add_source,
    due_sources,
    pause_source,
    read_source,
    remove_source,
    seal_source_secrets,
)
from tests.conftest import own_database
from tests.factories import Fleet, make_fleet
from tests.sftp_server import SftpServer, sftp_server

HEADER = "Store No.,City,State,Retail Price,Best Discounted Price,Latitude,Longitude\n"
ROW = "305,Elkhart,IN,3.999,3.499,41.735,-85.97\n"
KEY = Fernet.generate_key().decode()
CONTACTS = Contacts(KEY)


@pytest.fixture(scope="module")
def stored() -> Iterator[Database]:
    """A database of these tests alone: stations belong to no company."""
    with own_database("price_sources") as database:
        yield database


@pytest.fixture
def company(stored: Database) -> Fleet:
    with stored.transaction() as connection:
        for table in ("stations", "price_sources", "price_runs", "quotes", "held_prices", "station_codes"):
            connection.execute(f"DELETE FROM {table}")
        return make_fleet(connection)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "files"
    path.mkdir()
    return path


class World:
    """A company with a source, and looks at it."""

    def __init__(
        self,
        database: Database,
        company: Fleet,
        kind: SourceKind,
        address: SourceAddress,
        secret: str | None = None,
    ) -> None:
        self.database, self.company, self.now = database, company, datetime.now().astimezone()
        with database.transaction() as connection:
            new = NewSource("daily", kind, "loves", address, secret, takes_retail=True)
            add_source(connection, company.company_id, new, contacts=CONTACTS, now=self.now)

    @property
    def source(self) -> PriceSource:
        with self.database.transaction() as connection:
            return read_source(connection, self.company.company_id, "daily")

    def look(self) -> SourceLook:
        return look_at_source(
            self.database.transaction, self.source, contacts=CONTACTS, limits=OutlierLimits(), now=self.now
        )

    def runs(self) -> list[tuple[str, int, int, str | None]]:
        with self.database.transaction() as connection:
            runs = latest_runs(connection, self.company.company_id)
        return [(one.file_name, one.created, one.refused, one.fault) for one in runs]

    def prices(self) -> dict[str, float]:
        with self.database.transaction() as connection:
            rows = connection.execute("SELECT station_id, net_price FROM quotes ORDER BY effective_at").fetchall()
        return dict(rows)


@pytest.fixture
def watched(stored: Database, company: Fleet, folder: Path) -> World:
    return World(stored, company, "folder", SourceAddress(str(folder), "*.csv"))


def test_a_file_is_taken_at_the_second_look_that_finds_it_the_same(watched: World, folder: Path) -> None:
    (folder / "prices.csv").write_text(HEADER + ROW[:20])
    (folder / "other.txt").write_text("nothing")

    assert watched.look()[:3] == (0, 1, None)
    (folder / "prices.csv").write_text(HEADER + ROW)
    assert watched.look()[:3] == (0, 1, None)
    assert watched.look()[:3] == (1, 0, None)

    assert watched.runs() == [("prices.csv", 1, 0, None)]
    assert watched.prices() == {"loves-305": 3.499}
    assert watched.source.file_at == watched.now


def test_the_same_file_is_taken_once_even_under_another_name(watched: World, folder: Path) -> None:
    (folder / "prices.csv").write_text(HEADER + ROW)
    for _ in range(4):
        watched.look()
    os.rename(folder / "prices.csv", folder / "again.csv")
    for _ in range(3):
        watched.look()

    assert watched.runs() == [("prices.csv", 1, 0, None)]


def test_a_file_that_cannot_be_read_is_told_and_the_next_one_taken(watched: World, folder: Path) -> None:
    (folder / "a.csv").write_text("nothing,of,this\n1,2,3\n")
    watched.look()
    look = watched.look()
    assert look.fault is not None
    assert look.fault.startswith("a.csv: the profile 'loves' needs a column 'Store No.'")
    assert watched.look().fault == look.fault  # it stays until the next file
    (folder / "b.csv").write_text(HEADER + ROW + "306,Tulsa,OK,3.9,cheap,36.1,-95.9\n")
    watched.look()

    assert watched.look().fault is None
    assert watched.runs()[0] == ("b.csv", 1, 1, None)
    with watched.database.transaction() as connection:
        (run, _) = latest_runs(connection, watched.company.company_id)
        refused = refused_rows(connection, watched.company.company_id, run.id)
        assert refused_rows(connection, make_fleet(connection).company_id, run.id) is None
    assert [(row.line, row.message) for row in refused or ()] == [(3, "Best Discounted Price: 'cheap' is no number")]


def test_a_file_is_as_old_as_its_time_says(watched: World, folder: Path) -> None:
    for name, price, hours in (("new", "3.499", 1), ("old", "3.599", 5), ("ancient", "3.699", 24 * 9)):
        (folder / f"{name}.csv").write_text(HEADER + ROW.replace("3.499", price))
        at = (watched.now - timedelta(hours=hours)).timestamp()
        os.utime(folder / f"{name}.csv", (at, at))
    watched.look()
    watched.look()

    assert [run[0] for run in watched.runs()] == ["new.csv", "old.csv"]
    assert watched.prices() == {"loves-305": 3.499}


def test_links_and_huge_files_are_not_read(
    watched: World, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text(HEADER + ROW)
    (folder / "link.csv").symlink_to(tmp_path / "secret")
    (folder / "huge.csv").write_text(HEADER + ROW * 30)
    monkeypatch.setattr(price_fetching, "MOST_FILE_BYTES", 1_000)
    watched.look()

    assert watched.look().fault == "huge.csv is larger than 0 MiB: it is no price file"
    assert watched.runs() == []


def test_a_folder_that_is_gone_is_told(stored: Database, company: Fleet, folder: Path) -> None:
    world = World(stored, company, "folder", SourceAddress(str(folder / "none")))

    assert world.look().fault == f"cannot read the folder {folder / 'none'}: No such file or directory"
    assert world.source.fault == world.look().fault


# --- SFTP --------------------------------------------------------------------------------------------------------


def sftp_world(database: Database, company: Fleet, server: SftpServer, secret: str = "right", key: str = "") -> World:
    address = SourceAddress("/", "*.csv", "127.0.0.1", server.port, "fleet", key or server.host_key)
    return World(database, company, "sftp", address, secret=secret)


def test_files_come_from_an_sftp_server_and_the_password_is_sealed(
    stored: Database, company: Fleet, folder: Path
) -> None:
    (folder / "prices.csv").write_text(HEADER + ROW)
    with sftp_server(folder) as server:
        world = sftp_world(stored, company, server)
        assert world.look()[:3] == (0, 1, None)
        assert world.look()[:3] == (1, 0, None)
        assert world.look()[:3] == (0, 0, None)

    assert world.runs() == [("prices.csv", 1, 0, None)]
    assert "right" not in str(world.source.secret)
    assert (world.look().fault or "").startswith("cannot connect to 127.0.0.1")


def test_a_private_key_serves_as_well(stored: Database, company: Fleet, folder: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    with sftp_server(folder, authorized_key=key) as server:
        world = sftp_world(stored, company, server, secret=key.export_private_key().decode())
        assert world.look()[:3] == (0, 0, None)


def test_a_server_with_another_key_gets_no_password(stored: Database, company: Fleet, folder: Path) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
    with sftp_server(folder) as server:
        look = sftp_world(stored, company, server, key=other).look()

    assert "has another key than the one that is pinned" in (look.fault or "")


def test_a_wrong_password_is_told(stored: Database, company: Fleet, folder: Path) -> None:
    with sftp_server(folder) as server:
        look = sftp_world(stored, company, server, secret="wrong").look()

    assert "refuses the user or the password" in (look.fault or "")
    assert "wrong" not in (look.fault or "")


# --- The list ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "address", "secret"),
    [
        ("folder", SourceAddress("relative"), None),
        ("folder", SourceAddress("/a", "b/*.csv"), None),
        ("sftp", SourceAddress("/a"), "x"),
        ("sftp", SourceAddress("/a", host="h", user="u", host_key="ssh-ed25519 AAAA"), None),
        ("sftp", SourceAddress("/a", host="h", user="u", host_key="AAAA"), "x"),
    ],
)
def test_a_source_that_cannot_work_is_refused(
    connection: Connection, fleet: Fleet, now: datetime, kind: SourceKind, address: SourceAddress, secret: str | None
) -> None:
    with pytest.raises(UnusableSource):
        add_source(
            connection,
            fleet.company_id,
            NewSource("daily", kind, "loves", address, secret, takes_retail=False),
            contacts=CONTACTS,
            now=now,
        )


def test_a_source_is_late_once_no_file_came_in_time_and_never_while_it_is_paused(watched: World) -> None:
    source, late = watched.source, watched.now + timedelta(hours=27)

    assert source.late_since(watched.now + timedelta(hours=26)) is None
    assert source.late_since(late) == watched.now + timedelta(hours=26)
    with watched.database.transaction() as connection:
        pause_source(connection, source, now=late)
        assert watched.source.id not in {one.id for one in due_sources(connection, now=late, limit=9)}
    assert watched.source.late_since(late) is None


def test_a_company_sees_its_own_sources_only(watched: World) -> None:
    with watched.database.transaction() as connection:
        other = make_fleet(connection)
        with pytest.raises(UnknownSource):
            read_source(connection, other.company_id, "daily")
        with pytest.raises(UnknownSource):
            read_source(connection, other.company_id, f"src_{watched.source.id.hex}")


def test_a_source_that_is_removed_while_it_is_looked_at_brings_nothing(watched: World, folder: Path) -> None:
    (folder / "prices.csv").write_text(HEADER + ROW)
    watched.look()
    source = watched.source
    with watched.database.transaction() as connection:
        remove_source(connection, source)

    look_at_source(watched.database.transaction, source, contacts=CONTACTS, limits=OutlierLimits(), now=watched.now)

    assert (watched.runs(), watched.prices()) == ([], {})


def test_secrets_are_sealed_anew_with_the_newest_key(stored: Database, company: Fleet) -> None:
    address = SourceAddress("/a", host="h", user="u", host_key="ssh-ed25519 AAAA")
    world = World(stored, company, "sftp", address, secret="right")
    newer = Contacts(f"{Fernet.generate_key().decode()},{KEY}")

    with stored.transaction() as connection:
        sealed = seal_source_secrets(connection, newer)

    assert (sealed.sealed, newer.open(world.source.secret)) == (1, "right")
