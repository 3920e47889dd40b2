"""The two clients: `Fuelroute` blocks, `AsyncFuelroute` is for asyncio. They have the same methods."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from . import flows
from .errors import Misconfigured
from .flows import PAGE_SIZE, Change, Flow, Pages, Pause, Pushed, Reply, Request
from .models import Driver, LoadPreview, Me, PreviewInput, Route, RouteInput, Vehicle
from .version import __version__

Result = TypeVar("Result")

CALL_SECONDS = 60.0
"""Most seconds of a call with all its retries."""
WAIT_SECONDS = 600.0


class _Access:
    """The address and the key of a client, and its requests."""

    def __init__(self, base_url: str | None, api_key: str | None, timeout_seconds: float) -> None:
        self.base_url = _checked_url(base_url or os.environ.get("FUELROUTE_API_URL", ""))
        self._key = _checked_key(api_key or os.environ.get("FUELROUTE_API_KEY", ""))
        self.timeout_seconds = timeout_seconds

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r})"  # never the key

    def request_options(self, request: Request) -> dict[str, Any]:
        """The arguments of httpx's `request`."""
        return {
            "method": request.method,
            "url": self.base_url + request.path,
            "params": dict(request.query) or None,
            "content": request.body,
            "headers": {
                "Authorization": f"Bearer {self._key}",
                "Accept": "application/json",
                "User-Agent": f"fuelroute-client-python/{__version__}",
                **request.headers,
            },
            "timeout": request.timeout_seconds,
            "follow_redirects": False,
        }


def _checked_url(text: str) -> str:
    if not text:
        raise Misconfigured("no address: give base_url, or set FUELROUTE_API_URL, such as https://api.example.com")
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise Misconfigured(f"base_url is no address: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise Misconfigured("base_url must begin with https:// (or http://) and a host")
    return text.rstrip("/")


def _checked_key(text: str) -> str:
    key = text.strip()
    if not key:
        raise Misconfigured("no API key: give api_key, or set FUELROUTE_API_KEY")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise Misconfigured("the API key has characters that no key has")  # never the key itself
    return key


def _endless(request: Request) -> httpx.RequestError:
    return httpx.ReadTimeout(f"no whole answer within {request.timeout_seconds:g} s")


class Fuelroute(_Access):
    """A client that blocks. Use it in a `with`, or close it. Threads may share it.

    `base_url` and `api_key` default to FUELROUTE_API_URL and FUELROUTE_API_KEY. `timeout_seconds` is the longest time
    of a call with all its retries. `http` is a client of httpx with settings of your own, which you close yourself."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_seconds: float = CALL_SECONDS,
        http: httpx.Client | None = None,
    ) -> None:
        super().__init__(base_url, api_key, timeout_seconds)
        self._http = http or httpx.Client()
        self._owns_http = http is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._owns_http:
            self._http.close()

    def me(self) -> Me:
        """The key's company, scopes, environment and rate limit."""
        return self._run(flows.read_me(self.timeout_seconds))

    def push_route(self, route: RouteInput | Mapping[str, Any]) -> Pushed:
        """Creates the route, or updates the one with its `externalId`. Raises ApiError: 400 `validation_error` names
        every invalid field, 409 `route_active` says that the truck is under way."""
        return self._run(flows.push_route(route, self.timeout_seconds))

    def preview_load(self, load: PreviewInput | Mapping[str, Any]) -> LoadPreview:
        """The fuel of a load before anybody takes it; nothing is stored. Raises ApiError: 400 `validation_error` names
        every invalid field, 404 `not_found` says that the company has no route with the `routeId`."""
        return self._run(flows.preview_load(load, self.timeout_seconds))

    def get_route(self, route_id: str) -> Route:
        """The route with this id. Raises ApiError 404 `not_found` if the company has none."""
        return self._run(flows.get_route(route_id, self.timeout_seconds))

    def find_route(self, external_id: str) -> Route | None:
        """The newest route with the `externalId`."""
        return self._run(flows.find_route(external_id, self.timeout_seconds))

    def cancel_route(self, route_id: str) -> None:
        """Cancels the route; a canceled one stays so. Raises ApiError: 404 `not_found`, 409 `route_active`."""
        self._run(flows.cancel_route(route_id, self.timeout_seconds))

    def routes(
        self,
        *,
        status: str | None = None,
        external_id: str | None = None,
        vehicle_id: str | None = None,
        scheduled_from: datetime | None = None,
        scheduled_to: datetime | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Iterator[Route]:
        """Routes that start at or after `scheduled_from` and before `scheduled_to`, latest start first, page by page.
        A route that is pushed meanwhile may move another one to the next page, where it comes again. One that leaves
        the list meanwhile, as its status is no longer `status`, may move another one to a page that was read: that one
        does not come. `changes` misses none."""
        return self._items(
            flows.routes(
                status=status,
                external_id=external_id,
                vehicle_id=vehicle_id,
                scheduled_from=scheduled_from,
                scheduled_to=scheduled_to,
                page_size=page_size,
            )
        )

    def vehicles(
        self, *, unit_number: str | None = None, vin: str | None = None, page_size: int = PAGE_SIZE
    ) -> Iterator[Vehicle]:
        """The company's vehicles, page by page."""
        return self._items(flows.vehicles(unit_number=unit_number, vin=vin, page_size=page_size))

    def drivers(self, *, name: str | None = None, page_size: int = PAGE_SIZE) -> Iterator[Driver]:
        """The company's drivers whose full name contains `name`, page by page."""
        return self._items(flows.drivers(name=name, page_size=page_size))

    def changes(
        self, *, since: datetime | None = None, cursor: str | None = None, page_size: int = PAGE_SIZE
    ) -> Iterator[Change]:
        """Routes that have changed since a time, or since a cursor that an earlier change gave, in the order of their
        last changes. It ends at the present; ask again later with the last `cursor`. No change is missed."""
        return self._items(flows.changes(since=since, cursor=cursor, page_size=page_size))

    def wait_until(
        self,
        route_id: str,
        status: str,
        *,
        timeout_seconds: float = WAIT_SECONDS,
        on_change: Callable[[Route], object] = lambda _: None,
    ) -> Route:
        """The route, once it is in `status` or further on its way; `on_change` gets each state in between. Polls with
        the route's `ETag`, in growing pauses. Raises RouteEnded when it can no longer get there, and WaitTimeout when
        the time is over."""
        return self._run(flows.wait_until(route_id, status, timeout_seconds, self.timeout_seconds, on_change))

    def _items(self, pages: Pages[Result] | None) -> Iterator[Result]:
        while pages is not None:
            items, pages = self._run(pages.read(self.timeout_seconds))
            yield from items

    def _run(self, flow: Flow[Result]) -> Result:
        reply: Reply = None
        while True:
            try:
                step = flow.send(reply)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                reply = None
            else:
                reply = self._send(step)

    def _send(self, request: Request) -> Reply:
        deadline = time.monotonic() + request.timeout_seconds
        pieces = []
        try:
            with self._http.stream(**self.request_options(request)) as answer:
                for piece in answer.iter_bytes():
                    pieces.append(piece)
                    if time.monotonic() > deadline:  # httpx has a limit for each piece, and none for all of them
                        return _endless(request)
                answer.headers.pop("Content-Encoding", None)  # the pieces are decoded
                return httpx.Response(answer.status_code, headers=answer.headers, content=b"".join(pieces))
        except httpx.RequestError as error:
            return error


class AsyncFuelroute(_Access):
    """The client for asyncio. Use it in an `async with`, or close it. Tasks of one event loop may share it.

    The arguments are those of `Fuelroute`.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_seconds: float = CALL_SECONDS,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        super().__init__(base_url, api_key, timeout_seconds)
        self._http = http or httpx.AsyncClient()
        self._owns_http = http is None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if self._owns_http:
            await self._http.aclose()

    async def me(self) -> Me:
        """The key's company, scopes, environment and rate limit."""
        return await self._run(flows.read_me(self.timeout_seconds))

    async def push_route(self, route: RouteInput | Mapping[str, Any]) -> Pushed:
        """See `Fuelroute.push_route`."""
        return await self._run(flows.push_route(route, self.timeout_seconds))

    async def preview_load(self, load: PreviewInput | Mapping[str, Any]) -> LoadPreview:
        """See `Fuelroute.preview_load`."""
        return await self._run(flows.preview_load(load, self.timeout_seconds))

    async def get_route(self, route_id: str) -> Route:
        """The route with this id. Raises ApiError 404 `not_found` if the company has none."""
        return await self._run(flows.get_route(route_id, self.timeout_seconds))

    async def find_route(self, external_id: str) -> Route | None:
        """The newest route with the `externalId`."""
        return await self._run(flows.find_route(external_id, self.timeout_seconds))

    async def cancel_route(self, route_id: str) -> None:
        """See `Fuelroute.cancel_route`."""
        await self._run(flows.cancel_route(route_id, self.timeout_seconds))

    def routes(
        self,
        *,
        status: str | None = None,
        external_id: str | None = None,
        vehicle_id: str | None = None,
        scheduled_from: datetime | None = None,
        scheduled_to: datetime | None = None,
        page_size: int = PAGE_SIZE,
    ) -> AsyncIterator[Route]:
        """See `Fuelroute.routes`."""
        return self._items(
            flows.routes(
                status=status,
                external_id=external_id,
                vehicle_id=vehicle_id,
                scheduled_from=scheduled_from,
                scheduled_to=scheduled_to,
                page_size=page_size,
            )
        )

    def vehicles(
        self, *, unit_number: str | None = None, vin: str | None = None, page_size: int = PAGE_SIZE
    ) -> AsyncIterator[Vehicle]:
        """The company's vehicles, page by page."""
        return self._items(flows.vehicles(unit_number=unit_number, vin=vin, page_size=page_size))

    def drivers(self, *, name: str | None = None, page_size: int = PAGE_SIZE) -> AsyncIterator[Driver]:
        """The company's drivers whose full name contains `name`, page by page."""
        return self._items(flows.drivers(name=name, page_size=page_size))

    def changes(
        self, *, since: datetime | None = None, cursor: str | None = None, page_size: int = PAGE_SIZE
    ) -> AsyncIterator[Change]:
        """See `Fuelroute.changes`."""
        return self._items(flows.changes(since=since, cursor=cursor, page_size=page_size))

    async def wait_until(
        self,
        route_id: str,
        status: str,
        *,
        timeout_seconds: float = WAIT_SECONDS,
        on_change: Callable[[Route], object] = lambda _: None,
    ) -> Route:
        """See `Fuelroute.wait_until`."""
        return await self._run(flows.wait_until(route_id, status, timeout_seconds, self.timeout_seconds, on_change))

    async def _items(self, pages: Pages[Result] | None) -> AsyncIterator[Result]:
        while pages is not None:
            items, pages = await self._run(pages.read(self.timeout_seconds))
            for item in items:
                yield item

    async def _run(self, flow: Flow[Result]) -> Result:
        reply: Reply = None
        while True:
            try:
                step = flow.send(reply)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                reply = None
            else:
                reply = await self._send(step)

    async def _send(self, request: Request) -> Reply:
        try:
            async with asyncio.timeout(request.timeout_seconds):
                return await self._http.request(**self.request_options(request))
        except TimeoutError:
            return _endless(request)
        except httpx.RequestError as error:
            return error
