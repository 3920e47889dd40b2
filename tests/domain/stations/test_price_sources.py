"""Sources of price files: folders and SFTP servers, whose files are taken once, whole, and by nobody else."""

import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from cryptography.fernet import Fernet
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.accounts.contacts import Contacts
from domain.contract.csvfiles import UnreadableFile
from domain.database import Connection, Database
from domain.file_profiles.kept_profiles import keep_profile
from domain.file_profiles.profiles import Column, FileProfile
from domain.operations import overdue
from domain.routes.plans import price_sources as plan_sources
from domain.routes.plans.price_changes import import_price_file
from domain.routes.plans.price_sources import SourceLook, look_at_source
from domain.stations import price_fetching
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_profiles import BUILT_IN
from domain.stations.price_runs import latest_runs, refused_rows
from domain.stations.price_sources import (
    NewSource,
    PriceSource,
    SeenFile,
    SourceAddress,
    SourceKind,
    UnknownSource,
    UnusableSource,
    add_source,
    due_sources,
    note_look,
    pause_source,
    read_source,
    remove_source,
    resume_source,
    seal_source_secrets,
)
from tests.conftest import own_database
from tests.factories import Fleet, make_fleet
from tests.sftp_server import SftpServer, sftp_server, silent_server

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
        *,
        name: str = "daily",
        profile: str = "loves",
    ) -> None:
        self.database, self.company, self.name = database, company, name
        self.now = datetime.now().astimezone()
        with database.transaction() as connection:
            new = NewSource(name, kind, profile, address, secret, takes_retail=True)
            add_source(connection, company.company_id, new, contacts=CONTACTS, now=self.now)

    @property
    def source(self) -> PriceSource:
        with self.database.transaction() as connection:
            return read_source(connection, self.company.company_id, self.name)

    def look(self, *, retry: bool = False) -> SourceLook:
        return look_at_source(
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
        world.look()
        look = world.look()
        took = time.monotonic() - started

    assert re.fullmatch(r"127.0.0.1 did not answer within \d s: ask its people whether it works", look.fault or "")
    assert took < 8
    assert (world.runs(), world.source.failures >= 1) == ([], True)
    assert world.source.failing_since == world.now


def test_a_look_has_a_time_as_a_whole(
    stored: Database, company: Fleet, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(price_fetching, "LOOK_SECONDS", 1.5)
    for number in range(5):
        (folder / f"{number}.csv").write_text(HEADER + ROW[:-1] + "0" * number + "\n" * (30 - number))
    with sftp_server(folder, silence="drip") as server:
        world = sftp_world(stored, company, server)
        world.look()
        started = time.monotonic()
        look = world.look()

    assert time.monotonic() - started < 5
    assert "did not answer within" in (look.fault or "")


def test_a_source_that_fails_is_asked_less_often_and_at_once_when_it_is_resumed(
    stored: Database, company: Fleet, folder: Path
) -> None:
    world = World(stored, company, "folder", SourceAddress(str(folder / "none")))

    def is_due(minutes: float) -> bool:
        with stored.transaction() as connection:
            return bool(due_sources(connection, now=world.now + timedelta(minutes=minutes), limit=9))

    world.look()
    assert (is_due(9), is_due(11)) == (False, True)
    world.look()
    assert (is_due(19), is_due(21)) == (False, True)
    for _ in range(9):
        world.look()
    assert (is_due(59), is_due(61)) == (False, True)
    with stored.transaction() as connection:
        resume_source(connection, world.source)
    assert is_due(0)
    (folder / "none").mkdir()
    world.look()
    assert (world.source.failures, world.source.failing_since, world.source.fault) == (0, None, None)
    assert (is_due(4), is_due(6)) == (False, True)


def test_a_source_that_fails_for_an_hour_is_in_trouble_though_its_file_is_not_late_yet(
    stored: Database, company: Fleet, folder: Path
) -> None:
    world = World(stored, company, "folder", SourceAddress(str(folder / "none")))
    began = world.now
    world.look()

    assert world.source.trouble_since(began + timedelta(minutes=59)) is None
    assert world.source.trouble_since(began + timedelta(minutes=61)) == began
    later = began + timedelta(minutes=61)
    with stored.transaction() as connection:
        (row,) = overdue.rows(connection, "late-price-files", limit=9, now=later)
        assert (row.about, row.since, "No such file" in row.detail) == ("daily", began, True)
        pause_source(connection, world.source, now=later)
    assert world.source.trouble_since(later) is None


# --- What is a new file ------------------------------------------------------------------------------------------


def put(folder: Path, name: str, price: str, at: datetime) -> None:
    """A file without dates of its own, as old as its time says."""
    (folder / name).write_text(HEADER + ROW.replace("3.499", price))
    os.utime(folder / name, (at.timestamp(), at.timestamp()))


def looks(world: World, count: int = 2) -> SourceLook:
    for _ in range(count):
        look = world.look()
    return look


def test_the_same_prices_in_the_file_of_the_next_day_count_for_seven_days_more(watched: World, folder: Path) -> None:
    began = watched.now
    for day in range(12):
        watched.now = began + timedelta(days=day)
        put(folder, "prices.csv", "3.499", watched.now)
        looks(watched)

    with watched.database.transaction() as connection:
        ((effective_at,),) = connection.execute("SELECT max(effective_at) FROM quotes").fetchall()
    assert abs(effective_at - watched.now) < timedelta(seconds=2)
    assert watched.source.file_at == watched.now
    assert watched.source.late_since(watched.now + timedelta(hours=25)) is None


def test_a_price_that_goes_back_to_an_earlier_one_goes_back(watched: World, folder: Path) -> None:
    began = watched.now
    for day, price in enumerate(("3.499", "3.299", "3.499")):
        watched.now = began + timedelta(days=day)
        put(folder, "prices.csv", price, watched.now)
        looks(watched)

    assert watched.prices() == {"loves-305": 3.499}
    assert len(watched.runs()) == 3


@hypothesis_settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["3.499", "3.299", "3.399"]),
            st.sampled_from(["prices.csv", "b.csv", "c.csv"]),
            st.integers(1, 40),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_the_newest_file_s_price_counts_whatever_came_before(
    watched: World, folder: Path, files: list[tuple[str, str, int]]
) -> None:
    with watched.database.transaction() as connection:
        for table in ("quotes", "price_runs"):
            connection.execute(f"DELETE FROM {table}")
        connection.execute("UPDATE price_sources SET seen = '{}'")
    for old in folder.iterdir():
        old.unlink()
    for price, name, hours in files:
        watched.now += timedelta(hours=hours)
        put(folder, name, price, watched.now)
        looks(watched)

    assert watched.prices()["loves-305"] == float(files[-1][0])
    assert len(watched.runs()) == len(files), "each is taken once"
    assert looks(watched, 3).files == 0


def test_a_file_that_failed_by_its_profile_is_taken_once_the_profile_is_mended(
    stored: Database, company: Fleet, folder: Path
) -> None:
    world = World(stored, company, "folder", SourceAddress(str(folder), "*.csv"), profile="ours")
    keep_price_profile(world, "Another price")
    put(folder, "prices.csv", "3.499", world.now - timedelta(hours=2))
    put(folder, "later.csv", "3.299", world.now - timedelta(hours=1))
    assert "needs a column" in (looks(world).fault or "")
    assert looks(world, 3).files == 0, "a file that failed is not read at every look"

    keep_price_profile(world, "Best Discounted Price")
    assert world.look()[:3] == (2, 0, None)

    assert world.prices() == {"loves-305": 3.299}
    assert [run[3] is None for run in world.runs()] == [True, True, False, False]


def keep_price_profile(world: World, net_price: str) -> None:
    columns = {**BUILT_IN["loves"].columns, "net_price": Column((net_price,)), "retail_price": Column(("none",))}
    ours = FileProfile("ours", "prices", columns, BUILT_IN["loves"].constants, code_set="loves")
    with world.database.transaction() as connection:
        keep_profile(connection, world.company.company_id, ours, now=world.now)


def test_a_file_that_failed_for_another_cause_is_tried_each_hour_and_a_person_tries_it_at_once(
    watched: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "prices.csv", "3.499", watched.now)
    monkeypatch.setattr(plan_sources, "import_price_file", raising(UnreadableFile("no limits yet")))
    assert looks(watched).fault == "prices.csv: no limits yet"
    for _ in range(3):
        watched.now += timedelta(minutes=61)
        assert watched.look().fault == "prices.csv: no limits yet"
    assert len(watched.runs()) == 1, "the same fault is told once"
    monkeypatch.undo()

    assert watched.look(retry=True)[:3] == (1, 0, None)
    assert watched.prices() == {"loves-305": 3.499}


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def test_an_older_file_that_is_taken_late_does_not_stay_above_a_newer_one(
    watched: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both say the same day; the later of them is right."""
    dated, day = HEADER.replace("Longitude", "Longitude,Effective Date"), f",{watched.now:%m/%d/%Y}\n"
    for name, price, hours in (("early.csv", "3.499", 2), ("late.csv", "3.299", 1)):
        (folder / name).write_text(dated + ROW.replace("3.499", price).replace("\n", day))
        at = (watched.now - timedelta(hours=hours)).timestamp()
        os.utime(folder / name, (at, at))
    monkeypatch.setattr(price_fetching, "MOST_FILE_BYTES", 1)
    assert looks(watched).files == 2
    monkeypatch.undo()
    (folder / "early.csv").rename(folder / "away")
    watched.look(retry=True)
    (folder / "away").rename(folder / "early.csv")
    with watched.database.transaction() as connection:
        seen = {**watched.source.seen_files, "early.csv": failed_before(folder / "early.csv")}
        note_look(connection, watched.source, fault=None, seen=seen, failed=False, now=watched.now)

    assert watched.look(retry=True).files == 2
    assert watched.prices() == {"loves-305": 3.299}


def failed_before(path: Path) -> SeenFile:
    return SeenFile(path.stat().st_size, int(path.stat().st_mtime), "failed", fault="early.csv: x")


def test_a_file_that_fails_does_not_hold_up_the_newer_ones(
    watched: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "huge.csv").write_text(HEADER + ROW * 30)
    os.utime(folder / "huge.csv", (watched.now.timestamp() - 3_600,) * 2)
    put(folder, "odd.csv", "3.599", watched.now - timedelta(minutes=30))
    put(folder, "prices.csv", "3.499", watched.now)
    imported = import_price_file

    def odd(connection: Connection, *given: Any, **named: Any) -> Any:
        if named["priced_at"] < watched.now - timedelta(minutes=5):
            raise ZeroDivisionError
        return imported(connection, *given, **named)

    monkeypatch.setattr(plan_sources, "import_price_file", odd)
    monkeypatch.setattr(price_fetching, "MOST_FILE_BYTES", 1_000)

    assert looks(watched)[:3] == (3, 0, None)
    assert watched.prices() == {"loves-305": 3.499}
    assert watched.source.seen_files["odd.csv"].fault == "odd.csv: something failed on our side"


def test_a_file_that_is_replaced_while_it_is_read_is_taken_later(
    watched: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place, with the same size: half of it is the old one."""
    put(folder, "prices.csv", "3.499", watched.now - timedelta(hours=1))
    watched.look()
    opened = os.open

    def replaced(path: Path, flags: int, **named: Any) -> int:
        found = opened(path, flags, **named)
        if path == folder / "prices.csv":
            put(folder, "prices.csv", "3.299", watched.now)
        return found

    monkeypatch.setattr("os.open", replaced)
    assert watched.look()[:3] == (0, 1, None)
    monkeypatch.undo()
    looks(watched)

    assert watched.prices() == {"loves-305": 3.299}
    assert len(watched.runs()) == 1


def test_a_file_that_brings_no_price_is_told_and_its_source_stays_late(watched: World, folder: Path) -> None:
    put(folder, "rows.csv", "cheap", watched.now - timedelta(minutes=1))
    assert looks(watched).fault == (
        "rows.csv: none of its 1 row can be used; line 2: Best Discounted Price: 'cheap' is no number"
    )
    assert watched.runs() == [("rows.csv", 0, 1, watched.source.fault)]
    (folder / "heading.csv").write_text(HEADER)
    assert looks(watched).fault == "heading.csv: it has no rows with prices"

    assert watched.source.file_at is None
    assert watched.source.late_since(watched.now + timedelta(hours=27)) is not None


def test_an_empty_file_and_one_that_never_gets_whole_are_told(watched: World, folder: Path) -> None:
    (folder / "empty.csv").write_text("")
    assert looks(watched)[:3] == (0, 1, None)
    watched.now += timedelta(minutes=61)
    assert watched.look()[:3] == (0, 0, "empty.csv: it has been empty for an hour: ask whoever sends it")
    (folder / "empty.csv").write_text(HEADER + ROW)
    assert looks(watched)[:3] == (1, 0, None)


@pytest.mark.parametrize("name", ["p.csv.filepart", "p.csv.part", ".p.csv.a1B2c3", "~$p.csv", "p.csv.tmp", "p.csv~"])
def test_a_file_under_a_name_of_one_that_is_not_whole_is_left_alone(
    stored: Database, company: Fleet, folder: Path, name: str
) -> None:
    world = World(stored, company, "folder", SourceAddress(str(folder), "*"))
    put(folder, name, "3.499", world.now)
    assert looks(world, 3)[:3] == (0, 0, None)
    (folder / name).rename(folder / "p.csv")
    assert looks(world)[:3] == (1, 0, None)


def test_a_pattern_may_ask_for_such_names(stored: Database, company: Fleet, folder: Path) -> None:
    world = World(stored, company, "folder", SourceAddress(str(folder), "*.tmp"))
    put(folder, "prices.tmp", "3.499", world.now)
    assert looks(world).files == 1


@pytest.mark.parametrize("ahead_hours", [-30, 5, 24 * 400])
def test_a_server_with_a_wrong_clock_gives_each_file_s_prices_in_order(
    stored: Database, company: Fleet, folder: Path, ahead_hours: int
) -> None:
    times: dict[str, int] = {}
    with sftp_server(folder, times=times) as server:
        world = sftp_world(stored, company, server)
        for day, price in enumerate(("3.499", "3.299", "3.499", "3.499")):
            world.now += timedelta(days=bool(day))
            (folder / "prices.csv").write_text(HEADER + ROW.replace("3.499", price))
            times["prices.csv"] = int((world.now + timedelta(hours=ahead_hours)).timestamp())
            looks(world)

    assert world.prices() == {"loves-305": 3.499}
    assert len(world.runs()) == 4
    assert world.source.file_at == world.now


def test_a_server_that_tells_no_times_brings_each_new_content(stored: Database, company: Fleet, folder: Path) -> None:
    with sftp_server(folder, times={"prices.csv": 0}) as server:
        world = sftp_world(stored, company, server)
        for day, price in enumerate(("3.499", "3.299", "3.499")):
            world.now += timedelta(days=bool(day))
            (folder / "prices.csv").write_text(HEADER + ROW.replace("3.499", price))
            looks(world, 3)

    assert world.prices() == {"loves-305": 3.499}
    assert len(world.runs()) == 3, "the same content is not imported at every look"


def test_a_new_file_with_an_old_time_is_told_and_history_is_not_read(watched: World, folder: Path) -> None:
    old = watched.now - timedelta(days=20)
    put(folder, "history.csv", "3.499", old)
    assert looks(watched)[:3] == (0, 0, None)
    put(folder, "came.csv", "3.499", old + timedelta(days=1))

    assert "prices count for 7 days" in (looks(watched).fault or "")
    assert [run[0] for run in watched.runs()] == ["came.csv"]


def test_two_sources_may_bring_the_same_file(stored: Database, company: Fleet, folder: Path) -> None:
    first = World(stored, company, "folder", SourceAddress(str(folder), "*.csv"))
    second = World(stored, company, "folder", SourceAddress(str(folder), "*.csv"), name="backup")
    put(folder, "prices.csv", "3.499", first.now)
    for world in (first, second):
        looks(world)

    assert len(first.runs()) == 2
    assert (first.source.file_at, second.source.file_at) == (first.now, second.now)
    assert first.prices() == {"loves-305": 3.499}


def test_a_file_that_a_person_has_taken_already_comes_from_its_source_too(watched: World, folder: Path) -> None:
    put(folder, "prices.csv", "3.499", watched.now - timedelta(hours=1))
    with watched.database.transaction() as connection:
        import_price_file(
            connection,
            watched.company.company_id,
            folder / "prices.csv",
            BUILT_IN["loves"],
            takes_retail=True,
            limits=OutlierLimits(),
            now=watched.now,
        )
    assert looks(watched)[:3] == (1, 0, None)
    assert watched.source.file_at == watched.now


def test_files_that_an_earlier_release_took_are_not_taken_again(watched: World, folder: Path) -> None:
    put(folder, "prices.csv", "3.499", watched.now - timedelta(hours=1))
    looks(watched)
    with watched.database.transaction() as connection:
        connection.execute("UPDATE price_runs SET modified_at = NULL, read_with = NULL")
        connection.execute(
            "UPDATE price_sources SET seen = (SELECT jsonb_object_agg(key, jsonb_build_array(value -> 0, value -> 1,"
            " 'taken')) FROM jsonb_each(seen))"
        )
    assert looks(watched)[:3] == (0, 0, None)
    watched.now += timedelta(days=1)
    put(folder, "prices.csv", "3.499", watched.now)
    assert looks(watched)[:3] == (1, 0, None)


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
