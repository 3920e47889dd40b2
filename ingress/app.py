"""The Starlette application: routes, errors, and the life of its services."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NoReturn

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from domain.encoding import write
from domain.operations.server_checks import health_of
from domain.settings import Settings
from domain.telemetry.health import Health
from ingress.api.endpoints import Api
from ingress.api.inbound import Inbound
from ingress.api.middleware import ANSWER, RequestMiddleware
from ingress.api.openapi import describe
from ingress.api.previews import LoadPreviews
from ingress.api.request import REQUEST, Answer, Request
from ingress.api.services import Services
from ingress.docs.site import Docs
from ingress.driver.pages import DriverPages
from ingress.http.readiness import Readiness

_LAST_NAMED = re.compile(r"[^{}]*/\{[a-z]+\}")


def create_app(settings: Settings, health: Health | None = None) -> Starlette:
    """The whole HTTP side of one ingress process."""
    services = Services(settings)
    readiness = Readiness(health or health_of(settings, "ingress", queue_needed=False))
    api = Api(services)
    inbound = Inbound(services)
    previews = LoadPreviews(api, services)
    drivers = DriverPages(services, settings) if settings.driver_page_url is not None else None
    description = describe()
    docs = Docs(description)
    described = write(description)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with services.running():
            yield
            await inbound.close()
            if drivers is not None:
                await drivers.close()

    async def openapi(_: Request) -> Answer:
        return Answer(200, described)

    async def ready(_: Request) -> Answer:
        report = await readiness.report()
        return Answer(report.status, report.body, b"application/json", ((b"cache-control", b"no-store"),))

    app = Application(
        services,
        routes=[
            Endpoint("POST", "/v1/routes", api.create_or_update_route),
            Endpoint("GET", "/v1/routes", api.list_routes),
            Endpoint("GET", "/v1/routes/{id}", api.get_route),
            Endpoint("DELETE", "/v1/routes/{id}", api.cancel_route),
            *(_endpoints_of(drivers) if drivers is not None else ()),
            Endpoint("POST", "/planning/preview", previews.preview),
            Endpoint("GET", "/planning/openapi.json", previews.describe),
            Endpoint("POST", "/telematics/positions", api.post_positions),
            Endpoint("POST", "/telematics/{id}", inbound.take),
            Endpoint("GET", "/v1/me", api.get_me),
            Endpoint("GET", "/v1/vehicles", api.list_vehicles),
            Endpoint("GET", "/v1/drivers", api.list_drivers),
            Endpoint("GET", "/v1/openapi.json", openapi),
            Endpoint("GET", "/docs", docs.start_page),
            Endpoint("GET", "/docs/{id}", docs.page),
            Endpoint("GET", "/docs/static/{id}", docs.static_file),
            Endpoint("GET", "/llms.txt", docs.list_for_machines),
            Endpoint("GET", "/healthz", _healthy),
            Endpoint("GET", "/readyz", ready),
        ],
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # one address for each thing; the other is not found
    return app


class Application(Starlette):
    """Starlette with `RequestMiddleware` in place of its own layers: it answers for every error further in."""

    def __init__(self, services: Services, routes: Sequence[BaseRoute], lifespan: Lifespan[Starlette]) -> None:
        super().__init__(routes=routes, lifespan=lifespan)
        self._services = services
        ours = [(method, one) for one in routes if isinstance(one, Endpoint) for method in one.methods or ()]
        self._fixed = {(method, one.path): one for method, one in ours if "{" not in one.path}
        """The endpoints whose addresses have no parameters, which need no search."""
        self._last_named = {
            (method, one.path.partition("{")[0]): one for method, one in ours if _LAST_NAMED.fullmatch(one.path)
        }
        """The endpoints whose only parameter is the last part of the address, by what stands before it."""

    def build_middleware_stack(self) -> ASGIApp:
        return RequestMiddleware(self._route, self._services)

    def _route(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        endpoint = self.endpoint_of(scope) if scope["type"] == "http" else None
        if endpoint is None:
            return self.router(scope, receive, send)
        scope["route"] = endpoint
        return endpoint.handle(scope, receive, send)

    def endpoint_of(self, scope: Scope) -> "Endpoint | None":
        """The endpoint that the router would find, without its search; None where only a search can tell."""
        method, path = scope["method"], scope["path"]
        fixed = self._fixed.get((method, path))
        if fixed is not None:
            return fixed
        before, slash, last = path.rpartition("/")
        named = self._last_named.get((method, before + slash)) if last else None
        if named is not None:
            scope["path_params"] = dict.fromkeys(named.param_convertors, last)
        return named

    def add_middleware(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            "Application has no middleware: what is to be done for every request belongs in ingress.api.middleware"
        )

    def add_exception_handler(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("Application has no exception handlers: ingress.api.middleware answers for what is raised")


class Endpoint(Route):
    """A route whose endpoint returns its answer to the middleware, instead of sending it."""

    def __init__(self, method: str, path: str, endpoint: Callable[[Request], Awaitable[Answer]]) -> None:
        super().__init__(path, endpoint, methods=[method])
        self._answer = endpoint

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.methods and scope["method"] not in self.methods:
            raise HTTPException(405)
        scope[ANSWER] = await self._answer(scope[REQUEST])


def _endpoints_of(drivers: DriverPages) -> list[Endpoint]:
    return [
        Endpoint("GET", "/d/page.js", drivers.script),
        Endpoint("GET", "/d/worker.js", drivers.script),
        Endpoint("GET", "/d/{token}", drivers.show),
        Endpoint("POST", "/d/{token}", drivers.answer),
    ]


async def _healthy(_: Request) -> Answer:
    return Answer(200, b"ok\n", b"text/plain; charset=utf-8")
