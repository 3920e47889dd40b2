"""A real console process for these tests, and browsers that speak to it: clients with cookies that read forms."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from starlette.applications import Starlette

from deploy.processes import Supervisor
from domain.accounts.tokens import form_token
from domain.accounts.users import create_user
from domain.database.connections import Connection, Database
from domain.ids import new_id
from domain.lifecycle import Role
from domain.settings import Settings
from ingress.console.app import create_console
from tests.conftest import own_database, redis_database
from tests.factories import DOT, Fleet, make_fleet, signed_in
from tests.forking import forked_spec
from tests.ports import own_port

PASSWORD = "correct horse battery"

Fields = dict[str, Any]
"""The fields of a form or an address."""

_TOKEN = re.compile(r'name="form_token" value="(\w+)"')


class Browser(httpx.Client):
    """Somebody's browser. Forms are sent with the token of the page that was loaded last, as browsers do."""

    def __init__(self, url: str, **more: Any) -> None:
        super().__init__(base_url=url, timeout=120, verify=False, **more)  # reads no certificates: it is quick
        self.token = ""

    def look(self, path: str, *, status: int = 200, **query: str | int) -> str:
        """The page as text, after redirects."""
        answer = self.get(path, params=query or None, follow_redirects=True)
        assert answer.status_code == status, answer.text
        self._remember(answer)
        return answer.text

    def submit(self, path: str, *, part: bool = False, token: str | None = None, **fields: Any) -> httpx.Response:
        """The answer to a form, without following a redirect. `part` asks for a part of the page, as htmx does."""
        headers = {"HX-Request": "true"} if part else {}
        data = {"form_token": self.token if token is None else token, **fields}
        answer = self.post(path, data=data, headers=headers)
        self._remember(answer)
        return answer

    def sign_in(self, email: str, password: str = PASSWORD, **more: Any) -> httpx.Response:
        self.look("/sign-in")
        answer = self.submit("/sign-in", email=email, password=password, **more)
        if answer.status_code == 303:
            self.look("/account")  # the session's own token
        return answer

    def _remember(self, answer: httpx.Response) -> None:
        found = _TOKEN.search(answer.text)
        self.token = found[1] if found else self.token


def _forget_making_users(connection: Connection) -> None:
    """The audit log has what a test does in its browsers, and nothing of the users that it was given."""
    connection.execute("DELETE FROM audit_log WHERE actor = %s AND action IN (%s, %s)", _MAKING_USERS)


_MAKING_USERS = (DOT.name, "users.create", "account.choose_company")


class World:
    """A console, its database, and people."""

    def __init__(self, url: str, database: Database) -> None:
        self.url = url
        self.database = database
        self.open = ExitStack()
        """Browsers, closed after the test."""

    def new_fleet(self, **policy: Any) -> Fleet:
        with self.database.transaction() as connection:
            return make_fleet(connection, **policy)

    def new_user(self, role: Role = Role.OWNER, fleet: Fleet | None = None, password: str | None = PASSWORD) -> str:
        """Somebody's e-mail address."""
        email = f"{new_id().hex}@example.com"
        company_id = None if role is Role.OPERATOR else (fleet or self.new_fleet()).company_id
        with self.database.transaction() as connection:
            create_user(connection, DOT, email=email, role=role, company_id=company_id, password=password)
            _forget_making_users(connection)
        return email

    def browser(self, role: Role | None = None, fleet: Fleet | None = None) -> Browser:
        """A browser in which a new user of that role is signed in; nobody for None."""
        if role is None:
            return self.browser_with()
        if fleet is None and role is not Role.OPERATOR:
            fleet = self.new_fleet()
        with self.database.transaction() as connection:
            token = signed_in(connection, role, fleet.company_id if fleet else None)
            _forget_making_users(connection)
        browser = self.browser_with(cookies={"fuelroute": token})
        chosen = fleet.company_id if fleet is not None and role is Role.OPERATOR else None
        browser.token = form_token(token, chosen)  # as its pages show it
        return browser

    def browser_with(self, **more: Any) -> Browser:
        """A browser with cookies or headers of its own."""
        return self.open.enter_context(Browser(self.url, **more))


@pytest.fixture
def world(console_url: str, database: Database) -> Iterator[World]:
    one = World(console_url, database)
    with one.open:
        yield one


@pytest.fixture
def operator(world: World) -> Browser:
    return world.browser(Role.OPERATOR)


@pytest.fixture
def fleet(world: World) -> Fleet:
    return world.new_fleet()


@pytest.fixture(scope="session")
def console_url(settings: Settings, worker_id: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running console."""
    with running_console(settings, redis_database(worker_id, "service"), tmp_path_factory.mktemp("logs")) as url:
        yield url


class OwnConsole(NamedTuple):
    url: str
    database: Database


@pytest.fixture(scope="module")
def own_console(settings: Settings, worker_id: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnConsole]:
    """A console over a database of the module's own. A service that runs for other tests would go on with what these
    store: it expires routes that began long ago, and solves replays. Such a module has its `console_url` and `database`
    from here."""
    with own_database("console") as database:
        own = settings.model_copy(update={"database_url": database.url})
        with running_console(own, redis_database(worker_id), tmp_path_factory.mktemp("logs")) as url:
            yield OwnConsole(url, database)


@contextmanager
def running_console(
    settings: Settings, redis_url: str, logs: Path, *, api_url: str = "https://api.example.com/", **environment: str
) -> Iterator[str]:
    """A console process. Yields its address. `environment` has further variables."""
    port = own_port()
    url = f"http://127.0.0.1:{port}"
    env = {
        "FUELROUTE_DATABASE_URL": settings.require_database_url(),
        "FUELROUTE_REDIS_URL": redis_url,
        "FUELROUTE_DATA": str(settings.data),
        "FUELROUTE_CONSOLE_PORT": str(port),
        "FUELROUTE_CONSOLE_PROXIES": "127.0.0.1",
        "FUELROUTE_API_URL": api_url,
        "FUELROUTE_DRIVER_PAGE_URL": "https://drive.example.com",
        **environment,
    }
    supervisor = Supervisor(print)
    try:
        supervisor.start([forked_spec("console", ("console",), logs, env, url)], seconds=600)
        yield url
    finally:
        supervisor.stop()


@asynccontextmanager
async def console_in_process(settings: Settings) -> AsyncIterator[Starlette]:
    """A console in the process and on the event loop of the test, whose parts the test may replace."""
    app = create_console(settings)
    async with app.router.lifespan_context(app):
        yield app
    app.state.console.jobs.client.close()


def client_of(app: Starlette, address: str = "192.0.2.1", session: str | None = None) -> httpx.AsyncClient:
    """Somebody's browser at that address, for a console in the process."""
    transport = httpx.ASGITransport(app, client=(address, 1))
    cookies = {} if session is None else {"fuelroute": session}
    return httpx.AsyncClient(transport=transport, base_url="http://console", cookies=cookies)


def words(html: str) -> str:
    """The text of a page without its markup."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", html)))
