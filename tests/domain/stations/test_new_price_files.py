"""The rule for a new file of a source: whatever changes a price is one, and nothing is one twice."""

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.database.connections import Connection, Database
from domain.files.csvfiles import UnreadableFile
from domain.files.kept_profiles import keep_profile
from domain.files.profiles import Column, FileProfile
from domain.stations import price_fetching, price_polling
from domain.stations.price_files import store_price_file
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_profiles import BUILT_IN
from domain.stations.price_sources import (
    SeenFile,
    SourceAddress,
    note_poll,
)
from tests.domain.stations.source_world import HEADER, ROW, World, polls, put, sftp_world
from tests.factories import Fleet
from tests.repeatable import examples
from tests.sftp_server import sftp_server


def test_the_same_prices_in_the_file_of_the_next_day_count_for_seven_days_more(watched: World, folder: Path) -> None:
    began = watched.now
    for day in range(12):
        watched.now = began + timedelta(days=day)
        put(folder, "prices.csv", "3.499", watched.now)
        polls(watched)

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
        polls(watched)

    assert watched.prices() == {"loves-305": 3.499}
    assert len(watched.runs()) == 3


@hypothesis_settings(
    max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
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
        polls(watched)

    assert watched.prices()["loves-305"] == float(files[-1][0])
    assert len(watched.runs()) == len(files), "each is taken once"
    assert polls(watched, 3).files == 0


def test_a_file_that_failed_by_its_profile_is_taken_once_the_profile_is_mended(
    stored: Database, company: Fleet, folder: Path
) -> None:
    world = World(stored, company, "folder", SourceAddress(str(folder), "*.csv"), profile="ours")
    keep_price_profile(world, "Another price")
    put(folder, "prices.csv", "3.499", world.now - timedelta(hours=2))
    put(folder, "later.csv", "3.299", world.now - timedelta(hours=1))
    assert "needs a column" in (polls(world).fault or "")
    assert polls(world, 3).files == 0, "a file that failed is not read at every look"

    keep_price_profile(world, "Best Discounted Price")
    assert world.poll()[:3] == (2, 0, None)

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
    monkeypatch.setattr(price_polling, "store_price_file", raising(UnreadableFile("no limits yet")))
    assert polls(watched).fault == "prices.csv: no limits yet"
    for _ in range(3):
        watched.now += timedelta(minutes=61)
        assert watched.poll().fault == "prices.csv: no limits yet"
    assert len(watched.runs()) == 1, "the same fault is told once"
    monkeypatch.undo()

    assert watched.poll(retry=True)[:3] == (1, 0, None)
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
    assert polls(watched).files == 2
    monkeypatch.undo()
    (folder / "early.csv").rename(folder / "away")
    watched.poll(retry=True)
    (folder / "away").rename(folder / "early.csv")
    with watched.database.transaction() as connection:
        seen = {**watched.source.seen_files, "early.csv": failed_before(folder / "early.csv")}
        note_poll(connection, watched.source, fault=None, seen=seen, failed=False, now=watched.now)

    assert watched.poll(retry=True).files == 2
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
    imported = store_price_file

    def odd(connection: Connection, *given: Any, **named: Any) -> Any:
        if named["priced_at"] < watched.now - timedelta(minutes=5):
            raise ZeroDivisionError
        return imported(connection, *given, **named)

    monkeypatch.setattr(price_polling, "store_price_file", odd)
    monkeypatch.setattr(price_fetching, "MOST_FILE_BYTES", 1_000)

    assert polls(watched)[:3] == (3, 0, None)
    assert watched.prices() == {"loves-305": 3.499}
    assert watched.source.seen_files["odd.csv"].fault == "odd.csv: something failed on our side"


def test_a_file_that_is_replaced_while_it_is_read_is_taken_later(
    watched: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place, with the same size: half of it is the old one."""
    put(folder, "prices.csv", "3.499", watched.now - timedelta(hours=1))
    watched.poll()
    opened = os.open

    def replaced(path: Path, flags: int, **named: Any) -> int:
        found = opened(path, flags, **named)
        if path == folder / "prices.csv":
            put(folder, "prices.csv", "3.299", watched.now)
        return found

    monkeypatch.setattr("os.open", replaced)
    assert watched.poll()[:3] == (0, 1, None)
    monkeypatch.undo()
    polls(watched)

    assert watched.prices() == {"loves-305": 3.299}
    assert len(watched.runs()) == 1


def test_a_file_that_brings_no_price_is_told_and_its_source_stays_late(watched: World, folder: Path) -> None:
    put(folder, "rows.csv", "cheap", watched.now - timedelta(minutes=1))
    assert polls(watched).fault == (
        "rows.csv: none of its 1 row can be used; line 2: Best Discounted Price: 'cheap' is no number"
    )
    assert watched.runs() == [("rows.csv", 0, 1, watched.source.fault)]
    (folder / "heading.csv").write_text(HEADER)
    assert polls(watched).fault == "heading.csv: it has no rows with prices"

    assert watched.source.file_at is None
    assert watched.source.late_since(watched.now + timedelta(hours=27)) is not None


def test_an_empty_file_and_one_that_never_gets_whole_are_told(watched: World, folder: Path) -> None:
    (folder / "empty.csv").write_text("")
    assert polls(watched)[:3] == (0, 1, None)
    watched.now += timedelta(minutes=61)
    assert watched.poll()[:3] == (0, 0, "empty.csv: it has been empty for an hour: ask whoever sends it")
    (folder / "empty.csv").write_text(HEADER + ROW)
    assert polls(watched)[:3] == (1, 0, None)


@pytest.mark.parametrize("name", ["p.csv.filepart", "p.csv.part", ".p.csv.a1B2c3", "~$p.csv", "p.csv.tmp", "p.csv~"])
def test_a_file_under_a_name_of_one_that_is_not_whole_is_left_alone(
    stored: Database, company: Fleet, folder: Path, name: str
) -> None:
    world = World(stored, company, "folder", SourceAddress(str(folder), "*"))
    put(folder, name, "3.499", world.now)
    assert polls(world, 3)[:3] == (0, 0, None)
    (folder / name).rename(folder / "p.csv")
    assert polls(world)[:3] == (1, 0, None)


def test_a_pattern_may_ask_for_such_names(stored: Database, company: Fleet, folder: Path) -> None:
    world = World(stored, company, "folder", SourceAddress(str(folder), "*.tmp"))
    put(folder, "prices.tmp", "3.499", world.now)
    assert polls(world).files == 1


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
            polls(world)

    assert world.prices() == {"loves-305": 3.499}
    assert len(world.runs()) == 4
    assert world.source.file_at == world.now


def test_a_server_that_tells_no_times_brings_each_new_content(stored: Database, company: Fleet, folder: Path) -> None:
    with sftp_server(folder, times={"prices.csv": 0}) as server:
        world = sftp_world(stored, company, server)
        for day, price in enumerate(("3.499", "3.299", "3.499")):
            world.now += timedelta(days=bool(day))
            (folder / "prices.csv").write_text(HEADER + ROW.replace("3.499", price))
            polls(world, 3)

    assert world.prices() == {"loves-305": 3.499}
    assert len(world.runs()) == 3, "the same content is not imported at every look"


def test_a_new_file_with_an_old_time_is_told_and_history_is_not_read(watched: World, folder: Path) -> None:
    old = watched.now - timedelta(days=20)
    put(folder, "history.csv", "3.499", old)
    assert polls(watched)[:3] == (0, 0, None)
    put(folder, "came.csv", "3.499", old + timedelta(days=1))

    assert "prices count for 7 days" in (polls(watched).fault or "")
    assert [run[0] for run in watched.runs()] == ["came.csv"]


def test_two_sources_may_bring_the_same_file(stored: Database, company: Fleet, folder: Path) -> None:
    first = World(stored, company, "folder", SourceAddress(str(folder), "*.csv"))
    second = World(stored, company, "folder", SourceAddress(str(folder), "*.csv"), name="backup")
    put(folder, "prices.csv", "3.499", first.now)
    for world in (first, second):
        polls(world)

    assert len(first.runs()) == 2
    assert (first.source.file_at, second.source.file_at) == (first.now, second.now)
    assert first.prices() == {"loves-305": 3.499}


def test_a_file_that_a_person_has_taken_already_comes_from_its_source_too(watched: World, folder: Path) -> None:
    put(folder, "prices.csv", "3.499", watched.now - timedelta(hours=1))
    with watched.database.transaction() as connection:
        store_price_file(
            connection,
            watched.company.company_id,
            folder / "prices.csv",
            BUILT_IN["loves"],
            takes_retail=True,
            limits=OutlierLimits(),
            now=watched.now,
        )
    assert polls(watched)[:3] == (1, 0, None)
    assert watched.source.file_at == watched.now


def test_files_that_an_earlier_release_took_are_not_taken_again(watched: World, folder: Path) -> None:
    put(folder, "prices.csv", "3.499", watched.now - timedelta(hours=1))
    polls(watched)
    with watched.database.transaction() as connection:
        connection.execute("UPDATE price_runs SET modified_at = NULL, read_with = NULL")
        connection.execute(
            "UPDATE price_sources SET seen = (SELECT jsonb_object_agg(key, jsonb_build_array(value -> 0, value -> 1,"
            " 'taken')) FROM jsonb_each(seen))"
        )
    assert polls(watched)[:3] == (0, 0, None)
    watched.now += timedelta(days=1)
    put(folder, "prices.csv", "3.499", watched.now)
    assert polls(watched)[:3] == (1, 0, None)
