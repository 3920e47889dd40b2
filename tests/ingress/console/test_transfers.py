"""Files on their way: when all places are taken, the slowest gives its own to another one."""

import asyncio
import socket
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from domain.lifecycle import Role
from ingress.console import transfers
from ingress.console.downloads import MOST_OF_ALL, MOST_OF_OWNER, Downloads, TooManyDownloads
from ingress.console.importer import MOST_FILES
from ingress.console.transfers import Transfers
from tests.clockwork import run_by_clockwork
from tests.ingress.console.conftest import Browser, World
from tests.ingress.console.uploads import import_file


async def move(files: Transfers, bytes_a_turn: int, ended: list[int]) -> None:
    try:
        async with files.moving() as one:
            while True:
                one.passed_bytes += bytes_a_turn
                await asyncio.sleep(0.01)
    except TimeoutError:
        ended.append(bytes_a_turn)


def test_the_slowest_file_is_cut_off() -> None:
    async def run() -> tuple[bool, list[int], bool]:
        files, ended = Transfers(spared_seconds=0.05), list[int]()
        tasks = [asyncio.create_task(move(files, size, ended)) for size in (300, 100, 200)]
        await asyncio.sleep(0)
        too_early = files.cut_slowest()
        await asyncio.sleep(0.1)
        for _ in range(2):
            assert files.cut_slowest()
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return too_early, ended, files.cut_slowest()

    assert run_by_clockwork(run()) == (False, [100, 200], False)


def test_slow_readers_of_some_companies_do_not_hold_all_downloads() -> None:
    async def run() -> list[int]:
        downloads, ended = Downloads(), list[int]()
        downloads.transfers = Transfers(spared_seconds=0.05)
        for number in range(MOST_OF_ALL):
            downloads.enter(f"company {number // MOST_OF_OWNER}", f"session {number}")
        with pytest.raises(TooManyDownloads):
            downloads.enter("another", "a session")
        reading = asyncio.create_task(move(downloads.transfers, 1, ended))
        await asyncio.sleep(0.1)
        downloads.enter("another", "a session")()
        await reading
        return ended

    assert run_by_clockwork(run()) == [1]


def send_slowly(browser: Browser) -> socket.socket:
    """A file of which a byte arrives."""
    address = urlsplit(str(browser.base_url))
    opened = socket.create_connection((address.hostname or "", address.port or 0), timeout=120)
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    head = (
        f"POST /vehicles/import HTTP/1.1\r\nHost: {address.netloc}\r\nCookie: {cookies}\r\nContent-Type: text/csv\r\n"
        f"X-Form-Token: {browser.token}\r\nContent-Length: 1000000\r\n\r\nu"
    )
    opened.sendall(head.encode())
    return opened


@pytest.mark.slow
def test_slow_uploads_do_not_hold_every_place(world: World) -> None:
    """Sixteen companies send a byte each, and then just enough to be waited for."""
    senders = [world.browser(Role.DISPATCHER, world.new_fleet()) for _ in range(MOST_FILES)]
    other = world.browser(Role.DISPATCHER, world.new_fleet())
    for browser in (*senders, other):
        browser.look("/vehicles")
    with ExitStack() as opened:
        sockets = [opened.enter_context(send_slowly(browser)) for browser in senders]
        until = time.monotonic() + transfers._SPARED_SECONDS + 1
        while time.monotonic() < until:
            for one in sockets:
                one.sendall(b"1" * 20_000)
            time.sleep(0.5)
        assert "1 row added" in import_file(other, "vehicles", "unit_number\n901\n")
