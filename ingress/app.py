"""The Starlette application: routes, errors, and the life of its services."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from domain.contract import write
from domain.settings import Settings
from ingress.api import Api
from ingress.gate import Gate
from ingress.openapi import describe
from ingress.problems import ApiError, problem
from ingress.services import Services


def create_app(settings: Settings) -> Starlette:
    """The whole HTTP side of one ingress process."""
    services = Services(settings)
    api = Api(services)
    description = write(describe())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        listener = await services.run()
        yield
        listener.cancel()
        with suppress(asyncio.CancelledError):
            await listener
        services.close()

    async def openapi(_: Request) -> Response:
        return Response(description, media_type="application/json")

    async def metrics(_: Request) -> Response:
        await services.measure_queues()
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    app = Starlette(
        routes=[
            Route("/v1/openapi.json", openapi),
            Route("/v1/me", api.get_me),
            Route("/v1/routes", api.create_or_update_route, methods=["POST"]),
            Route("/v1/routes", api.list_routes),
            Route("/v1/routes/{id}", api.get_route),
            Route("/v1/routes/{id}", api.cancel_route, methods=["DELETE"]),
            Route("/v1/vehicles", api.list_vehicles),
            Route("/v1/drivers", api.list_drivers),
            Route("/telematics/positions", api.post_positions, methods=["POST"]),
            Route("/healthz", _healthy),
            Route("/metrics", metrics),
        ],
        middleware=[Middleware(Gate, services=services)],
        exception_handlers={ApiError: _answer_api_error, HTTPException: _answer_http_error},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # one address for each thing; the other is not found
    return app


async def _healthy(_: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _answer_api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)  # noqa: S101 (registered for it)
    return problem(error)


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 (registered for it)
    if error.status_code == 405:
        allowed = _methods_of(request)
        return problem(ApiError("method_not_allowed", f"This address takes {allowed}.", headers={"Allow": allowed}))
    if error.status_code == 404:
        return problem(ApiError("not_found", "There is nothing at this address."))
    return problem(ApiError("validation_error", str(error.detail), errors=[]))


def _methods_of(request: Request) -> str:
    """Every method of an address, though its methods are routes of their own."""
    methods: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.path_regex.match(request.scope["path"]):
            methods |= route.methods or set()
    return ", ".join(sorted(methods))
