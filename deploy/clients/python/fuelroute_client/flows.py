"""The calls of a client as flows: generators that yield requests and pauses, and get answers.

A flow does no input or output of its own. `client.py` runs the same flows with blocking calls and with asyncio, so that
retries, pages and waiting are written once.
"""

import random
import time
from collections.abc import Callable, Collection, Generator, Mapping
from datetime import datetime
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from .errors import ApiError, RouteEnded, ServiceUnreachable, UnexpectedAnswer, WaitTimeout
from .models import (
    Driver,
    DriverList,
    FieldFault,
    LoadPreview,
    Me,
    PreviewInput,
    Route,
    RouteInput,
    RouteList,
    Vehicle,
    VehicleList,
)

Result = TypeVar("Result")
Item = TypeVar("Item")

ATTEMPT_SECONDS = 30.0
"""Most seconds of one request."""
PAGE_SIZE = 100

_RETRIED = frozenset((429, 500, 502, 503, 504))
_FIRST_WAIT_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 10.0
_FIRST_POLL_SECONDS = 1.0
_LONGEST_POLL_SECONDS = 30.0
_POLL_GROWTH = 1.5


class Request(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes | None = None
    headers: Mapping[str, str] = {}
    timeout_seconds: float = ATTEMPT_SECONDS


class Pause(NamedTuple):
    seconds: float


Reply: TypeAlias = httpx.Response | httpx.RequestError | None
"""The reply to a request: an answer, or the error in its place. The reply to a pause is None."""

Flow: TypeAlias = Generator[Request | Pause, Reply, Result]


class Pushed(NamedTuple):
    """A route that the service has accepted."""

    route: Route
    outcome: Literal["created", "updated", "held"]
    """`held`: stored, and imported by itself once `route.pending` no longer applies; nothing needs to be sent again. A
    push that is repeated after a lost answer finds its own route, and so says `updated` where it created one."""


class _Problem(msgspec.Struct):
    """The part of a problem document that an error needs."""

    code: str
    detail: str = ""
    errors: list[FieldFault] = []


# --- One request, and its retries ------------------------------------------------------------------------------


def call(request: Request, timeout_seconds: float, *, expect: Collection[int] = (200,)) -> Flow[httpx.Response]:
    """An answer with one of the statuses.

    Every call of this API may be repeated: a push is idempotent by its `externalId`, a preview stores nothing. So 429,
    500, 502, 503, 504 and lost connections are retried until the time is over. Raises ApiError for a refusal, and
    ServiceUnreachable without an answer."""
    deadline = time.monotonic() + timeout_seconds
    attempt = 0
    while True:
        left = max(deadline - time.monotonic(), 0.1)
        reply = yield request._replace(timeout_seconds=min(left, ATTEMPT_SECONDS))
        if isinstance(reply, httpx.Response) and reply.status_code in expect:
            return reply
        wait = _wait_seconds(reply, attempt)
        if wait is None or time.monotonic() + wait >= deadline:
            raise _failure(reply)
        yield Pause(wait)
        attempt += 1


def _wait_seconds(reply: Reply, attempt: int) -> float | None:
    """The pause before the next attempt, or None if another one would not help. It is random, so that clients which
    failed together do not come back together."""
    longest = min(_FIRST_WAIT_SECONDS * (1 << min(attempt, 10)), _LONGEST_WAIT_SECONDS)
    backoff = longest * random.uniform(0.5, 1)  # noqa: S311
    if not isinstance(reply, httpx.Response):
        return backoff
    if reply.status_code not in _RETRIED:
        return None
    asked = _retry_after(reply)
    return backoff if asked is None else asked + random.uniform(0, 0.5)  # noqa: S311


def _retry_after(answer: httpx.Response) -> float | None:
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None


def _failure(reply: Reply) -> ApiError | ServiceUnreachable | UnexpectedAnswer:
    if not isinstance(reply, httpx.Response):
        error = ServiceUnreachable(f"the service does not answer: {reply or type(reply).__name__}")
        error.__cause__ = reply
        return error
    try:
        problem = msgspec.json.decode(reply.content, type=_Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        if reply.status_code < 400:
            return _unexpected(reply)
        problem = _Problem(f"http_{reply.status_code}", f"no problem document, but {reply.text[:200]!r}")
    return ApiError(
        reply.status_code,
        problem.code,
        problem.detail,
        errors=problem.errors,
        request_id=reply.headers.get("X-Request-Id"),
        retry_after_seconds=_retry_after(reply),
    )


def _unexpected(answer: httpx.Response) -> UnexpectedAnswer:
    where = f" to {answer.headers['Location']!r}" if "Location" in answer.headers else ""
    return UnexpectedAnswer(
        f"{answer.status_code}{where} is no answer of the API; is the address right? It begins {answer.text[:100]!r}"
    )


def _read(answer: httpx.Response, shape: type[Result]) -> Result:
    """The answer as `shape`. Unknown fields are ignored, unknown values of enumerations kept: the service may be newer
    than this client."""
    try:
        return msgspec.json.decode(answer.content, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _unexpected(answer) from None


_write = msgspec.json.Encoder(decimal_format="number").encode
"""A `Decimal`, in which databases give coordinates, is a number of the API too, which takes no number as a text."""


def _get(
    path: str, shape: type[Result], timeout_seconds: float, query: Mapping[str, str] | None = None
) -> Flow[Result]:
    return _read((yield from call(Request("GET", path, query or {}), timeout_seconds)), shape)


# --- The operations --------------------------------------------------------------------------------------------


def read_me(timeout_seconds: float) -> Flow[Me]:
    return _get("/v1/me", Me, timeout_seconds)


def push_route(route: RouteInput | Mapping[str, Any], timeout_seconds: float) -> Flow[Pushed]:
    request = Request("POST", "/v1/routes", body=_write(route), headers={"Content-Type": "application/json"})
    answer = yield from call(request, timeout_seconds, expect=_OUTCOMES.keys())
    return Pushed(_read(answer, Route), _OUTCOMES[answer.status_code])


_OUTCOMES: dict[int, Literal["created", "updated", "held"]] = {201: "created", 200: "updated", 202: "held"}


def preview_load(load: PreviewInput | Mapping[str, Any], timeout_seconds: float) -> Flow[LoadPreview]:
    body, headers = _write(load), {"Content-Type": "application/json"}
    answer = yield from call(Request("POST", "/planning/preview", body=body, headers=headers), timeout_seconds)
    return _read(answer, LoadPreview)


def get_route(route_id: str, timeout_seconds: float) -> Flow[Route]:
    return _get(_path_of(route_id), Route, timeout_seconds)


def find_route(external_id: str, timeout_seconds: float) -> Flow[Route | None]:
    page = yield from _get("/v1/routes", RouteList, timeout_seconds, {"externalId": external_id})
    return page.data[0] if page.data else None


def cancel_route(route_id: str, timeout_seconds: float) -> Flow[None]:
    yield from call(Request("DELETE", _path_of(route_id)), timeout_seconds, expect=(204,))


def _path_of(route_id: str) -> str:
    return f"/v1/routes/{quote(route_id, safe='')}"


# --- Lists -----------------------------------------------------------------------------------------------------


class Page(Protocol[Item]):
    """One page of a list."""

    @property
    def data(self) -> list[Item]: ...
    @property
    def total(self) -> int: ...


class Pages(Protocol[Item]):
    """The rest of a list."""

    def read(self, timeout_seconds: float) -> "Flow[tuple[list[Item], Pages[Item] | None]]":
        """The entries of the next page, and the pages after it, if there are any."""
        ...


class Listing(NamedTuple, Generic[Result]):
    """The rest of a list, from `offset` on."""

    path: str
    shape: type[Page[Result]]
    query: Mapping[str, str]
    page_size: int
    offset: int = 0

    def read(self, timeout_seconds: float) -> "Flow[tuple[list[Result], Listing[Result] | None]]":
        place = {"limit": str(self.page_size), "offset": str(self.offset)}
        page = yield from _get(self.path, self.shape, timeout_seconds, {**self.query, **place})
        offset = self.offset + len(page.data)
        return page.data, self._replace(offset=offset) if page.data and offset < page.total else None


class Change(NamedTuple):
    """A route that has changed, in its present state."""

    route: Route
    cursor: str | None
    """The place to go on from, once this change is processed: store it. Within a page it leads to the page's start, so
    that a program which stops there sees some changes again; it is None where the first page has none."""


class Changes(NamedTuple):
    """The changes after a time or a cursor."""

    since: datetime | None
    cursor: str | None
    page_size: int

    def read(self, timeout_seconds: float) -> "Flow[tuple[list[Change], Changes | None]]":
        query = _given(updatedSince=self.since, cursor=self.cursor, limit=str(self.page_size))
        page = yield from _get("/v1/routes", RouteList, timeout_seconds, query)
        if not isinstance(page.next_cursor, str):
            raise UnexpectedAnswer("this service tells no changes of routes: its release is too old")
        changes = [Change(route, self.cursor) for route in page.data]
        if changes:
            changes[-1] = changes[-1]._replace(cursor=page.next_cursor)
        more = self._replace(since=None, cursor=page.next_cursor) if page.total > page.limit else None
        return changes, more


def changes(*, since: datetime | None, cursor: str | None, page_size: int) -> Changes:
    if (since is None) == (cursor is None):
        raise ValueError("give `since` for the first time, and then the last `cursor` alone")
    return Changes(since, cursor, page_size)


def routes(
    *,
    status: str | None,
    external_id: str | None,
    vehicle_id: str | None,
    scheduled_from: datetime | None,
    scheduled_to: datetime | None,
    page_size: int,
) -> Listing[Route]:
    query = _given(
        status=status, externalId=external_id, vehicleId=vehicle_id, **{"from": scheduled_from, "to": scheduled_to}
    )
    return Listing("/v1/routes", RouteList, query, page_size)


def vehicles(*, unit_number: str | None, vin: str | None, page_size: int) -> Listing[Vehicle]:
    return Listing("/v1/vehicles", VehicleList, _given(unitNumber=unit_number, vin=vin), page_size)


def drivers(*, name: str | None, page_size: int) -> Listing[Driver]:
    return Listing("/v1/drivers", DriverList, _given(name=name), page_size)


def _given(**query: str | datetime | None) -> dict[str, str]:
    return {name: _text(value) for name, value in query.items() if value is not None}


def _text(value: str | datetime) -> str:
    if not isinstance(value, datetime):
        return str(value)
    if value.tzinfo is None:
        raise ValueError(f"{value} needs a time zone, such as datetime(..., tzinfo=UTC)")
    return value.isoformat()


# --- Waiting ---------------------------------------------------------------------------------------------------

_ORDER = ("pending", "pending_mapping", "pending_window", "draft", "planned", "active", "completed")
_ENDED = frozenset(("completed", "error", "canceled"))


def wait_until(
    route_id: str, status: str, wait_seconds: float, timeout_seconds: float, on_change: Callable[[Route], object]
) -> Flow[Route]:
    """The route, once it is in the status or further on its way. Asks with the `ETag` of the last answer, in growing
    pauses. Raises RouteEnded when it can no longer get there, and WaitTimeout when the time is over."""
    deadline = time.monotonic() + wait_seconds
    left = wait_seconds
    known: httpx.Response | None = None
    pause = _FIRST_POLL_SECONDS
    while True:
        etag = {"If-None-Match": known.headers["ETag"]} if known is not None and "ETag" in known.headers else {}
        request = Request("GET", _path_of(route_id), headers=etag)
        answer = yield from call(request, min(timeout_seconds, max(left, 1)), expect=(200, 304) if etag else (200,))
        if answer.status_code == 200:
            known, route, pause = answer, _read(answer, Route), _FIRST_POLL_SECONDS
            on_change(route)
            if _has_reached(route.status, status):
                return route
            if route.status in _ENDED:
                raise RouteEnded(route, status)
        left = deadline - time.monotonic()
        if left <= 0:
            raise WaitTimeout(route, status, wait_seconds)
        yield Pause(min(pause, left))
        pause = min(pause * _POLL_GROWTH, _LONGEST_POLL_SECONDS)


def _has_reached(status: str, wanted: str) -> bool:
    if status in _ORDER and wanted in _ORDER:
        return _ORDER.index(status) >= _ORDER.index(wanted)
    return status == wanted
