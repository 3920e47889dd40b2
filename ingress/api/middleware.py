"""The steps of every request: an id, a log line, a measurement, and an answer to every error. Plain ASGI."""

import functools
import logging
import time
from contextlib import suppress

from prometheus_client import Histogram
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from domain.database.health import is_away
from domain.telemetry import tracing
from domain.telemetry.logs import get_logger
from domain.telemetry.metrics import REQUESTS
from ingress.api.access import NOBODY, PAUSE_SECONDS, AuthResult, company_paused, rate_limited, refusal_of
from ingress.api.rate_limits import Allowance
from ingress.api.request import REQUEST, Answer, Request
from ingress.api.services import Services
from ingress.http.allowed_methods import allowed_methods
from ingress.http.fair_queue import CapacityTimeout
from ingress.http.problems import KINDS, PROBLEM_TYPE, ApiError, MagicError, document_of
from ingress.http.request_labels import measured_as

log = get_logger(__name__)

ANSWER = "fuelroute.answer"
"""The key of a request's scope under which its endpoint leaves the answer."""

_BROKEN_OFF = 499
"""The status, in measurements only, of a request whose client closed the connection before the whole request had
come."""

_MAGIC = "magic"
"""The status, in measurements only, of an error that a push to the sandbox asked for. Alerts on errors leave it out."""


_PROBES = ("/healthz", "/readyz")


class RequestMiddleware:
    """Gives each request an id, measures it and sends its answer; an error of an endpoint becomes a problem
    document."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services
        self._tells_each = log.is_enabled_for(logging.DEBUG)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        request = scope[REQUEST] = Request(scope, receive)
        span = _begin_span(request) if tracing.spans is not None else None
        tracing.bind(request.trace)  # of this request's own task
        status, answer = 500, None
        try:
            answer = await self._answer(request, receive, send)
            allowance = await self._allowance(request)
            if allowance is not None and not allowance.allowed and answer.status != 429:
                answer = _beyond_limit(request)  # no endpoint asked: at an address where there is none, for example
            status = answer.status
            headers = [(b"content-type", answer.media_type), *answer.headers] if answer.body else [*answer.headers]
            if status not in (204, 304):
                headers.append((b"content-length", b"%d" % len(answer.body)))
            headers.append((b"x-request-id", request.id.encode()))
            if allowance is not None:
                headers += allowance.headers()
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": answer.body})
        except ClientDisconnect:  # nobody is left to be answered, and nothing of ours went wrong
            status = _BROKEN_OFF
        finally:
            del scope[REQUEST]  # each knows the other, and would stay until the next search for garbage
            seconds = time.perf_counter() - started
            method, path = measured_as(scope)
            _measure(method, path, _MAGIC if request.is_magic_error else status).observe(seconds)
            if span is not None:
                _end_span(span, request, method, path, status)
            self._services.request_log.note(request, path, status, seconds, answer)
            if self._tells_each:
                log.debug("request.done", method=scope["method"], path=path, status=status, seconds=round(seconds, 4))

    async def _answer(self, request: Request, receive: Receive, send: Send) -> Answer:
        """The answer of the endpoint, or the problem document of its error. Raises ClientDisconnect when the client has
        gone: nothing is answered then."""
        scope = request.scope
        try:
            await self._app(scope, receive, send)
            answer: Answer = scope[ANSWER]
            return answer
        except ClientDisconnect:
            raise
        except ApiError as error:
            error.with_traceback(None)  # whose frames hold the error again
            return await self._refused(request, error) if error.code == "unauthorized" else _problem(error)
        except (HTTPException, CapacityTimeout) as error:
            return _problem(_in_our_words(error, scope))
        except MagicError as error:
            return _magic_answer(error, request)
        except Exception as error:
            with suppress(Exception):  # what failed is told below
                if not is_away(error) and await self._is_paused(request):  # its rows vanished behind the fence
                    return _paused(request)
            log.exception("request.failed", method=scope["method"], path=scope["path"])
            if request.auth_result is None:
                request.auth_result = NOBODY  # what failed is not asked again
            return _failure(request)

    async def _refused(self, request: Request, error: ApiError) -> Answer:
        """The answer to a request whose key is not valid. A 401 ends a client's attempts, so a client whose company is
        only being moved never gets it."""
        try:
            return _paused(request) if await self._is_paused(request) else _problem(error)
        except Exception:
            log.exception("request.pause_unknown")
            return _failure(request)

    async def _is_paused(self, request: Request) -> bool:
        return request.credentials is not None and await self._services.authenticator.is_paused(request.credentials)

    async def _allowance(self, request: Request) -> Allowance | None:
        """The requests that a valid key has left. Every answer shows them, even where no endpoint has looked up the
        caller."""
        if request.auth_result is None:
            if request.credentials is None:
                return None
            try:
                request.auth_result = await self._services.authenticator.authenticate(request.credentials)
            except Exception:  # whatever is being answered, it is not for this to fail
                log.warning("request.not_counted", exc_info=True)
                return None
        return request.auth_result.allowance


def _begin_span(request: Request) -> tracing.TraceSpan | None:
    """The span of a request; from now on the route keeps it, and calls are made within it."""
    if tracing.spans is None or request.scope["path"] in _PROBES:
        return None
    span = tracing.spans.start("request", "server", parent=request.trace.traceparent)
    request.trace = request.trace._replace(traceparent=span.traceparent)
    return span


def _end_span(span: tracing.TraceSpan, request: Request, method: str, path: str, status: int) -> None:
    """Ends the span, named by the address without its parameters, which may hold anything."""
    attributes: dict[str, str | int] = {
        "http.request.method": method if method != "-" else "_OTHER",
        "http.route": path,
        "http.response.status_code": status,
        "request_id": request.id,
    }
    span.end(name=f"{method} {path}", failed=str(status) if status >= 500 else None, attributes=attributes)


def _paused(request: Request) -> Answer:
    request.auth_result = AuthResult(None, Allowance(allowed=True, remaining=0, retry_after_seconds=PAUSE_SECONDS))
    return _problem(company_paused())


def _beyond_limit(request: Request) -> Answer:
    refusal = refusal_of(request.auth_result or NOBODY, None)
    assert refusal is not None  # noqa: S101 (it has used up what it may do)
    return _problem(refusal)


def _failure(request: Request) -> Answer:
    detail = f"The request failed on our side and needs no change; retry shortly. Request {request.id}."
    return _problem(ApiError("internal_error", detail))


def _magic_answer(error: MagicError, request: Request) -> Answer:
    """The error that a push to the sandbox asked for, with the words and headers of the real one."""
    request.is_magic_error = True
    if error.code == "internal_error":
        return _failure(request)
    used_up = Allowance(allowed=True, remaining=0, retry_after_seconds=1)
    request.auth_result = AuthResult((request.auth_result or NOBODY).caller, used_up)
    return _problem(rate_limited(used_up))


def _problem(error: ApiError) -> Answer:
    """The problem document. Its `type` is always `about:blank`, so a header links to the cause and cure of the code."""
    given = {**error.headers, "Link": f'</docs/errors#{error.code}>; rel="help"'}
    headers = tuple((name.lower().encode(), value.encode("latin-1")) for name, value in given.items())
    return Answer(KINDS[error.code].status, document_of(error), PROBLEM_TYPE.encode(), headers)


def _in_our_words(error: HTTPException | CapacityTimeout, scope: Scope) -> ApiError:
    """Errors of Starlette's router, and of a body that waited too long for its place, as errors of the API."""
    if isinstance(error, CapacityTimeout):
        return ApiError(
            "rate_limited",
            "Too many bodies of this company are on their way at a time; retry in 1 s.",
            headers={"Retry-After": "1"},
        )
    if error.status_code == 405:
        allowed = allowed_methods(scope)
        return ApiError("method_not_allowed", f"This address takes {allowed}.", headers={"Allow": allowed})
    if error.status_code == 404:
        return ApiError("not_found", "There is nothing at this address: see /docs.")
    return ApiError("validation_error", str(error.detail), errors=[])


@functools.cache
def _measure(method: str, path: str, status: int | str) -> Histogram:
    """The histogram of a kind of request. Methods, paths and statuses are the service's own, so there are few."""
    return REQUESTS.labels(method, path, status)
