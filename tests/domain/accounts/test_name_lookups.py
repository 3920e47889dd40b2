"""Names are looked up in threads of their own: a silent name server costs the company that brought the name."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from domain.accounts.name_lookups import MOST_OF_OWNER, NameLookups, NoAddress, looking_up_for

SILENT = "silent"


class NameServer:
    """Answers every name but the silent ones, which wait until the test is over."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.over = threading.Event()

    def __call__(self, host: str) -> list[str]:
        self.asked.append(host)
        if host.startswith(SILENT):
            self.over.wait(180)
            raise OSError
        if host.startswith("missing"):
            raise OSError
        return ["203.0.113.7"]


@pytest.fixture
def server() -> Iterator[NameServer]:
    server = NameServer()
    yield server
    server.over.set()


def ask(lookups: NameLookups, owner: str, host: str, seconds: float = 60) -> list[str] | str:
    with looking_up_for(owner):
        try:
            return lookups.wait_for_addresses(host, seconds=seconds)
        except NoAddress as error:
            return str(error)


def hang(lookups: NameLookups, owner: str, names: int) -> None:
    with looking_up_for(owner):
        for number in range(names):
            with pytest.raises(NoAddress):
                lookups.wait_for_addresses(f"{SILENT}{number}.example.com", seconds=0)


def test_silent_names_of_one_company_hold_up_no_other(server: NameServer) -> None:
    lookups = NameLookups(server)
    hang(lookups, "one", 100)

    assert ask(lookups, "another", "hooks.example.com") == ["203.0.113.7"]
    assert not server.over.is_set(), "it waits for none of them"
    assert len(server.asked) == MOST_OF_OWNER + 1


def test_a_company_waits_behind_its_own_silent_names(server: NameServer) -> None:
    lookups = NameLookups(server, seconds=0.3)
    hang(lookups, "one", MOST_OF_OWNER)

    assert ask(lookups, "one", "hooks.example.com") == "has a name whose server does not answer"
    server.over.set()
    assert _soon(lambda: ask(lookups, "one", "later.example.com") == ["203.0.113.7"])


def test_a_silent_name_is_asked_for_once_at_a_time(server: NameServer) -> None:
    lookups = NameLookups(server, seconds=0.2)

    answers = [ask(lookups, "one", "silent.example.com") for _ in range(5)]

    assert set(answers) == {"has a name whose server does not answer"}
    assert server.asked == ["silent.example.com"]


def test_a_name_without_an_address_is_not_asked_for_again_at_once(server: NameServer) -> None:
    lookups = NameLookups(server)

    answers = [ask(lookups, "one", "missing.example.com") for _ in range(3)]

    assert set(answers) == {"has a name without an address"}
    assert server.asked == ["missing.example.com"]
    assert ask(lookups, "another", "missing.example.com") == "has a name without an address"
    assert len(server.asked) == 2, "one company's answers are not another's"


def test_a_task_that_gives_up_takes_nobody_elses_answer_away(server: NameServer) -> None:
    given_up = threading.Event()

    def answer_slowly(host: str) -> list[str]:
        assert given_up.wait(180)
        return ["203.0.113.7"]

    lookups = NameLookups(answer_slowly)

    async def both() -> list[str]:
        kept = asyncio.create_task(lookups.addresses("slow.example.com"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(lookups.addresses("slow.example.com"), 0.05)
        given_up.set()
        return await kept

    assert asyncio.run(both()) == ["203.0.113.7"]


@pytest.mark.parametrize("host", ["a..b.com", f"{'a' * 64}.example.com", "."])
def test_a_name_that_cannot_be_one_has_no_address(host: str) -> None:
    assert ask(NameLookups(), "one", host) == "has a name without an address"


@pytest.mark.parametrize(("host", "address"), [("203.0.113.7", "203.0.113.7"), ("127.1", "127.0.0.1"), ("::1", "::1")])
def test_an_address_is_no_question(server: NameServer, host: str, address: str) -> None:
    assert ask(NameLookups(server), "one", host) == [address]
    assert server.asked == []


def _soon(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 180
    while not (met := holds()) and time.monotonic() < until:
        time.sleep(0.02)
    return met
