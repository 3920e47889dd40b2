"""Each error becomes a page that says what to do, and every answer has the protective headers."""

import asyncio
from collections.abc import Iterator

import httpx
import psycopg
import pytest
import redis
from psycopg.errors import IdleInTransactionSessionTimeout, LockNotAvailable
from psycopg_pool import PoolTimeout
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from domain.database.connections import Database
from domain.errors import FuelrouteError
from domain.lifecycle import Role
from domain.settings import Settings
from ingress.console.addresses import Runner, as_download, in_page_threads, in_report_threads, page_at
from ingress.console.app import create_console
from ingress.console.browser import BadForm, TooLarge, TooSlow
from ingress.console.console import Console
from ingress.console.downloads import TooManyDownloads
from ingress.console.importer import TooManyImports
from ingress.console.refusals import Refused
from ingress.console.signed_in import Page
from ingress.http.fair_queue import CapacityTimeout
from tests.factories import signed_in
from tests.ingress.console.conftest import words


@pytest.fixture
def app(settings: Settings) -> Iterator[Starlette]:
    app = create_console(settings)
    console: Console = app.state.console
    yield app
    console.close()
    console.jobs.client.close()


def asked(app: Starlette, method: str, path: str, **headers: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        # an error that reaches the server would end the connection: it fails the test
        transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(ask())


def answer_to(app: Starlette, error: Exception, **headers: str) -> httpx.Response:
    """The console's answer where a page raises the error."""

    async def fail(_: Request) -> Response:
        raise error

    app.router.routes.insert(0, Route("/fails", fail))
    return asked(app, "GET", "/fails", **headers)


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (Refused(418, "This is a teapot", "Ask for tea."), 418, "This is a teapot Ask for tea."),
        (BadForm("a field is too long"), 400, "This form cannot be read A field is too long."),
        (TooLarge(32 << 20), 413, "This file is too large 32 MB are the limit: send it in several parts."),
        (TooSlow(), 408, "This did not arrive in time Send it again."),
        (TooManyDownloads("another file is on its way"), 429, "One file at a time Another file is on its way."),
        (CapacityTimeout(), 429, "Too many requests at a time"),
        (FuelrouteError("the route has ended"), 409, "This cannot be done The route has ended."),
        (TooManyImports(), 409, "This cannot be done Another file of your company is on its way"),
        (LockNotAvailable(), 409, "Something else is changing the same data"),
        (IdleInTransactionSessionTimeout("a busy machine"), 503, "This took too long Nothing was changed."),
        (psycopg.OperationalError("away"), 503, "The database does not answer"),
        (PoolTimeout("away"), 503, "The database does not answer"),
        (redis.ConnectionError("away"), 503, "Redis does not answer"),
        (ZeroDivisionError("a secret"), 500, "Something failed on our side Nothing was changed."),
    ],
)
def test_each_error_has_a_page_that_says_what_to_do(app: Starlette, error: Exception, status: int, said: str) -> None:
    answer = answer_to(app, error)
    assert answer.status_code == status
    assert said in words(answer.text)
    assert "secret" not in answer.text
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"
    assert (answer.headers.get("connection") == "close") == (status == 408)


@pytest.mark.parametrize("error", [FuelrouteError("the route has ended"), ZeroDivisionError()])
def test_an_error_in_a_part_of_a_page_is_shown_on_top_and_leaves_the_rest(app: Starlette, error: Exception) -> None:
    answer = answer_to(app, error, **{"HX-Request": "true"})
    assert answer.headers["hx-retarget"] == "#notices"
    assert answer.headers["hx-reswap"] == "innerMorph"
    assert "<html" not in answer.text


def test_unknown_addresses_wait_for_capacity_as_pages_do(app: Starlette, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(app, "GET", "/nowhere").status_code == 404

    async def no_capacity(*_: object) -> Response:
        raise CapacityTimeout

    monkeypatch.setattr(app.state.console.pages, "run", no_capacity)
    assert asked(app, "GET", "/nowhere").status_code == 429


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/sign-in", "GET, HEAD, POST"),
        ("DELETE", "/keys", "GET, HEAD, POST"),  # the list and the form are two routes
        ("POST", "/routes", "GET, HEAD"),
        ("GET", "/sign-out", "POST"),
        ("OPTIONS", "/healthz", "GET, HEAD"),
        ("POST", "/static/console.css", "GET, HEAD"),
    ],
)
def test_an_address_that_takes_no_such_request_says_which_it_takes(
    app: Starlette, method: str, path: str, allowed: str
) -> None:
    answer = asked(app, method, path)
    assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)


@pytest.mark.parametrize(
    ("run", "limit"), [(in_page_threads, "2500ms"), (in_report_threads, "15s"), (as_download, "15s")]
)
def test_reports_and_exports_may_take_longer_than_pages(
    app: Starlette, database: Database, run: Runner, limit: str
) -> None:
    def show(page: Page) -> Response:
        ((told,),) = page.connection.execute("SHOW statement_timeout").fetchall()
        return Response(told)

    with database.transaction() as connection:
        token = signed_in(connection, Role.OPERATOR, None)
    app.router.routes.insert(0, page_at("/limit", show, run=run))
    with app.state.console.database:
        assert asked(app, "GET", "/limit", Cookie=f"fuelroute={token}").text == limit
