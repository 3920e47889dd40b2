"""Sources of price files: folders and SFTP servers, whose files are taken once, whole, and by nobody else."""

import os
import re
import time
from contextlib import nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import asyncssh
import pytest
from cryptography.fernet import Fernet
from psycopg.errors import DiskFull, LockNotAvailable

from domain.accounts.contacts import Contacts
from domain.database.connections import Connection, Database
from domain.needs import overdue
from domain.stations import price_fetching, price_polling
from domain.stations.price_files import store_price_file
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_polling import poll_source
from domain.stations.price_rows import PriceReport
from domain.stations.price_runs import latest_runs, refused_rows
from domain.stations.price_sources import (
    SOURCE_SECRETS,
    NewSource,
    SourceAddress,
    SourceKind,
    UnknownSource,
    UnusableSource,
    add_source,
    due_sources,
    pause_source,
    read_source,
    remove_source,
    resume_source,
)
from tests.domain.stations.source_world import CONTACTS, HEADER, KEY, ROW, World, polls, sftp_world
from tests.factories import DOT, Fleet, make_fleet
from tests.sftp_server import sftp_server, silent_server


def test_a_file_is_taken_at_the_second_look_that_finds_it_the_same(watched: World, folder: Path) -> None:
    (folder / "prices.csv").write_text(HEADER + ROW[:20])
    (folder / "other.txt").write_text("nothing")

    assert watched.poll()[:3] == (0, 1, None)
    (folder / "prices.csv").write_text(HEADER + ROW)
    assert watched.poll()[:3] == (0, 1, None)
    assert watched.poll()[:3] == (1, 0, None)

    assert watched.runs() == [("prices.csv", 1, 0, None)]
    assert watched.prices() == {"loves-305": 3.499}
    assert watched.source.file_at == watched.now


def test_the_same_file_is_taken_once_even_under_another_name(watched: World, folder: Path) -> None:
    (folder / "prices.csv").write_text(HEADER + ROW)
    for _ in range(4):
        watched.poll()
    os.rename(folder / "prices.csv", folder / "again.csv")
    for _ in range(3):
        watched.poll()

    assert watched.runs() == [("prices.csv", 1, 0, None)]


def test_a_file_that_cannot_be_read_is_told_and_the_next_one_taken(watched: World, folder: Path) -> None:
    (folder / "a.csv").write_text("nothing,of,this\n1,2,3\n")
    watched.poll()
    look = watched.poll()
    assert look.fault is not None
    assert look.fault.startswith("a.csv: the profile 'loves' needs a column 'Store No.'")
    assert watched.poll().fault == look.fault  # it stays until the next file
    (folder / "b.csv").write_text(HEADER + ROW + "306,Tulsa,OK,3.9,cheap,36.1,-95.9\n")
    watched.poll()

    assert watched.poll().fault is None
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
    watched.poll()
    watched.poll()

    assert [run[0] for run in watched.runs()] == ["new.csv", "old.csv"]
    assert watched.prices() == {"loves-305": 3.499}


def test_links_and_huge_files_are_not_read(
    watched: World, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text(HEADER + ROW)
    (folder / "link.csv").symlink_to(tmp_path / "secret")
    (folder / "huge.csv").write_text(HEADER + ROW * 30)
    monkeypatch.setattr(price_fetching, "MOST_FILE_BYTES", 1_000)
    watched.poll()

    assert watched.poll().fault == "huge.csv is larger than 0 MiB: it is no price file"
    assert watched.runs() == []


def test_a_folder_that_is_gone_is_told(stored: Database, company: Fleet, folder: Path) -> None:
    world = World(stored, company, "folder", SourceAddress(str(folder / "none")))

    assert world.poll().fault == f"cannot read the folder {folder / 'none'}: No such file or directory"
    assert world.source.fault == world.poll().fault


def put_by_an_old_program(folder: Path) -> None:
    """A file whose name is Latin-1, beside another one."""
    (folder / "prices.csv").write_text(HEADER + ROW)
    with open(os.fsencode(folder) + b"/pre\xe7os.csv", "w") as file:
        file.write(HEADER + ROW.replace("3.499", "3.399"))


TAKEN = {("prices.csv", None), (r"pre\udce7os.csv", None)}


def test_a_file_whose_name_is_not_utf_8_is_taken_too(watched: World, folder: Path) -> None:
    put_by_an_old_program(folder)

    assert polls(watched)[:3] == (2, 0, None)
    assert {(name, fault) for name, _, _, fault in watched.runs()} == TAKEN


# --- SFTP --------------------------------------------------------------------------------------------------------


def test_files_come_from_an_sftp_server_and_the_password_is_sealed(
    stored: Database, company: Fleet, folder: Path
) -> None:
    (folder / "prices.csv").write_text(HEADER + ROW)
    with sftp_server(folder) as server:
        world = sftp_world(stored, company, server)
        assert world.poll()[:3] == (0, 1, None)
        assert world.poll()[:3] == (1, 0, None)
        assert world.poll()[:3] == (0, 0, None)

    assert world.runs() == [("prices.csv", 1, 0, None)]
    assert "right" not in str(world.source.secret)
    assert (world.poll().fault or "").startswith("cannot connect to 127.0.0.1")


def test_a_server_may_have_a_file_whose_name_is_not_utf_8(stored: Database, company: Fleet, folder: Path) -> None:
    put_by_an_old_program(folder)
    with sftp_server(folder) as server:
        world = sftp_world(stored, company, server)
        assert polls(world)[:3] == (2, 0, None)

    assert {(name, fault) for name, _, _, fault in world.runs()} == TAKEN


def test_the_words_of_a_server_that_cannot_be_stored_are_escaped(
    stored: Database, company: Fleet, folder: Path
) -> None:
    with sftp_server(folder, says="no\x00 \x1b[2J") as server:
        world = sftp_world(stored, company, server)
        assert world.poll().fault == world.source.fault == r"127.0.0.1 says: no\u0000 \u001b[2J"


def test_a_private_key_serves_as_well(stored: Database, company: Fleet, folder: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    with sftp_server(folder, authorized_key=key) as server:
        world = sftp_world(stored, company, server, secret=key.export_private_key().decode())
        assert world.poll()[:3] == (0, 0, None)


def test_a_server_with_another_key_gets_no_password(stored: Database, company: Fleet, folder: Path) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
    with sftp_server(folder) as server:
        look = sftp_world(stored, company, server, key=other).poll()

    assert "has another key than the one that is pinned" in (look.fault or "")


def test_a_wrong_password_is_told(stored: Database, company: Fleet, folder: Path) -> None:
    with sftp_server(folder) as server:
        look = sftp_world(stored, company, server, secret="wrong").poll()

    assert "refuses the user or the password" in (look.fault or "")
    assert "wrong" not in (look.fault or "")


@pytest.mark.parametrize("silence", ["list", "read", "close", "stat", "drip", "all"])
def test_a_server_that_falls_silent_is_given_up_in_time(
    stored: Database, company: Fleet, folder: Path, monkeypatch: pytest.MonkeyPatch, silence: Any
) -> None:
    """asyncssh waits for the answer to a farewell: cancelling alone took for ever."""
    monkeypatch.setattr(price_fetching, "FETCH_SECONDS", 1.0)
    (folder / "prices.csv").write_text(HEADER + ROW)
    opened = silent_server() if silence == "all" else sftp_server(folder, silence=silence)
    with opened as server:
        world = sftp_world(stored, company, server)
        started = time.monotonic()
        world.poll()
        look = world.poll()
        took = time.monotonic() - started

    assert re.fullmatch(r"127.0.0.1 did not answer within \d s: ask its people whether it works", look.fault or "")
    assert took < 120
    assert (world.runs(), world.source.failures >= 1) == ([], True)
    assert world.source.failing_since == world.now


def test_a_look_has_a_time_as_a_whole(
    stored: Database, company: Fleet, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(price_fetching, "SOURCE_POLL_SECONDS", 1.5)
    for number in range(5):
        (folder / f"{number}.csv").write_text(HEADER + ROW[:-1] + "0" * number + "\n" * (30 - number))
    with sftp_server(folder, silence="drip") as server:
        world = sftp_world(stored, company, server)
        world.poll()
        started = time.monotonic()
        look = world.poll()

    assert time.monotonic() - started < 120
    assert "did not answer within" in (look.fault or "")


def test_a_source_that_fails_is_asked_less_often_and_at_once_when_it_is_resumed(
    stored: Database, company: Fleet, folder: Path
) -> None:
    world = World(stored, company, "folder", SourceAddress(str(folder / "none")))

    def is_due(minutes: float) -> bool:
        with stored.transaction() as connection:
            return bool(due_sources(connection, now=world.now + timedelta(minutes=minutes), limit=9))

    world.poll()
    assert (is_due(9), is_due(11)) == (False, True)
    world.poll()
    assert (is_due(19), is_due(21)) == (False, True)
    for _ in range(9):
        world.poll()
    assert (is_due(59), is_due(61)) == (False, True)
    with stored.transaction() as connection:
        resume_source(connection, world.source, DOT)
    assert is_due(0)
    (folder / "none").mkdir()
    world.poll()
    assert (world.source.failures, world.source.failing_since, world.source.fault) == (0, None, None)
    assert (is_due(4), is_due(6)) == (False, True)


def test_a_source_whose_file_kills_the_process_is_asked_less_often(
    watched: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        """Nothing runs after it, as after SIGKILL."""

    def kill(*_: object, **__: object) -> None:
        raise Killed

    def minutes_until_due() -> float:
        with watched.database.transaction() as connection:
            return next(
                minutes
                for minutes in range(100)
                if due_sources(connection, now=watched.now + timedelta(minutes=minutes), limit=9)
            )

    monkeypatch.setattr(price_polling, "store_price_file", kill)
    (folder / "prices.csv").write_text(HEADER + ROW)
    watched.poll()
    for minutes in (10, 20, 40, 60, 60):
        with pytest.raises(Killed):
            watched.poll()
        assert minutes_until_due() == minutes
    monkeypatch.undo()
    watched.poll()
    assert (watched.source.failures, minutes_until_due()) == (0, 5)


@pytest.mark.parametrize("trouble", ["none", "kill", "lock"])
def test_an_older_file_that_is_taken_late_leaves_the_newer_prices(
    watched: World, folder: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """Both files have prices of one moment."""

    class Killed(BaseException):
        """Nothing runs after it, as after SIGKILL."""

    def fail_at(price: str, error: BaseException) -> None:
        def store(connection: Connection, company_id: UUID, path: Path, *more: Any, **options: Any) -> PriceReport:
            if price in path.read_text():
                raise error
            return store_price_file(connection, company_id, path, *more, **options)

        monkeypatch.setattr(price_polling, "store_price_file", store)

    for name, price, hours in (("older.csv", "3.599", 5), ("newer.csv", "3.499", 1)):
        day = f"{watched.now:%m/%d/%Y}"
        (folder / name).write_text(f"{HEADER[:-1]},Effective Date\n{ROW[:-1].replace('3.499', price)},{day}\n")
        at = (watched.now - timedelta(hours=hours)).timestamp()
        os.utime(folder / name, (at, at))
    (folder / "newer.csv.csv").write_text("")  # it marks that the other one is whole
    fail_at("3.599", LockNotAvailable() if trouble == "lock" else RuntimeError())
    polls(watched)
    assert watched.prices() == {"loves-305": 3.499}
    monkeypatch.undo()
    watched.now += timedelta(hours=2)
    if trouble == "kill":
        fail_at("3.499", Killed())
    with pytest.raises(Killed) if trouble == "kill" else nullcontext():
        watched.poll()
    monkeypatch.undo()
    watched.poll()

    assert watched.prices() == {"loves-305": 3.499}
    assert {one.state for one in watched.source.seen_files.values()} == {"taken"}


def test_a_full_disk_of_postgres_is_no_fault_of_the_file(
    watched: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file was called failed, and tried again after an hour."""
    (folder / "prices.csv").write_text(HEADER + ROW)
    watched.poll()
    monkeypatch.setattr(price_polling, "store_price_file", Mock(side_effect=DiskFull))
    with pytest.raises(DiskFull):
        watched.poll()
    monkeypatch.undo()

    assert watched.poll()[:3] == (1, 0, None)
    assert watched.prices() == {"loves-305": 3.499}


def test_a_source_with_a_file_that_may_still_be_written_is_looked_at_again_soon(watched: World, folder: Path) -> None:
    def is_due(seconds: float) -> bool:
        with watched.database.transaction() as connection:
            return bool(due_sources(connection, now=watched.now + timedelta(seconds=seconds), limit=9))

    (folder / "prices.csv").write_text(HEADER + ROW)
    watched.poll()
    assert (is_due(29), is_due(31)) == (False, True)
    assert watched.source.looked_at == watched.now
    watched.poll()
    assert (is_due(31), is_due(299), is_due(301)) == (False, False, True)


def test_a_source_that_fails_for_an_hour_is_in_trouble_though_its_file_is_not_late_yet(
    stored: Database, company: Fleet, folder: Path
) -> None:
    world = World(stored, company, "folder", SourceAddress(str(folder / "none")))
    began = world.now
    world.poll()

    assert world.source.trouble_since(began + timedelta(minutes=59)) is None
    assert world.source.trouble_since(began + timedelta(minutes=61)) == began
    later = began + timedelta(minutes=61)
    with stored.transaction() as connection:
        (row,) = overdue.rows(connection, "late-price-files", limit=9, now=later)
        assert (row.about, row.since, "No such file" in row.detail) == ("daily", began, True)
        pause_source(connection, world.source, DOT, now=later)
    assert world.source.trouble_since(later) is None


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
            DOT,
            contacts=CONTACTS,
            now=now,
        )


def test_a_source_is_late_once_no_file_came_in_time_and_never_while_it_is_paused(watched: World) -> None:
    source, late = watched.source, watched.now + timedelta(hours=27)

    assert source.late_since(watched.now + timedelta(hours=26)) is None
    assert source.late_since(late) == watched.now + timedelta(hours=26)
    with watched.database.transaction() as connection:
        pause_source(connection, source, DOT, now=late)
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
    watched.poll()
    source = watched.source
    with watched.database.transaction() as connection:
        remove_source(connection, source, DOT)

    begin, limits = watched.database.transaction, OutlierLimits()
    poll_source(begin, source, contacts=CONTACTS, limits=limits, now=watched.now)

    assert (watched.runs(), watched.prices()) == ([], {})


def test_secrets_are_sealed_anew_with_the_newest_key(stored: Database, company: Fleet) -> None:
    address = SourceAddress("/a", host="h", user="u", host_key="ssh-ed25519 AAAA")
    world = World(stored, company, "sftp", address, secret="right")
    newer = Contacts(f"{Fernet.generate_key().decode()},{KEY}")

    with stored.transaction() as connection:
        sealed = SOURCE_SECRETS.seal(connection, newer)

    assert (sealed.sealed, newer.open(world.source.secret)) == (1, "right")
