"""Pages that update themselves: the events of a stream, its end, and its cost."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import HTMLResponse, Response

from domain.database.connections import Database
from domain.lifecycle import Role
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import build_plan_job
from domain.queue.redis_clients import redis_client
from domain.settings import Settings
from ingress.console import streams
from ingress.console.streams import MOST_OF_COMPANY, MOST_OF_PERSON, MOST_OF_SESSION, Streams, TimedCache
from tests.conftest import make_database
from tests.ingress.console.conftest import Browser, World, running_console, words
from tests.servers import OwnRedis
from tests.service import eventually


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A database of its own: routes of other tests become overdue while these look, and the figures change."""
    return Settings(data=tmp_path_factory.mktemp("data"), database_url=make_database("streams"))


@pytest.fixture(scope="module")
def database(settings: Settings) -> Iterator[Database]:
    with Database.of(settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def console_url(settings: Settings, redis: OwnRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_console(settings, redis.url, tmp_path_factory.mktemp("logs")) as url:
        yield url


@pytest.fixture
def queue(redis: OwnRedis) -> Iterator[JobQueue]:
    with redis_client(redis.url) as client:
        client.flushdb()
        yield JobQueue(client)


Event = tuple[str, str]
"""The name and the text of an event."""


def read(lines: Iterator[str]) -> Iterator[Event]:
    """Read a stream as browsers do."""
    name, text = "", []
    for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif line.startswith("data:"):
            text.append(value)
        elif not line and name:
            yield name, "\n".join(text)
            name, text = "", []


@contextmanager
def streaming(browser: Browser) -> Iterator[Iterator[Event]]:
    with browser.stream("GET", "/queues/stream", headers={"Accept": "text/event-stream"}) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield read(answer.iter_lines())


def test_a_stream_sends_changes_without_being_asked(world: World, queue: JobQueue) -> None:
    with streaming(world.browser(Role.OPERATOR)) as events:
        name, first = next(events)
        assert name == "figures"
        assert first.startswith('<p class="notice bad"'), "the line on top comes first"
        assert "<html" not in first
        assert next(events) == ("same", ""), "what has not changed is not sent again"

        queue.put(build_plan_job(uuid4()), build_plan_job(uuid4()))

        name, text = next(event for event in events if event[0] == "figures")
        assert '<a href="/queues/plans/waiting">2</a>' in text


def test_the_head_of_a_stream_keeps_no_connection(world: World, queue: JobQueue) -> None:
    """A proxy gives the connection to the next request, of whomever: that one would wait until the stream ends."""
    browser = world.browser(Role.OPERATOR)
    for _ in range(MOST_OF_SESSION + 1):
        head = browser.head("/queues/stream", timeout=60)
        assert (head.status_code, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    with streaming(browser) as events:
        assert next(events)[0] == "figures", "no place of a stream is taken"


def test_the_top_line_shows_new_alerts_and_their_end(world: World, queue: JobQueue, redis: OwnRedis) -> None:
    with streaming(world.browser(Role.OPERATOR)) as events:
        assert "No worker serves imports" in next(events)[1]
        redis.fall_silent()
        try:
            text = next(text for name, text in events if name == "figures")
        finally:
            redis.speak_again()
        assert "Act now: Redis does not answer" in words(text)
        assert "No worker serves imports" in next(text for name, text in events if name == "figures")


def test_a_stream_ends_when_its_user_signs_out(world: World, queue: JobQueue) -> None:
    browser = world.browser(Role.OPERATOR)
    other = world.browser_with(cookies=dict(browser.cookies))
    other.look("/account")
    with streaming(browser) as events:
        assert next(events)[0] == "figures"
        assert other.submit("/sign-out-everywhere").status_code == 303
        assert [name for name, _ in events if name != "same"] == ["over"], "and the stream has ended"


def test_a_session_has_a_limit_of_streams_and_gets_their_places_back(world: World, queue: JobQueue) -> None:
    browser, other = world.browser(Role.OPERATOR), world.browser(Role.OPERATOR)

    def first_of(one: Browser) -> str:
        with streaming(one) as events:
            return next(events)[0]

    with ExitStack() as opened:
        events = [opened.enter_context(streaming(browser)) for _ in range(MOST_OF_SESSION)]
        assert [next(one)[0] for one in events] == ["figures"] * MOST_OF_SESSION
        assert first_of(browser) == "full"
        assert first_of(other) == "figures", "nobody else is kept away"
    eventually(lambda: first_of(browser), lambda name: name == "figures")


def test_a_stream_holds_no_database_connection_between_two_refreshes(
    world: World, queue: JobQueue, settings: Settings
) -> None:
    """Far more streams than the console has connections: none of them sits in a transaction."""
    browsers = [world.browser(Role.OPERATOR) for _ in range(5)]
    with ExitStack() as opened:
        events = [opened.enter_context(streaming(one)) for one in browsers for _ in range(MOST_OF_SESSION)]
        assert {next(one)[0] for one in events} == {"figures"}
        with psycopg.connect(settings.require_database_url(), autocommit=True) as connection:
            seen = []
            for _ in range(60):
                row = connection.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND state LIKE 'idle in transaction%' AND state_change < now() - interval '0.5 s'"
                ).fetchone()
                assert row is not None
                seen.append(row[0])
                time.sleep(0.1)
        assert set(seen) == {0}
        world.browser(Role.OPERATOR).look("/queues")


def test_a_stream_ends_after_a_while_and_the_browser_reconnects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(streams, "LONGEST_SECONDS", 0.1)
    places = Streams()

    async def look() -> Response:
        return HTMLResponse("it")

    async def told() -> list[bytes]:
        return [chunk async for chunk in places.events("session", "owner", HTMLResponse("it"), look)]

    chunks = asyncio.run(told())
    assert chunks[0] == b"retry: 1000\n\n"
    assert chunks[1] == b"event: figures\ndata: it\n\n"
    assert set(chunks[2:]) == {b"event: same\ndata: \n\n"}, "browsers drop an event without data"
    assert not places._open, "its place is free again"


class Viewers:
    """People whose streams are open, without a console."""

    def __init__(self) -> None:
        self.places = Streams()
        self.open: list[AsyncIterator[bytes]] = []

    async def first_of(self, company: str, person: str, number: int = 0, *, is_operator: bool = False) -> str:
        """The name of the first event of one more stream, which stays open."""
        first = HTMLResponse("it")
        session = f"{company} {person} {number // MOST_OF_SESSION}"
        events: AsyncIterator[bytes] = self.places.events(
            session, company, first, lambda: asyncio.sleep(9, first), person=person, is_operator=is_operator
        )
        self.open.append(events)
        chunk = await anext(events)
        return name_of(await anext(events) if chunk.startswith(b"retry") else chunk)

    async def fill(self, company: str, people: int) -> list[str]:
        return [
            await self.first_of(company, f"{company} {person}", number)
            for person in range(people)
            for number in range(MOST_OF_PERSON)
        ]


def name_of(chunk: bytes) -> str:
    return chunk.split(b"\n")[0].removeprefix(b"event: ").decode()


def test_a_person_has_a_limit_and_a_company_a_higher_one() -> None:
    async def told() -> tuple[str, str, list[str]]:
        viewers = Viewers()
        assert set(await viewers.fill("one", 1)) == {"figures"}
        same_person = await viewers.first_of("one", "one 0", 1_000)
        return same_person, await viewers.first_of("one", "a colleague"), await viewers.fill("two", 3)

    same_person, colleague, more = asyncio.run(told())
    assert (same_person, colleague) == ("full", "figures")
    assert more.count("figures") == MOST_OF_COMPANY


def test_five_companies_do_not_take_every_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "EVERY_SECONDS", 0.01)

    async def told() -> tuple[str, str, str, str]:
        viewers = Viewers()
        for company in range(5):
            assert set(await viewers.fill(f"company {company}", 1)) == {"figures"}
        other = await viewers.first_of("another", "somebody")
        operator = await viewers.first_of("operator 1", "operator", is_operator=True)
        ended = next(one for one in viewers.places._open if one.is_displaced)
        displaced = viewers.open[viewers.places._open.index(ended)]
        last = name_of(await anext(displaced))
        again = await viewers.first_of(ended.owner, ended.person, 1_000)
        return other, operator, last, again

    assert asyncio.run(told()) == ("figures", "figures", "full", "full")


def test_a_stream_is_silent_while_our_side_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "EVERY_SECONDS", 0.01)
    answers = [HTMLResponse("x", 503), HTMLResponse("x", 500), HTMLResponse("new"), HTMLResponse("x", 303)]

    async def look() -> Response:
        return answers.pop(0)

    async def told() -> list[bytes]:
        return [chunk async for chunk in Streams().events("session", "owner", HTMLResponse("old"), look)]

    assert [chunk.split(b"\n")[0] for chunk in asyncio.run(told())] == [
        *(b"retry: 1000", b"event: figures", b"event: figures", b"event: over"),
    ]


@given(st.text(max_size=200))
def test_any_text_is_one_event(text: str) -> None:
    """The text may have ends of lines of every kind, or look like another event."""

    async def told(first: Response) -> bytes:
        events: AsyncIterator[bytes] = Streams().events("session", "owner", first, lambda: asyncio.sleep(9, first))
        await anext(events)
        return await anext(events)

    chunk = asyncio.run(told(HTMLResponse(text))).decode()
    lines = chunk.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    ((name, read_text),) = read(iter(lines[:-1]))
    assert name == "figures"
    assert read_text == text.replace("\r\n", "\n").replace("\r", "\n")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The clock of cached values, which a test moves by `now`."""
    one = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(streams, "time", SimpleNamespace(monotonic=lambda: one.now))
    return one


def test_a_value_is_computed_once_for_all_pages(clock: SimpleNamespace) -> None:
    made: list[int] = []
    shared: TimedCache[int] = TimedCache(seconds=0.3)

    def make() -> int:
        made.append(len(made))
        return len(made)

    assert [shared.get(make) for _ in range(5)] == [1] * 5
    clock.now += 0.35
    assert shared.get(make) == 2


def test_no_page_waits_for_a_slow_value_or_gets_an_old_one(clock: SimpleNamespace) -> None:
    shared: TimedCache[int] = TimedCache(seconds=0.2)
    assert shared.get(lambda: 1) == 1
    began, go_on = threading.Event(), threading.Event()

    def make() -> int:
        began.set()
        assert go_on.wait(180)
        return 2

    clock.now += 0.25
    with ThreadPoolExecutor() as threads:
        slow = threads.submit(shared.get, make)
        assert began.wait(180)
        with pytest.raises(TimeoutError):
            shared.get(lambda: 3)
        go_on.set()
        assert slow.result(180) == 2
    assert shared.get(lambda: 4) == 2


def test_a_console_with_open_pages_stops_in_order(
    settings: Settings, redis: OwnRedis, tmp_path: Path, world: World
) -> None:
    with ExitStack() as opened:
        with running_console(settings, redis.url, tmp_path) as url:
            browser = opened.enter_context(Browser(url, cookies=dict(world.browser(Role.OPERATOR).cookies)))
            events = opened.enter_context(streaming(browser))
            next(events)
        logs = [log.read_text() for log in tmp_path.iterdir()]
        assert any("Finished server process" in log for log in logs)
        assert not any('"error"' in log for log in logs)
