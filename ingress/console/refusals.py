"""The pages for errors, which say what went wrong and what to do, and the table from errors to pages."""

from functools import partial
from typing import NamedTuple, TypeVar

import psycopg
import redis
from psycopg.errors import IdleInTransactionSessionTimeout, LockNotAvailable
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ExceptionHandler

from domain.errors import FuelrouteError, Unknown
from domain.files.reading_ends import ReadingTooLong
from domain.telemetry.logs import get_logger
from domain.wording import sentence
from ingress.console.browser import BadForm, TooLarge, TooSlow
from ingress.console.console import console_of
from ingress.console.downloads import TooManyDownloads
from ingress.http.allowed_methods import allowed_methods
from ingress.http.fair_queue import CapacityTimeout

log = get_logger(__name__)


class Refused(Exception):
    """A request that is answered with a page of its own: a status, a title, and what to do."""

    def __init__(self, status: int, title: str, what_to_do: str) -> None:
        super().__init__(title)
        self.status = status
        self.title = title
        self.what_to_do = what_to_do


Row = TypeVar("Row")


class FormFault(FuelrouteError):
    """A fault that a person must correct in a form. The page of the form is shown again with it, see `action_at`."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


_NOTHING_HERE = "There is nothing at this address, or it belongs to another company."


def not_found() -> Refused:
    return Refused(404, "Not found", _NOTHING_HERE)


def known(row: Row | None) -> Row:
    """The row. Raises Refused, which is answered 404, if there is none."""
    if row is None:
        raise not_found()
    return row


class _Answer(NamedTuple):
    status: int
    title: str
    what_to_do: str = ""
    """The sentence that says what to do; empty if the text of the error says it."""
    logged: str = ""
    """The name of the log event; empty if the error is the person's mistake."""


_TRY_AGAIN = "Nothing was changed. Try again shortly."
_ANSWERS: dict[type[Exception], _Answer] = {
    BadForm: _Answer(400, "This form cannot be read"),
    ReadingTooLong: _Answer(400, "This file cannot be read"),
    TooLarge: _Answer(413, "This file is too large"),
    TooSlow: _Answer(408, "This did not arrive in time", "Send it again."),
    TooManyDownloads: _Answer(429, "One file at a time"),
    CapacityTimeout: _Answer(429, "Too many requests at a time", "Try again in a moment."),
    Unknown: _Answer(404, "Not found", _NOTHING_HERE),
    FuelrouteError: _Answer(409, "This cannot be done"),
    LockNotAvailable: _Answer(
        409, "Something else is changing the same data", "Nothing was changed. Try again in a moment."
    ),
    IdleInTransactionSessionTimeout: _Answer(503, "This took too long", _TRY_AGAIN, "console.took_too_long"),
    psycopg.OperationalError: _Answer(503, "The database does not answer", _TRY_AGAIN, "console.database_away"),
    redis.RedisError: _Answer(503, "Redis does not answer", _TRY_AGAIN, "console.redis_away"),
    Exception: _Answer(500, "Something failed on our side", _TRY_AGAIN, "console.failed"),
}
"""The answer to each class of errors. The nearest class counts."""


async def answer_error(request: Request, error: Exception) -> Response:
    """The page, or the part of one, for an error."""
    if isinstance(error, Refused):
        return refusal(request, error)
    answer = next(_ANSWERS[kind] for kind in type(error).__mro__ if kind in _ANSWERS)
    if answer.logged:
        write = log.error if answer.status == 500 else log.warning
        path = getattr(request.scope.get("route"), "path", "")
        write(answer.logged, method=request.method, path=path, exc_info=error)
    response = refusal(request, Refused(answer.status, answer.title, answer.what_to_do or sentence(str(error))))
    if answer.status == 408:  # the rest of the request may never come
        response.headers["Connection"] = "close"
    return response


async def _answer_unknown_address(request: Request, error: Exception) -> Response:
    """The page for an address that does not exist. A caller may ask for many of them, so each waits for a thread of the
    pages."""
    refused = not_found()
    is_known = isinstance(error, HTTPException) and error.status_code == 405
    if is_known:
        refused = Refused(405, "This address takes no such request", "Go back to a page and try again from there.")
    console = console_of(request)
    response = await console.pages.run(await console.owner_of(request), partial(refusal, request, refused))
    if is_known:  # RFC 9110 asks for it, section 15.5.6
        response.headers["Allow"] = allowed_methods(request.scope)
    return response


async def _answer_nobody(_: Request, __: Exception) -> Response:
    """The answer after the browser has gone."""
    return Response(status_code=499)


EXCEPTION_HANDLERS: dict[type[Exception], ExceptionHandler] = {
    Refused: answer_error,
    **{kind: answer_error for kind in _ANSWERS if kind is not Exception},
    HTTPException: _answer_unknown_address,
    ClientDisconnect: _answer_nobody,
}
"""The table for Starlette. `Guard` answers all other errors: Starlette would raise them again after its answer, and
uvicorn would close the connection."""


def refusal(request: Request, refused: Refused) -> Response:
    """A whole page, or the part of one if a part was asked for."""
    is_part = request.headers.get("hx-request") == "true"
    template = "_refused.html" if is_part else "refused.html"
    response = console_of(request).render(
        request, template, status=refused.status, title=refused.title, what_to_do=refused.what_to_do
    )
    if is_part:  # the form stays on the page, so that the person can correct it
        response.headers["HX-Retarget"] = "#notices"
        response.headers["HX-Reswap"] = "innerMorph"  # what stays the same is not read aloud again
    return response
