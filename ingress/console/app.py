"""The console's application: its addresses, its life, and what every answer carries."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domain.accounts.users import MAY_DISPATCH, MAY_EDIT_POLICY, MAY_MANAGE_KEYS, MAY_MATCH
from domain.lifecycle import Role
from domain.observability import REQUESTS, get_logger
from domain.settings import Settings
from ingress.console.browser import protect
from ingress.console.frame import (
    EVERYBODY,
    Console,
    Refused,
    action,
    as_download,
    not_found,
    open_page,
    page,
    refuse,
    stream,
    with_password,
    with_patience,
)
from ingress.console.importer import remove_left_files
from ingress.console.pages import (
    account,
    audit,
    csv_files,
    fleet_and_stations,
    ifta,
    keys,
    mappings,
    matching,
    policy,
    queues,
    requests,
    route_actions,
    routes,
    savings,
    sign_in,
)
from ingress.console.rendering import STATIC
from ingress.exchange import measured_as

log = get_logger(__name__)


def create_console(settings: Settings) -> Starlette:
    """The whole console of one process."""
    console = Console(settings)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        with console.database:
            remove_left_files()
            yield
            console.close()

    of_account = partial(action, console, by=EVERYBODY, kept="for the user", way=with_password)

    async def refused(request: Request, error: Exception) -> Response:
        """What Starlette's router refuses."""
        if isinstance(error, HTTPException) and error.status_code == 405:
            no_such = Refused(405, "This address takes no such request", "Start from a page.")
            return await refuse(console, request, no_such)
        return await refuse(console, request, not_found())

    app = Starlette(
        routes=[
            page(console, "/", matching.home),
            open_page(console, "/sign-in", sign_in.show, sign_in.act),
            open_page(console, "/set-password/{token}", sign_in.show_link, sign_in.use_link),
            action(console, "/sign-out", sign_in.sign_out, by=EVERYBODY, kept="elsewhere"),
            action(console, "/sign-out-everywhere", sign_in.sign_out_everywhere, by=EVERYBODY, kept="for the user"),
            page(console, "/account", account.show),
            of_account("/account/password", account.change_password),
            of_account("/account/codes", account.use_codes),
            of_account("/account/codes/remove", account.remove_codes),
            page(console, "/companies", account.list_companies),
            action(console, "/companies", account.choose_company, by={Role.OPERATOR}),
            page(console, "/keys", keys.show),
            action(console, "/keys", keys.create, by=MAY_MANAGE_KEYS),
            action(console, "/keys/{id}/revoke", keys.revoke, by=MAY_MANAGE_KEYS),
            action(console, "/keys/{id}/rotate", keys.rotate, by=MAY_MANAGE_KEYS),
            page(console, "/matching/{subject}", matching.show),
            page(console, "/matching/{subject}/candidates", matching.candidates),
            page(console, "/matching/{subject}/progress", matching.progress),
            action(console, "/matching/{subject}/map", matching.map_reference, by=MAY_MATCH),
            action(console, "/matching/{subject}/new", matching.make_record, by=MAY_MATCH),
            page(console, "/mappings/{subject}", mappings.show),
            action(console, "/mappings/{subject}/remove", mappings.remove, by=MAY_MATCH),
            page(console, "/routes", routes.show),
            page(console, "/routes/{id}", routes.show_one),
            action(console, "/routes/{id}/cancel", route_actions.cancel, by=MAY_DISPATCH),
            action(console, "/routes/{id}/mark", route_actions.mark, by=MAY_DISPATCH),
            action(console, "/routes/{id}/plan", route_actions.plan, by=MAY_DISPATCH),
            action(console, "/routes/{id}/send", route_actions.send, by=MAY_DISPATCH),
            page(console, "/audit", audit.show),
            page(console, "/savings", savings.show),
            page(console, "/savings.csv", savings.export, way=as_download),
            page(console, "/savings/plans", savings.show_plans),
            page(console, "/savings/plans.csv", savings.export_plans, way=as_download),
            page(console, "/ifta", ifta.show, way=with_patience),
            page(console, "/ifta.csv", ifta.export, way=as_download),
            page(console, "/requests", requests.show),
            page(console, "/requests/{id}", requests.show_one),
            *fleet_and_stations.addresses(console),
            *csv_files.addresses(console),
            page(console, "/policy", policy.show),
            action(console, "/policy", policy.save, by=MAY_EDIT_POLICY, kept="elsewhere"),
            page(console, "/queues", queues.show),
            page(console, "/queues/dead", queues.show_dead),
            action(console, "/queues/dead", queues.act_on_dead, by={Role.OPERATOR}, kept="elsewhere"),
            action(console, "/queues/pause", queues.pause, by={Role.OPERATOR}, kept="elsewhere"),
            action(console, "/queues/resume", queues.resume, by={Role.OPERATOR}, kept="elsewhere"),
            stream(console, "/queues/stream", queues.figures),
            page(console, "/queues/overdue/{figure}", queues.show_overdue),
            page(console, "/queues/workers/{id}", queues.show_worker),
            page(console, "/queues/{queue}/rates", queues.show_rates),
            page(console, "/queues/{queue}/{place}", queues.show_jobs),
            Route("/healthz", _healthy),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Guard)],
        exception_handlers={HTTPException: refused},
        lifespan=lifespan,
    )
    app.state.console = console
    app.router.redirect_slashes = False
    return app


class Guard:
    """What every answer carries, and its measurement. Plain ASGI."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def send_protected(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                if scope["path"].startswith("/static/") and b"v=" in scope["query_string"] and status == 200:
                    headers["Cache-Control"] = "public, max-age=31536000, immutable"
                protect(headers, is_https=scope["scheme"] == "https")
            await send(message)

        try:
            await self._app(scope, receive, send_protected)
        finally:
            # the address as it is written above, not as it was sent: there may be a token in it
            method, path = measured_as(scope)
            seconds = time.perf_counter() - started
            REQUESTS.labels(method, path, status).observe(seconds)
            log.debug("request.done", method=method, path=path, status=status, seconds=round(seconds, 4))


async def _healthy(_: Request) -> Response:
    return PlainTextResponse("ok\n")
