"""The endpoints: check, store, enqueue, answer. Rules and statements live in `domain`."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from domain.accounts.keys import Caller
from domain.accounts.queries import read_me
from domain.contract.checking import Invalid, read_body, read_query, read_value
from domain.contract.shapes import (
    MAX_BODY_BYTES,
    DriverQuery,
    FieldFault,
    Position,
    PositionBatch,
    PositionsAccepted,
    RejectedPosition,
    RouteInput,
    RouteList,
    RouteQuery,
    VehicleQuery,
)
from domain.database import Connection
from domain.encoding import write
from domain.fleet.queries import list_drivers, list_vehicles
from domain.ids import is_id
from domain.lifecycle import HELD
from domain.observability import FIXES_RECEIVED
from domain.routes.progress import cancel_route
from domain.routes.queries import list_routes
from domain.telematics.feed import Feed, store_positions
from ingress.admission import Item, Result
from ingress.admission import Request as Wanted
from ingress.auth import AUTH_RESULT, NOBODY, AuthResult, credentials_of, refusal_of, unauthorized
from ingress.connections import BODY_IS_HERE
from ingress.problems import ApiError
from ingress.pushing import Answered
from ingress.services import Batches, Services
from ingress.turns import NothingFree

Shape = TypeVar("Shape", bound=msgspec.Struct)
Read = TypeVar("Read")

_NO_SUCH_ROUTE = "No route with that id belongs to this company."


def json_answer(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(write(value), status_code=status, media_type="application/json", headers=headers)


def max_bytes_of(request: Request) -> int:
    """How large the JSON body can be. Raises ApiError: 415 when it says to be something else, 413 when it is too
    large."""
    content_type, declared = b"application/json", b""
    for name, value in reversed(request.scope["headers"]):  # of several, the first counts
        if name == b"content-type":
            content_type = value
        elif name == b"content-length":
            declared = value
    if content_type != b"application/json":
        media_type = content_type.decode("latin-1").partition(";")[0].strip().lower()
        if media_type != "application/json" and not media_type.endswith("+json"):
            raise ApiError("unsupported_media_type", f"Send `Content-Type: application/json`, not `{media_type}`.")
    if not declared.isdigit():
        return MAX_BODY_BYTES
    if int(declared) > MAX_BODY_BYTES:
        raise _too_large()
    return int(declared)


async def body_of(request: Request, timeout_seconds: float) -> bytes:
    """The body. Raises ApiError: 413 when it is too large, 400 when it only trickles in, for it holds a place that
    others wait for."""
    if BODY_IS_HERE in request.scope:
        return await _received(request)
    try:
        async with asyncio.timeout(timeout_seconds):
            return await _received(request)
    except TimeoutError:
        fault = FieldFault(field="", message=f"did not arrive within {timeout_seconds:g} s")
        raise ApiError("validation_error", "The body has 1 invalid field.", errors=[fault]) from None


async def _received(request: Request) -> bytes:
    body = bytearray()
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise _too_large()
        more = message.get("more_body", False)
    return bytes(body)


def _too_large() -> ApiError:
    return ApiError("content_too_large", f"The body may have {MAX_BODY_BYTES} bytes at most.")


def checked(read: Callable[[], Shape], what: str) -> Shape:
    """The shape that `read` returns. Raises ApiError 400 with every fault."""
    try:
        return read()
    except Invalid as invalid:
        count = len(invalid.faults)
        detail = f"{what} has {count} invalid field{'s' if count > 1 else ''}."
        raise ApiError("validation_error", detail, errors=invalid.faults) from None


def query_of(request: Request, shape: type[Shape]) -> Shape:
    return checked(lambda: read_query(request.query_params, shape), "The query")


class Api:
    """The endpoints over one process's services. Each says which permission it needs."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def _admit(self, request: Request, permission: str | None = None) -> Caller:
        """Who makes the request; looked up once. Raises ApiError: 401 without a valid key, 429 over the limit, 403
        without the permission."""
        auth_result: AuthResult | None = request.scope.get(AUTH_RESULT)
        if auth_result is None:
            credentials = credentials_of(request.scope)
            auth_result = (
                await self._services.admission.authenticate(credentials) if credentials is not None else NOBODY
            )
            request.scope[AUTH_RESULT] = auth_result
        refusal = refusal_of(auth_result, permission)
        if refusal is not None:
            raise refusal
        assert auth_result.caller is not None  # noqa: S101 (it would have been refused)
        return auth_result.caller

    async def _ask(self, request: Request, permission: str, batches: Batches[Item, Result], item: Item) -> Result:
        """What the batch finds for `item`. It looks at the key in the same turn, also when the request has been
        admitted before, but counts a request once. Raises ApiError like `_admit`, and what the work raised."""
        credentials = credentials_of(request.scope)
        if credentials is None:
            raise unauthorized()
        known: AuthResult | None = request.scope.get(AUTH_RESULT)
        by = credentials if known is None else credentials._replace(counted=False)
        answer = await batches.submit(Wanted(by, permission, item), self._services.admission.owner_of(credentials))
        if known is None:
            request.scope[AUTH_RESULT] = answer.auth_result
        if isinstance(answer.result, BaseException):
            raise _remembered(answer.result, request)
        return answer.result

    async def _read(
        self,
        request: Request,
        permission: str | None,
        read: Callable[[Connection, Caller], Read],
    ) -> Read:
        """What `read` finds in a transaction of its own. Raises ApiError like `_admit`."""

        def in_transaction(caller: Caller) -> Read:
            with self._services.transaction(caller) as connection:
                return read(connection, caller)

        return await self._work(request, permission, in_transaction)

    async def _work(self, request: Request, permission: str | None, work: Callable[[Caller], Read]) -> Read:
        """What comes of `work` in a thread. Raises ApiError like `_admit`, and what the work raised."""
        caller = await self._admit(request, permission)
        try:
            return await self._services.in_thread(caller, partial(work, caller))
        except ApiError as refused:
            raise _remembered(refused, request) from None

    async def _checked(self, request: Request, permission: str, read: Callable[[], Read]) -> Read:
        """What `read` makes of the request. Raises ApiError like it; without permission, the error of authentication
        and never details of validation."""
        try:
            return read()
        except ApiError:
            await self._admit(request, permission)
            raise

    async def _with_body(self, request: Request, company: str, work: Callable[[bytes], Awaitable[Read]]) -> Read:
        """What comes of `work` with the body, which counts against what its company may have open until then. Raises
        ApiError 429 when the company has too much open for too long, and like `body_of` and `work`."""
        seconds = self._services.settings.body_timeout_seconds
        try:
            async with self._services.bodies.part(company, max_bytes_of(request), patience_seconds=seconds):
                return await work(await body_of(request, seconds))
        except NothingFree:
            raise ApiError(
                "rate_limited",
                "Too many bodies of this company are on their way at a time; retry in 1 s.",
                headers={"Retry-After": "1"},
            ) from None

    async def get_me(self, request: Request) -> Response:
        return json_answer(await self._read(request, None, read_me))

    async def create_or_update_route(self, request: Request) -> Response:
        """Without permission the answer is its error, never details of the body. The body of a stranger is not even
        read, nor that of a key over its limit."""
        credentials = credentials_of(request.scope)
        known = self._services.admission.known_of(credentials) if credentials is not None else None
        if known is not None and known.within_limit:
            caller = known.caller
        else:
            caller = await self._admit(request, "routes:write")

        async def push(body: bytes) -> Answered:
            route = checked(lambda: read_body(body, RouteInput), "The body")
            return await self._ask(request, "routes:write", self._services.pushes, route)

        try:
            effect, route = await self._with_body(request, caller.company_id, push)
        except ApiError:
            await self._admit(request, "routes:write")
            raise
        if effect != "create":
            return json_answer(route)
        return json_answer(route, 202 if route.status in HELD else 201)

    async def list_routes(self, request: Request) -> Response:
        query = await self._checked(request, "routes:read", lambda: query_of(request, RouteQuery))
        if query.external_id is not None and query == RouteQuery(external_id=query.external_id, limit=query.limit):
            # how a TMS polls: in batches
            route = await self._ask(request, "routes:read", self._services.finds, query.external_id)
            found = [route] if route is not None else []
            return json_answer(RouteList(data=found, total=len(found), limit=query.limit, offset=0))
        return json_answer(
            await self._read(request, "routes:read", lambda c, caller: list_routes(c, caller.tenant, query))
        )

    async def get_route(self, request: Request) -> Response:
        route_id = await self._checked(request, "routes:read", lambda: _route_id_of(request))
        known = request.headers.get("if-none-match")
        if known is not None:
            version = await self._ask(request, "routes:read", self._services.versions, route_id)
            if version is not None and _names(known, _etag(version)):
                return Response(status_code=304, headers={"ETag": _etag(version)})
        found = await self._ask(request, "routes:read", self._services.reads, route_id)
        if found is None:
            raise ApiError("not_found", _NO_SUCH_ROUTE)
        return json_answer(found.route, headers={"ETag": _etag(found.version)})

    async def cancel_route(self, request: Request) -> Response:
        route_id = await self._checked(request, "routes:write", lambda: _route_id_of(request))
        effect, jobs = await self._read(
            request,
            "routes:write",
            lambda connection, caller: cancel_route(connection, caller.tenant, route_id, now=datetime.now(UTC)),
        )
        await self._services.jobs.put(*jobs)
        if effect is None:
            raise ApiError("not_found", _NO_SUCH_ROUTE)
        if effect == "refuse":
            raise ApiError("route_active", "The route is active or finished; it cannot be canceled through the API.")
        return Response(status_code=204)

    async def list_vehicles(self, request: Request) -> Response:
        query = await self._checked(request, "vehicles:read", lambda: query_of(request, VehicleQuery))
        return json_answer(
            await self._read(request, "vehicles:read", lambda c, caller: list_vehicles(c, caller.company_id, query))
        )

    async def list_drivers(self, request: Request) -> Response:
        query = await self._checked(request, "drivers:read", lambda: query_of(request, DriverQuery))
        return json_answer(
            await self._read(request, "drivers:read", lambda c, caller: list_drivers(c, caller.company_id, query))
        )

    async def post_positions(self, request: Request) -> Response:
        """The telematics feed: one bad entry never costs the others."""
        caller = await self._admit(request, "positions:write")

        async def store(body: bytes) -> PositionsAccepted:
            positions, rejected = await self._work(request, "positions:write", lambda _: _read_positions(body))
            await self._services.count_positions(caller, len(positions) + len(rejected))
            feed = await self._read(request, "positions:write", partial(self._store_positions, positions))
            await self._services.jobs.put(*feed.jobs)
            _count(feed.accepted, feed.dropped, len(rejected) + len(feed.rejected))
            rejected = sorted([*rejected, *feed.rejected], key=lambda entry: entry.index)
            return PositionsAccepted(accepted=feed.accepted, rejected=rejected)

        return json_answer(await self._with_body(request, caller.company_id, store), 202)

    def _store_positions(self, positions: list[tuple[int, Position]], connection: Connection, caller: Caller) -> Feed:
        radius = self._services.settings.arrival_radius_meters
        early = timedelta(hours=self._services.settings.early_arrival_hours)
        now = datetime.now(UTC)
        return store_positions(connection, caller.tenant, positions, now=now, near_meters=radius, early=early)


def _read_positions(body: bytes) -> tuple[list[tuple[int, Position]], list[RejectedPosition]]:
    """Those that can be read, each with its place in the body, and the others. Raises ApiError for the body as a
    whole."""
    batch = checked(lambda: read_body(body, PositionBatch), "The body")
    positions: list[tuple[int, Position]] = []
    rejected: list[RejectedPosition] = []
    for index, entry in enumerate(batch.positions):
        try:
            positions.append((index, read_value(entry, Position)))
        except Invalid as invalid:
            rejected.append(RejectedPosition(index=index, message=str(invalid)))
    return positions, rejected


Failure = TypeVar("Failure", bound=BaseException)


def _remembered(failure: Failure, request: Request) -> Failure:
    """The failure; a key that was admitted before and is refused now is told nothing of its limit."""
    if isinstance(failure, ApiError) and failure.code == "unauthorized":
        request.scope[AUTH_RESULT] = NOBODY
    return failure


def _route_id_of(request: Request) -> str:
    """Raises ApiError 404 for what cannot be one."""
    route_id: str = request.path_params["id"]
    if not is_id(route_id, "rte"):
        raise ApiError("not_found", _NO_SUCH_ROUTE)
    return route_id


def _etag(version: str) -> str:
    """`version` tells the data apart, the digit in front the shape that this release gives it."""
    return f'"1-{version}"'


def _names(header: str, etag: str) -> bool:
    """Whether an If-None-Match header names the tag; weak comparison, as RFC 9110 has it."""
    tags = [tag.strip().removeprefix("W/") for tag in header.split(",")]
    return etag in tags or "*" in tags


def _count(accepted: int, dropped: dict[str, int], rejected: int) -> None:
    FIXES_RECEIVED.labels("stored").inc(accepted - sum(dropped.values()))
    FIXES_RECEIVED.labels("rejected").inc(rejected)
    for reason, count in dropped.items():
        FIXES_RECEIVED.labels(reason).inc(count)
