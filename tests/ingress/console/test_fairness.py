"""Nobody delays the pages of another company: not by exports, not by pages, not by guessed passwords."""

import asyncio
import re
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from argon2 import PasswordHasher
from starlette.applications import Starlette

from domain.accounts import passwords, sessions
from domain.accounts.attempts import ACCOUNT, counters_of, take_attempt
from domain.accounts.contacts import IN_CLEAR
from domain.accounts.sessions import add_device
from domain.accounts.users import create_user, find_user, make_password_link, set_totp
from domain.database.connections import Database
from domain.ids import new_id
from domain.lifecycle import Role
from domain.settings import Settings
from ingress.console.fairness import FairThreads
from tests.factories import DOT, Fleet, make_fleet, signed_in
from tests.ingress.console.conftest import PASSWORD, Browser, World, client_of, console_in_process
from tests.service import eventually

MANY = 8_000
"""The number of vehicles whose export takes a tenth of a second. A slow machine answers some of them, too, before the
others have waited for 30 s."""


@pytest.fixture(scope="module")
def exporter(world_of_module: World) -> Fleet:
    """A company with many vehicles, whose export is larger than what the kernel keeps for a slow reader."""
    world = world_of_module
    fleet = world.new_fleet()
    with world.database.transaction() as connection:
        connection.execute(
            "INSERT INTO vehicles (id, company_id, unit_number, make, model)"
            " SELECT gen_random_uuid(), %s, 'U' || number, 'Freightliner', repeat('Cascadia ', 90)"
            " FROM generate_series(1, %s) AS number",
            (fleet.company_id, MANY),
        )
    return fleet


@pytest.fixture(scope="module")
def world_of_module(console_url: str, database: Database) -> World:
    return World(console_url, database)


def answered_during(load: list[Future[int]], work: Callable[[], object]) -> int:
    """The requests of the load that are answered, and not refused, while the work is done. Without fair shares they are
    nearly all. A busy machine delays both alike, so this says more than seconds."""
    before = count_answered(load)
    work()
    return count_answered(load) - before


def count_answered(load: list[Future[int]]) -> int:
    return sum(one.done() and one.result() != 429 for one in load)


def most_during_a_page(browser: Browser, load: list[Future[int]]) -> int:
    """The requests of the load that were answered during the page that waited for most of them."""
    most, pages = 0, 0
    while pages < 5 or not all(one.done() for one in load):
        most, pages = max(most, answered_during(load, lambda: browser.look("/vehicles"))), pages + 1
        time.sleep(0.02)
    return most


@contextmanager
def at_once(count: int) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(count) as threads:
        yield threads


def test_exports_of_one_company_delay_no_other_company(world: World, exporter: Fleet) -> None:
    viewers = [world.browser(Role.VIEWER, exporter) for _ in range(24)]
    other = world.browser(Role.VIEWER)
    with at_once(24) as threads:
        asked = [threads.submit(lambda one: one.get("/vehicles.csv").status_code, viewer) for viewer in viewers]
        most = most_during_a_page(other, asked)
    statuses = [one.result() for one in asked]
    assert set(statuses) <= {200, 429}
    assert statuses.count(200) >= 4
    assert 2 * most < statuses.count(200)


def test_a_session_has_one_export_at_a_time(world: World, exporter: Fleet) -> None:
    viewer, colleague = (world.browser(Role.VIEWER, exporter) for _ in range(2))
    with at_once(6) as threads:

        def ask() -> list[int]:
            return sorted(threads.map(lambda _: viewer.get("/vehicles.csv").status_code, range(6)))

        statuses = eventually(ask, lambda found: 200 in found)  # on a busy machine even the first may wait too long
        assert statuses == [200, 429, 429, 429, 429, 429]
    with closing(slowly(viewer, "/vehicles.csv")) as reading:
        assert reading.recv(100).startswith(b"HTTP/1.1 200")
        assert "wait until it has arrived" in viewer.get("/vehicles.csv").text
        assert colleague.get("/vehicles.csv").status_code == 200
        assert viewer.get("/vehicles").status_code == 200
    eventually(lambda: viewer.get("/vehicles.csv").status_code, lambda status: status == 200)


def slowly(browser: Browser, path: str) -> socket.socket:
    """A GET whose answer is read only as far as the caller does."""
    address = urlsplit(str(browser.base_url))
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.settimeout(180)
    opened.connect((address.hostname, address.port))
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    opened.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nCookie: {cookies}\r\n\r\n".encode())
    return opened


def _idle_in_transaction(world: World) -> int:
    with world.database.transaction() as connection:
        (count,) = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND state LIKE 'idle in transaction%%'"
        ).fetchone() or (-1,)
    return int(count)


def test_unread_exports_hold_places_of_their_own_company_only(world: World, exporter: Fleet) -> None:
    readers = [slowly(world.browser(Role.VIEWER, exporter), "/vehicles.csv") for _ in range(8)]
    try:
        begun = [int(reader.recv(100).split(b" ")[1]) for reader in readers]
        assert sorted(begun) == [200] * 4 + [429] * 4
        eventually(lambda: _idle_in_transaction(world), lambda count: count == 0)  # a held one would stay
        assert world.browser(Role.VIEWER).get("/vehicles.csv").status_code == 200
        assert world.browser(Role.VIEWER, exporter).get("/vehicles").status_code == 200
    finally:
        for reader in readers:
            reader.close()


GUESS = "guess and guess"


class HeldGuesses:
    """Checks of passwords in a process: each guess takes until the gate is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.checked: list[str] = []
        """The passwords, in the order of their turns."""
        self.loop_thread = 0
        self.in_loop: list[str] = []
        """The passwords that were checked while nobody else could be answered."""

    def is_password(self, _: str | None, password: str) -> bool:
        self.checked.append(password)
        if threading.get_ident() == self.loop_thread:
            self.in_loop.append(password)
        elif password == GUESS:
            assert self.opened.wait(180)
        return password != GUESS


async def sign_in(client: httpx.AsyncClient, email: str, password: str) -> int:
    token = re.findall(r'name="form_token" value="(\w+)"', (await client.get("/sign-in")).text)[0]
    form = {"form_token": token, "email": email, "password": password}
    return (await client.post("/sign-in", data=form)).status_code


def test_wrong_sign_ins_delay_no_page_no_known_browser_and_a_stranger_for_one_turn(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is on time by chance: the first guess takes until all others are answered or wait."""
    held = HeldGuesses()
    monkeypatch.setattr(sessions, "is_password", held.is_password)
    with database.transaction() as connection:
        company_id = make_fleet(connection).company_id
        viewer = signed_in(connection, Role.VIEWER, company_id)
        email = f"{new_id().hex}@example.com"
        create_user(connection, DOT, email=email, role=Role.VIEWER, company_id=company_id, password=PASSWORD)

    async def scenario() -> None:
        held.loop_thread = threading.get_ident()
        async with console_in_process(settings) as app, client_of(app, "203.0.113.7") as known:
            passwords = app.state.console.passwords = FairThreads("test", 1, of_one=1, waiting=60, patience_seconds=600)
            waiting, run = list[str](), passwords.run

            def run_and_count(owner: str, work: Callable[[], object], **options: Any) -> Awaitable[object]:
                waiting.append(owner)
                return run(owner, work, **options)

            monkeypatch.setattr(passwords, "run", run_and_count)
            assert await sign_in(known, email, "the first time") == 303
            known.cookies.delete("fuelroute")

            try:
                guesses = []
                for number in range(10):
                    guesses.append(asyncio.create_task(guess(app, number)))
                    await reached(lambda: len(waiting), 2 + number)  # the first time waited, too
                stranger = asyncio.create_task(strange(app))
                await reached(lambda: len(waiting), 12)
                await reached(lambda: len(held.checked), 2)
                again = asyncio.create_task(sign_in(known, email, "a known browser"))
                await reached(lambda: again.done() or len(waiting) > 12, True)
                assert len(waiting) == 12, "it waits behind no guess"
                assert await again == 303
                async with client_of(app, session=viewer) as client:
                    assert (await client.get("/vehicles")).status_code == 200
                assert held.checked == ["the first time", GUESS, "a known browser"]
            finally:
                held.opened.set()
            assert await stranger == 303
            assert await asyncio.gather(*guesses) == [403] * 10

    async def guess(app: Starlette, number: int) -> int:
        async with client_of(app, "198.51.100.9") as client:
            return await sign_in(client, f"{number}-{email}", GUESS)

    async def strange(app: Starlette) -> int:
        async with client_of(app, "203.0.113.8") as client:
            return await sign_in(client, email, "a stranger")

    async def reached(look: Callable[[], int], wanted: int) -> None:
        """Waits for as many. A check in the event loop fails at once, since it would have held up everybody."""
        async with asyncio.timeout(180):
            while look() < wanted and not held.in_loop:
                await asyncio.sleep(0.01)
        assert held.in_loop == []

    asyncio.run(scenario())

    assert held.in_loop == []
    assert held.checked.index("a stranger") <= 4, "one guess had begun, and one more took its turn"


def test_a_user_with_many_known_browsers_shuts_out_no_other_known_browser(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The share is the company's, so the browsers of one user are one owner."""
    email = world.new_user()
    with monkeypatch.context() as patched:
        patched.setattr(passwords, "_hasher", PasswordHasher())  # wrong passwords cost what they do in production
        flooder = world.new_user()
    known = world.browser()
    assert known.sign_in(email).status_code == 303
    known.submit("/sign-out")
    browsers = [world.browser() for _ in range(20)]
    with world.database.transaction() as connection:
        for number, browser in enumerate(browsers):
            network = f"203.0.113.{number}"
            token = add_device(connection, find_user(connection, flooder), network=network, now=datetime.now(UTC))
            browser.cookies.set("fuelroute-device", token)
            browser.headers["X-Forwarded-For"] = network
    for browser in browsers:
        browser.look("/sign-in")

    statuses = list[int]()

    def flood(number: int) -> int:
        browser = browsers[number % len(browsers)]
        return browser.submit("/sign-in", email=flooder, password="wrong and wrong").status_code

    with at_once(40) as threads:
        asked = [threads.submit(flood, number) for number in range(40)]
        time.sleep(0.1)
        answered = answered_during(asked, lambda: statuses.append(known.sign_in(email).status_code))
    assert statuses == [303]
    assert {one.result() for one in asked} <= {403, 429}
    assert answered < count_answered(asked), "the sign-in is answered before the last of the flood"


def test_pages_of_one_company_delay_no_other_company(world: World, exporter: Fleet) -> None:
    """A search for an unknown name reads all rows."""
    viewers = [world.browser(Role.VIEWER, exporter) for _ in range(24)]
    other = world.browser(Role.VIEWER)
    with at_once(24) as threads:
        asked = [
            threads.submit(lambda one: one.get("/vehicles", params={"q": "nobody"}).status_code, viewer)
            for viewer in viewers
        ]
        most = most_during_a_page(other, asked)
    assert {one.result() for one in asked} == {200}
    assert 2 * most < len(asked)


def test_the_networks_of_one_site_are_one_owner(world: World) -> None:
    """A site of IPv6 has 65,536 networks: each alone would have its turn, and everybody else would wait for all."""
    email, other = world.new_user(), world.browser()
    guessers = [world.browser() for _ in range(40)]
    for number, guesser in enumerate(guessers):
        guesser.headers["X-Forwarded-For"] = f"2001:db8:19:{number:x}::1"
        guesser.look("/sign-in")
    other.headers["X-Forwarded-For"] = "192.0.2.99"
    other.look("/sign-in")

    def guess(guesser: Browser) -> int:
        return guesser.submit("/sign-in", email=f"{id(guesser)}@example.com", password="guess and guess").status_code

    with at_once(40) as threads:
        asked = [threads.submit(guess, guesser) for guesser in guessers]
        time.sleep(0.1)
        assert other.sign_in(email).status_code == 303
    statuses = [one.result() for one in asked]
    assert set(statuses) == {403, 429}
    assert statuses.count(429) >= 40 - 16 - 16, "one owner has a quarter of the places"


def test_guessing_at_one_account_is_counted_by_network(world: World) -> None:
    email = world.new_user()
    statuses = []
    for host in range(12):
        guesser = world.browser()
        guesser.headers["X-Forwarded-For"] = f"2001:db8:17:1::{host + 1:x}"
        statuses.append(guesser.sign_in(email, "guess and guess").status_code)
    assert statuses.count(429) >= 4


def test_wrong_codes_are_slowed_down_like_wrong_passwords(world: World) -> None:
    email = world.new_user()
    with world.database.transaction() as connection:
        set_totp(connection, find_user(connection, email), "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", contacts=IN_CLEAR)
    statuses = []
    for host in range(10):
        guesser = world.browser()
        guesser.headers["X-Forwarded-For"] = f"2001:db8:18:1::{host + 1:x}"
        statuses.append(guesser.sign_in(email, code="00000x").status_code)
    assert statuses[:5] == [403] * 5
    assert 429 in statuses


def test_an_account_under_attack_lets_its_owner_in(world: World) -> None:
    """The user signs in from a browser or a network known before, or with a link."""
    email = world.new_user()
    known, moved, linked = world.browser(), world.browser(), world.browser()
    linked.headers["X-Forwarded-For"] = "192.0.2.78"
    known.headers["X-Forwarded-For"] = moved.headers["X-Forwarded-For"] = "192.0.2.77"
    assert known.sign_in(email).status_code == 303
    known.submit("/sign-out")
    everywhere = counters_of(email, "203.0.113.1", known_device=None, is_known_network=False)[-1]
    with world.database.transaction() as connection:
        for number in range(ACCOUNT.free + 10):
            take_attempt(connection, [everywhere], now=datetime.now(UTC) + timedelta(minutes=number))

    assert known.sign_in(email).status_code == 303
    assert moved.sign_in(email).status_code == 303
    assert linked.sign_in(email).status_code == 429, "a browser without a cookie waits with those who guess"
    with world.database.transaction() as connection:
        link = make_password_link(connection, find_user(connection, email), now=datetime.now(UTC))
    linked.look(f"/set-password/{link}")
    linked.submit(f"/set-password/{link}", password="another good one", again="another good one")
    assert linked.sign_in(email, "another good one").status_code == 303
