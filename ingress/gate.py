"""What every request passes: an id, a log line, a measurement, the key, the rate limit. Plain ASGI."""

import functools
import os
import re
import time

import structlog
from prometheus_client import Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domain.telemetry import REQUESTS, get_logger
from ingress.problems import ApiError, problem
from ingress.services import Admission, Presented, Services

log = get_logger(__name__)

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_BEARER = re.compile(r"bearer +(\S+) *", re.IGNORECASE)

ADMISSION = "fuelroute.admission"
"""Where the gate leaves its finding in the scope, for the endpoint."""


class Gate:
    """Marks, admits and measures requests; turns whatever escapes an endpoint into a problem document."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given_id = headers.get(b"x-request-id", b"").decode("latin-1")
        request_id = given_id if _REQUEST_ID.fullmatch(given_id) else os.urandom(16).hex()
        marks = [(b"x-request-id", request_id.encode())]
        started = time.perf_counter()
        status = 500
        answered = False

        async def send_marked(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status, answered = message["status"], True
                message["headers"].extend(marks)
            await send(message)

        structlog.contextvars.bind_contextvars(request_id=request_id)  # of this request's own task
        try:
            admission = await self._admit(scope, headers)
            if admission is not None:
                scope[ADMISSION] = admission
                if admission.allowance is not None:
                    marks += admission.allowance.headers()
            await self._app(scope, receive, send_marked)
        except Exception:
            log.exception("request.failed", method=scope["method"], path=scope["path"])
            if answered:
                raise
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

    async def _admit(self, scope: Scope, headers: dict[bytes, bytes]) -> Admission | None:
        if b"authorization" not in headers or not scope["path"].startswith(("/v1/", "/telematics/")):
            return None
        bearer = _BEARER.fullmatch(headers[b"authorization"].decode("latin-1"))
        if bearer is None:
            return None
        # the feed is the fleet's own gateway, bounded by the size of its batches; the contract's limit is the API's
        counted = scope["path"].startswith("/v1/")
        return await self._services.admissions.submit(Presented(bearer.group(1), counted))


@functools.cache
def _measure(method: str, path: str, status: int) -> Histogram:
    """Few enough: methods, paths and statuses are the service's own."""
    return REQUESTS.labels(method, path, status)
