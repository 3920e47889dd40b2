"""Looks at sources of price files: a source that is silent holds up no other one, no coming price, and no pass."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from uuid import UUID

import pytest

from domain.accounts.contacts import IN_CLEAR
from domain.ids import new_id
from domain.stations import price_fetching
from domain.stations.price_sources import NewSource, PriceSource, SourceAddress, add_source, read_source
from scheduler import passes as scheduler_passes
from scheduler import source_polls
from scheduler.passes import Passes
from scheduler.source_polls import SourcePolls, in_turns_of_companies
from tests.factories import DOT, Fleet, make_fleet
from tests.service import eventually
from tests.sftp_server import sftp_server, silent_server

FILE = "Store No.,City,State,Best Discounted Price,Retail Price,Latitude,Longitude\n305,Elkhart,IN,3.4,3.9,41.7,-85.9\n"


@pytest.fixture
def company(passes: Passes) -> Fleet:
    with passes.database.transaction() as connection:
        for table in ("stations", "coming_prices", "price_sources", "price_runs", "quotes"):
            connection.execute(f"DELETE FROM {table}")
        return make_fleet(connection)


def add(passes: Passes, company: Fleet, name: str, address: SourceAddress, secret: str | None = None) -> None:
    kind = "sftp" if address.host else "folder"
    with passes.database.transaction() as connection:
        new = NewSource(name, kind, "loves", address, secret, takes_retail=True)  # type: ignore[arg-type]
        add_source(connection, company.company_id, new, DOT, contacts=IN_CLEAR, now=datetime.now().astimezone())


def source(passes: Passes, company: Fleet, name: str) -> PriceSource:
    with passes.database.transaction() as connection:
        return read_source(connection, company.company_id, name)


def look_soon(passes: Passes) -> None:
    with passes.database.transaction() as connection:
        connection.execute("UPDATE price_sources SET looked_at = NULL")


def test_silent_servers_hold_up_neither_other_sources_nor_coming_prices_nor_the_pass(
    passes: Passes, company: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(price_fetching, "FETCH_SECONDS", 600.0)
    monkeypatch.setattr(price_fetching, "SFTP_CONNECT_SECONDS", 600.0)
    monkeypatch.setattr(scheduler_passes, "_POLLS_SECONDS", 2.0)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "prices.csv").write_text(FILE)
    with ExitStack() as servers:
        companies: list[Fleet] = []
        silent = [servers.enter_context(silent_server()) for _ in range(3)]
        silent.append(servers.enter_context(sftp_server(tmp_path / "files", silence="list")))
        for server in silent:
            with passes.database.transaction() as connection:
                other = make_fleet(connection)
            add(
                passes,
                other,
                "silent",
                SourceAddress("/", "*", "127.0.0.1", server.port, "fleet", server.host_key),
                "right",
            )
            companies.append(other)
        add(passes, company, "folder", SourceAddress(str(tmp_path / "files")))
        with passes.database.transaction() as connection:
            connection.execute(
                "INSERT INTO stations (station_id, name, latitude, longitude) VALUES ('S', 'S', 41, -87)"
            )
            connection.execute("INSERT INTO coming_prices VALUES ('S', now() - interval '1 s', 3.7)")

        def files_of_a_pass() -> int:
            look_soon(passes)
            return passes.price_sources()["price_files"]

        assert files_of_a_pass() == 0
        eventually(files_of_a_pass, lambda files: files == 1)
        assert source(passes, companies[0], "silent").fault is None, "no pass waits for the silent ones"
        with passes.database.transaction() as connection:
            ((retail,),) = connection.execute("SELECT retail_price FROM stations WHERE station_id = 'S'").fetchall()
        assert retail == 3.7
    eventually(lambda: source(passes, companies[0], "silent").fault, bool)


def test_a_failure_on_our_side_is_noted_and_ends_no_pass(
    passes: Passes, company: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(scheduler_passes, "poll_source", fail)
    add(passes, company, "folder", SourceAddress(str(tmp_path)))

    assert passes.price_sources() == {"price_files": 0}
    assert source(passes, company, "folder").fault == "something failed on our side"
    assert source(passes, company, "folder").failures == 1


# --- Who has a turn ----------------------------------------------------------------------------------------------


def made(company_id: UUID, name: str, *, failures: int = 0) -> PriceSource:
    now = datetime.now().astimezone()
    return PriceSource(
        new_id(),
        company_id,
        name,
        "folder",
        "loves",
        {},
        None,
        True,
        26,
        now,
        None,
        None,
        None,
        None,
        {},
        failures,
        None,
    )


class Held:
    """Looks that end when the test lets them."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.let_go = threading.Event()

    def __call__(self, one: PriceSource) -> int:
        self.begun.append(one.name)
        self.let_go.wait(180)
        return 1


@pytest.fixture
def held() -> Iterator[Held]:
    one = Held()
    yield one
    one.let_go.set()


def test_a_company_and_sources_that_fail_have_a_part_of_the_threads(held: Held) -> None:
    polls, many, few = SourcePolls(), new_id(), new_id()
    due = [made(many, f"many {number}") for number in range(9)]
    due += [made(new_id(), f"failing {number}", failures=2) for number in range(9)]
    due.append(made(few, "few"))

    assert polls.run(due, held, seconds=0.1) == 0
    begun = ["failing 0", "failing 1", "few", "many 0", "many 1", "many 2", "many 3"]
    eventually(lambda: sorted(held.begun), lambda names: names == begun)
    assert polls.run(due, held, seconds=0.1) == 0
    assert len(held.begun) == 7, "no source is looked at twice at a time"

    held.let_go.set()
    assert polls.run([], held, seconds=180) == 7


def test_threads_are_taken_as_they_get_free() -> None:
    begun: list[str] = []

    def quick(one: PriceSource) -> int:
        begun.append(one.name)
        return 2

    due = [made(new_id(), str(number), failures=number % 2) for number in range(40)]
    assert SourcePolls().run(due, quick, seconds=180) == 80
    assert sorted(begun) == sorted(str(number) for number in range(40))


def test_a_look_that_never_ends_takes_no_thread_from_others_and_is_told_once(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk of a folder is away: nothing ends such a thread."""
    monkeypatch.setattr(source_polls, "STUCK_SECONDS", 0.2)
    polls = SourcePolls()
    stuck = [made(new_id(), f"stuck {number}") for number in range(source_polls.MOST_AT_ONCE)]
    assert polls.run(stuck, held, seconds=0.1) == 0
    told: list[str] = []

    def told_now() -> list[str]:
        told.extend(one.name for one in polls.newly_stuck())
        return sorted(told)

    eventually(told_now, lambda names: names == sorted(one.name for one in stuck))
    assert polls.newly_stuck() == []

    assert polls.run([*stuck, made(new_id(), "other")], lambda _: 1, seconds=180) == 1


def test_companies_take_turns_and_what_fails_comes_last() -> None:
    one, two = new_id(), new_id()
    due = [made(one, "f", failures=1), made(one, "a"), made(one, "b"), made(two, "c")]
    assert [source.name for source in in_turns_of_companies(due)] == ["a", "c", "b", "f"]
