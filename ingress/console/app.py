"""The console's application: all pages together, its start and end, and the parts that all answers share."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domain.operations.server_checks import health_of
from domain.settings import Settings
from domain.telemetry.health import Health
from domain.telemetry.logs import get_logger
from domain.telemetry.metrics import REQUESTS
from ingress.console.browser import protect
from ingress.console.console import Console
from ingress.console.importer import remove_left_files
from ingress.console.maps import map_addresses
from ingress.console.pages import any_file, find, list_views, overview
from ingress.console.pages.company import (
    account,
    audit,
    keys,
    notices,
    openid,
    policy,
    requests,
    sign_in,
    users,
    webhooks,
)
from ingress.console.pages.fleet import (
    closed_stations,
    connectors,
    csv_files,
    fleet_and_stations,
    fleet_map,
    mappings,
    matching,
    spelling_rules,
    tanks,
)
from ingress.console.pages.money import (
    compliance,
    fill_cards,
    fill_files,
    fills,
    ifta,
    prices,
    replays,
    savings,
    statements,
)
from ingress.console.pages.operators import queues
from ingress.console.pages.routes import driven_lanes, dwells, previews, route_actions, route_files, routes
from ingress.console.refusals import EXCEPTION_HANDLERS, answer_error
from ingress.console.rendering import STATIC
from ingress.http.readiness import Readiness
from ingress.http.request_labels import measured_as

log = get_logger(__name__)

PAGES = (
    sign_in,
    openid,
    overview,
    fleet_map,
    account,
    keys,
    webhooks,
    connectors,
    notices,
    users,
    matching,
    mappings,
    spelling_rules,
    routes,
    route_actions,
    previews,
    audit,
    driven_lanes,
    savings,
    statements,
    replays,
    ifta,
    fill_cards,  # before `fills`, which has an address with any id
    fills,
    fill_files,
    compliance,
    requests,
    closed_stations,
    fleet_and_stations,
    tanks,
    csv_files,
    any_file,
    dwells,
    route_files,
    policy,
    prices,
    find,
    list_views,
    queues,
)


def create_console(settings: Settings, health: Health | None = None) -> Starlette:
    """Build the console of one process."""
    console = Console(settings)
    readiness = Readiness(health or health_of(settings, "console", queue_needed=False))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        with console.database:
            remove_left_files()
            yield
            await console.previews.close()
            console.close()

    async def ready(_: Request) -> Response:
        report = await readiness.report()
        return Response(report.body, report.status, {"Cache-Control": "no-store"}, "application/json")

    app = Starlette(
        routes=[
            *(address for page in PAGES for address in page.ADDRESSES),
            Route("/healthz", _healthy),
            Route("/readyz", ready),
            *map_addresses(settings),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Guard)],
        exception_handlers=EXCEPTION_HANDLERS,
        lifespan=lifespan,
    )
    app.state.console = console
    app.router.redirect_slashes = False
    return app


class Guard:
    """Pure ASGI middleware: every answer gets protective headers and is measured, and every error gets an answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status, has_begun = time.perf_counter(), 500, False

        async def send_protected(message: Message) -> None:
            nonlocal status, has_begun
            if message["type"] == "http.response.start":
                status, has_begun = message["status"], True
                headers = MutableHeaders(scope=message)
                if scope["path"].startswith("/static/") and status in (200, 304):  # a 304 changes what is kept
                    is_versioned = b"v=" in scope["query_string"]  # scripts name the other scripts without a version
                    headers["Cache-Control"] = "public, max-age=31536000, immutable" if is_versioned else "no-cache"
                protect(headers, is_https=scope["scheme"] == "https")
            await send(message)

        try:
            await self._app(scope, receive, send_protected)
        except Exception as error:
            if has_begun:
                raise
            answer = await answer_error(Request(scope, receive), error)
            await answer(scope, receive, send_protected)
        finally:
            # The address as its page lists it. The sent address may have a token in it.
            method, path = measured_as(scope)
            seconds = time.perf_counter() - started
            REQUESTS.labels(method, path, status).observe(seconds)
            log.debug("request.done", method=method, path=path, status=status, seconds=round(seconds, 4))


async def _healthy(_: Request) -> Response:
    return PlainTextResponse("ok\n")
