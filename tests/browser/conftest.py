"""A browser, a console beside a running service, and people who use it."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from domain.lifecycle import Role
from tests.browser.chromium import NO_CHROMIUM, NO_WEBGL, find_chromium, running_chromium
from tests.conftest import redis_database
from tests.factories import Fleet, signed_in
from tests.ingress.console.conftest import World, running_console
from tests.service import Service

expect.set_options(timeout=60_000)  # a busy machine fails no test


@pytest.fixture(scope="session")
def chromium_path() -> str:
    return find_chromium() or pytest.skip(NO_CHROMIUM)


@pytest.fixture(scope="module")  # a longer life would forbid event loops to the tests of other modules
def chromium(chromium_path: str) -> Iterator[Browser]:
    with running_chromium(chromium_path) as browser:
        yield browser


@pytest.fixture(scope="module")
def console_url(
    chromium_path: str, service: Service, worker_id: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a console beside the running service, whose workers go on with its jobs."""
    redis_url = redis_database(worker_id, "service")
    logs = tmp_path_factory.mktemp("logs")
    with running_console(service.settings, redis_url, logs, api_url=service.url) as url:
        yield url


def add_session(context: BrowserContext, url: str, token: str) -> None:
    """The cookie of a session, put into a browser."""
    context.add_cookies([{"name": "fuelroute", "value": token, "url": url, "httpOnly": True, "sameSite": "Lax"}])


def session_of(context: BrowserContext) -> str:
    """The cookie of a session, taken from a browser."""
    return next(cookie.get("value", "") for cookie in context.cookies() if cookie.get("name") == "fuelroute")


class People:
    """Browsers of people. No page may break a script or its own Content-Security-Policy."""

    def __init__(self, chromium: Browser, world: World) -> None:
        self.world = world
        self.faults: list[str] = []
        self._chromium = chromium
        self._open = ExitStack()

    def browser(self, url: str = "", *, webgl: bool = False, **options: Any) -> BrowserContext:
        """A browser in which nobody is signed in. A map costs seconds of processor time: only a test that looks at it
        asks for `webgl`. Without it, the browser shows the drawing that stands in."""
        context = self._chromium.new_context(base_url=url or self.world.url, reduced_motion="reduce", **options)
        self._open.callback(context.close)
        context.set_default_timeout(60_000)
        if not webgl:
            context.add_init_script(NO_WEBGL)
        context.on("weberror", lambda error: self.faults.append(str(error.error)))
        context.on("console", self._note)
        return context

    def page(self, role: Role, fleet: Fleet | None = None, url: str = "", *, webgl: bool = False) -> Page:
        """An empty page in the browser of a new user of that role."""
        context = self.browser(url, webgl=webgl)
        with self.world.database.transaction() as connection:
            token = signed_in(connection, role, (fleet or self.world.new_fleet()).company_id)
        add_session(context, url or self.world.url, token)
        return context.new_page()

    def _note(self, message: ConsoleMessage) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.faults.append(message.text)

    def close(self) -> None:
        self._open.close()


@pytest.fixture
def people(chromium_path: str, console_url: str, service: Service, chromium: Browser) -> Iterator[People]:
    one = People(chromium, World(console_url, service.database))
    yield one
    one.close()
    assert one.faults == []
