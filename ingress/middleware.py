"""What every request passes: an id, a log line, a measurement, and an answer to whatever goes wrong. Plain ASGI."""

import functools
import os
import re
import time

import structlog
from prometheus_client import Histogram
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domain.observability import REQUESTS, get_logger
from ingress.auth import AUTH_RESULT, NOBODY, credentials_of
from ingress.problems import ApiError, problem
from ingress.services import Services

log = get_logger(__name__)

_BROKEN_OFF = 499
"""The status, in measurements only, of requests whose client closed the connection before all of it had come."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class RequestMiddleware:
    """Marks and measures requests; turns what escapes an endpoint into a problem document."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        started = time.perf_counter()
        status = 500
        answered = False

        async def send_marked(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status, answered = message["status"], True
                message["headers"] += [(b"x-request-id", request_id.encode()), *await self._allowance(scope)]
            await send(message)

        structlog.contextvars.bind_contextvars(request_id=request_id)  # of this request's own task
        try:
            await self._app(scope, receive, send_marked)
        except (ApiError, HTTPException) as error:
            if answered:
                raise
            refused = error if isinstance(error, ApiError) else _in_our_words(error, scope)
            await problem(refused)(scope, receive, send_marked)
        except ClientDisconnect:  # nobody is left to be answered, and nothing of ours went wrong
            status = _BROKEN_OFF
        except Exception:
            log.exception("request.failed", method=scope["method"], path=scope["path"])
            if answered:
                raise
            scope.setdefault(AUTH_RESULT, NOBODY)  # what failed is not asked again
            failure = ApiError(
                "internal_error",
                f"The request failed on our side and needs no change; retry shortly. Request {request_id}.",
            )
            await problem(failure)(scope, receive, send_marked)
        finally:
            seconds = time.perf_counter() - started
            path = getattr(scope.get("route"), "path", "(none)")
            _measure(scope["method"] if path != "(none)" else "-", path, status).observe(seconds)
            log.debug("request.done", method=scope["method"], path=path, status=status, seconds=round(seconds, 4))

    async def _allowance(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """The rate limit's headers: every answer to a valid key has them, though no endpoint asked who it is."""
        if AUTH_RESULT not in scope:
            credentials = credentials_of(scope)
            if credentials is None:
                return []
            try:
                scope[AUTH_RESULT] = await self._services.admission.authenticate(credentials)
            except Exception:  # whatever is being answered, it is not for this to fail
                log.warning("request.not_counted", exc_info=True)
                return []
        allowance = scope[AUTH_RESULT].allowance
        return allowance.headers() if allowance is not None else []


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            given: str = value.decode("latin-1")
            if _REQUEST_ID.fullmatch(given):
                return given
    return os.urandom(16).hex()


def _in_our_words(error: HTTPException, scope: Scope) -> ApiError:
    """What Starlette's router refuses."""
    if error.status_code == 405:
        allowed = _methods_of(scope["app"].routes, scope["path"])
        return ApiError("method_not_allowed", f"This address takes {allowed}.", headers={"Allow": allowed})
    if error.status_code == 404:
        return ApiError("not_found", "There is nothing at this address.")
    return ApiError("validation_error", str(error.detail), errors=[])


def _methods_of(routes: list[BaseRoute], path: str) -> str:
    """Every method of an address, though its methods are routes of their own."""
    methods: set[str] = set()
    for route in routes:
        if isinstance(route, Route) and route.path_regex.match(path):
            methods |= route.methods or set()
    return ", ".join(sorted(methods))


@functools.cache
def _measure(method: str, path: str, status: int) -> Histogram:
    """Few enough: methods, paths and statuses are the service's own."""
    return REQUESTS.labels(method, path, status)
