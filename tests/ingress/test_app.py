"""The application has no layers of its own around requests: RequestMiddleware is the only one."""

import asyncio
import gc

import pytest
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Match
from starlette.types import Message, Scope

from domain.settings import Settings
from ingress.app import Application, create_app


def test_middleware_that_would_never_run_is_refused(settings: Settings) -> None:
    with pytest.raises(TypeError, match=r"ingress\.api\.middleware"):
        create_app(settings).add_middleware(GZipMiddleware)


def test_an_exception_handler_that_would_never_run_is_refused(settings: Settings) -> None:
    with pytest.raises(TypeError, match=r"ingress\.api\.middleware"):
        create_app(settings).add_exception_handler(500, lambda request, error: PlainTextResponse("gone"))


def test_an_address_leads_where_the_router_s_search_would(settings: Settings) -> None:
    app = create_app(settings.model_copy(update={"driver_page_url": "https://drive.example.com"}))
    assert isinstance(app, Application)
    paths = ["/v1/routes", "/v1/routes/", "/v1/routes/rte_1", "/v1/routes/a/b", "/d/page.js", "/d/token", "/d/", "/d"]
    paths += ["/docs", "/docs/keys", "/docs/static/a.css", "/telematics/positions", "/telematics/samsara", "/", "", "x"]
    for method in ("GET", "HEAD", "POST", "DELETE"):
        for path in paths:
            scope: Scope = {"type": "http", "method": method, "path": path, "root_path": ""}
            found = app.endpoint_of(scope)
            searched = ((one, *one.matches(scope)) for one in app.routes)
            first, params = next(
                ((one, child["path_params"]) for one, match, child in searched if match is Match.FULL), (None, None)
            )
            assert found is first, (method, path)
            assert scope.get("path_params", {}) == (params or {}), (method, path)


@pytest.mark.parametrize("path", ["/healthz", "/nothing", "/v1/me"])
def test_a_request_leaves_nothing_for_the_garbage_collector(settings: Settings, path: str) -> None:
    """It would run at the cost of everybody's latency, and new objects would never be those that are still cached."""
    app = create_app(settings)

    async def ask() -> None:
        scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
        await app(scope, receive, send)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        pass

    with asyncio.Runner() as runner:
        runner.run(ask())

        def left_by_twenty() -> int:
            gc.collect()
            for _ in range(20):
                runner.run(ask())
            return gc.collect()

        gc.disable()
        gc.collect()
        gc.freeze()  # what other tests have left by now is searched no more, here or later: that takes 0.4 s each time
        try:
            assert min(left_by_twenty() for _ in range(3)) < 20, (
                "other threads of the tests leave something now and then"
            )
        finally:
            gc.enable()
