"""The endpoints: check, store, enqueue, answer. Rules and statements live in `domain`."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from typing import TypeVar
from urllib.parse import parse_qsl
from uuid import UUID

import msgspec

from domain import clock
from domain.accounts.keys import Caller
from domain.accounts.me import read_me
from domain.contract.checking import Invalid, read_body, read_query, read_value
from domain.contract.shapes import (
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
from domain.database.connections import Connection
from domain.encoding import write
from domain.fleet.api_lists import list_drivers, list_vehicles
from domain.ids import read_id
from domain.lifecycle import HELD, CancelEffect
from domain.queue.jobs import after_commit
from domain.routes.reading.changes import follows_changes, list_changes
from domain.routes.reading.lookups import list_routes
from domain.routes.transitions import cancel_route
from domain.telematics.feed import Feed, store_positions
from domain.telemetry.metrics import count_fixes
from domain.webhooks.endpoints import delivery_jobs
from ingress.api.access import NOBODY, Credentials, refusal_of, unauthorized
from ingress.api.authenticator import AuthorizedRequest, Item, Result
from ingress.api.push_pipeline import ReceivedPush
from ingress.api.request import JSON, Answer, Request
from ingress.api.services import Batches, Services
from ingress.http.fair_queue import CapacityTimeout, Permit
from ingress.http.problems import ApiError

Shape = TypeVar("Shape", bound=msgspec.Struct)
Read = TypeVar("Read")

NO_SUCH_ROUTE = "No route with that id belongs to this company."


def json_answer(value: object, status: int = 200, *headers: tuple[bytes, bytes]) -> Answer:
    return Answer(status, write(value), JSON, headers)


def checked(read: Callable[[], Shape], what: str) -> Shape:
    """The shape that `read` returns. Raises ApiError 400 that lists every fault."""
    try:
        return read()
    except Invalid as found:
        raise invalid(what, found.faults) from None


def invalid(what: str, faults: Sequence[FieldFault]) -> ApiError:
    """The error 400 that lists every fault."""
    count = len(faults)
    return ApiError("validation_error", f"{what} has {count} invalid field{'s' if count > 1 else ''}.", errors=faults)


def query_of(request: Request, shape: type[Shape]) -> Shape:
    """The query as `shape`. Unreadable bytes are a fault of their parameter, and never compared with anything."""
    query = request.scope["query_string"].decode("latin-1")
    pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    return checked(lambda: read_query({name: text for name, text in pairs if name.isascii()}, shape), "The query")


class Api:
    """The endpoints over one process's services. Each names the permission that it needs."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def admit(self, request: Request, permission: str | None = None) -> Caller:
        """The caller of the request, who is looked up once. Raises ApiError: 401 without a valid key, 429 over the
        limit, 403 without the permission."""
        auth_result = request.auth_result
        if auth_result is None:
            credentials = request.credentials
            auth_result = (
                await self._services.authenticator.authenticate(credentials) if credentials is not None else NOBODY
            )
            request.auth_result = auth_result
        refusal = refusal_of(auth_result, permission)
        if refusal is not None:
            raise refusal
        assert auth_result.caller is not None  # noqa: S101 (it would have been refused)
        return auth_result.caller

    async def _ask(self, request: Request, permission: str, batches: Batches[Item, Result], item: Item) -> Result:
        """The result for `item` in its batch. The batch checks the key too, even if the request was admitted before,
        but counts a request once. Raises ApiError as `admit` does, and every error of the work."""
        credentials = request.credentials
        if credentials is None:
            raise unauthorized()
        by = credentials if request.auth_result is None else Credentials(credentials.key, None)
        answered = await batches.submit(
            AuthorizedRequest(by, permission, item), self._services.authenticator.owner_of(credentials)
        )
        if request.auth_result is None:
            request.auth_result = answered.auth_result
        if isinstance(answered.result, BaseException):
            raise _remembered(answered.result, request)
        return answered.result

    async def _read(
        self,
        request: Request,
        permission: str | None,
        read: Callable[[Connection, Caller], Read],
        *,
        pipelined: bool = False,
    ) -> Read:
        """The result of `read` in a transaction of its own. Raises ApiError as `admit` does."""

        def in_transaction(caller: Caller) -> Read:
            with self._services.transaction(caller, pipelined=pipelined) as connection:
                return read(connection, caller)

        return await self._work(request, permission, in_transaction)

    async def _read_replica(
        self, request: Request, permission: str, read: Callable[[Connection, Caller], Read]
    ) -> Read | None:
        """The result of `read` on a replica. None if the primary must be asked, which also refuses a key that is no
        longer valid. Raises ApiError as `admit` does."""
        replica = self._services.replica
        if replica is None:
            return None
        caller = await self.admit(request, permission)
        found = await self._services.in_thread(
            caller, lambda: replica.read_in_thread(caller, lambda connection: read(connection, caller))
        )
        return found[1] if found is not None and await replica.judge_one(caller, found[0]) else None

    async def _work(self, request: Request, permission: str | None, work: Callable[[Caller], Read]) -> Read:
        """The result of `work` in a thread. Raises ApiError as `admit` does, and every error of the work."""
        caller = await self.admit(request, permission)
        try:
            return await self._services.in_thread(caller, partial(work, caller))
        except ApiError as refused:
            raise _remembered(refused, request) from None

    async def _checked(self, request: Request, permission: str, read: Callable[[], Read]) -> Read:
        """The result of `read`, and its ApiError. A request without permission gets the authentication error, never
        details of validation."""
        try:
            return read()
        except ApiError:
            await self.admit(request, permission)
            raise

    def body_permit(self, request: Request, owner: str) -> Permit:
        """A permit for the bytes of the request's body, within the limit of its company. Raises ApiError as
        `max_body_bytes` does, and on entry CapacityTimeout when the company has too much open for too long."""
        seconds = self._services.settings.body_timeout_seconds
        return self._services.bodies.permit(owner, request.max_body_bytes(), patience_seconds=seconds)

    async def get_me(self, request: Request) -> Answer:
        return json_answer(await self._read(request, None, read_me))

    async def create_or_update_route(self, request: Request) -> Answer:
        """Pushes a route. A request without permission gets its error and never details of the body. The body of an
        unknown key, or of a key over its limit, is not even read."""
        credentials = request.credentials
        known = self._services.authenticator.known_of(credentials) if credentials is not None else None
        if known is not None and known.within_limit:
            owner = known.owner
        else:
            owner = (await self.admit(request, "routes:write")).company_id.hex
        try:
            async with self.body_permit(request, owner):
                body = await request.body(self._services.settings.body_timeout_seconds)
                route = checked(lambda: read_body(body, RouteInput), "The body")
                pushed = await self._ask(
                    request, "routes:write", self._services.pushes, ReceivedPush(route, request.trace)
                )
        except (ApiError, CapacityTimeout):
            await self.admit(request, "routes:write")
            raise
        if pushed.effect != "create":
            return json_answer(pushed.route)
        return json_answer(pushed.route, 202 if pushed.route.status in HELD else 201)

    async def list_routes(self, request: Request) -> Answer:
        query = await self._checked(request, "routes:read", lambda: query_of(request, RouteQuery))
        if query.external_id is not None and query == RouteQuery(external_id=query.external_id, limit=query.limit):
            # A TMS polls this way: in batches.
            route = await self._ask(request, "routes:read", self._services.finds, query.external_id)
            found = [route] if route is not None else []
            return _listed(request, RouteList(data=found, total=len(found), limit=query.limit, offset=0))

        def read(connection: Connection, caller: Caller) -> RouteList:
            if follows_changes(query):
                return checked(lambda: list_changes(connection, caller.tenant, query), "The query")
            return list_routes(connection, caller.tenant, query)

        page = None if follows_changes(query) else await self._read_replica(request, "routes:read", read)
        if page is None:
            page = await self._read(request, "routes:read", read, pipelined=True)
        return _listed(request, page)

    async def get_route(self, request: Request) -> Answer:
        route_id = await self._checked(request, "routes:read", lambda: _route_id_of(request))
        if request.if_none_match is not None:
            version = await self._ask(request, "routes:read", self._services.versions, route_id)
            if version is not None and request.knows(_etag(version)):
                return _not_changed(_etag(version))
        found = await self._ask(request, "routes:read", self._services.reads, route_id)
        if found is None:
            raise ApiError("not_found", NO_SUCH_ROUTE)
        return json_answer(found.route, 200, (b"etag", _etag(found.version)))

    async def cancel_route(self, request: Request) -> Answer:
        route_id = await self._checked(request, "routes:write", lambda: _route_id_of(request))

        def cancel(connection: Connection, caller: Caller) -> CancelEffect | None:
            effect = cancel_route(connection, caller.tenant, route_id, now=clock.now())
            after_commit(connection, *delivery_jobs(connection, [caller.company_id]))
            return effect

        effect = await self._read(request, "routes:write", cancel)
        if effect == "cancel" and self._services.replica is not None:
            await self._services.replica.note_writes([(await self.admit(request)).tenant])
        if effect is None:
            raise ApiError("not_found", NO_SUCH_ROUTE)
        if effect == "refuse":
            raise ApiError("route_active", "The route is active or finished; it cannot be canceled through the API.")
        return Answer(204)

    async def list_vehicles(self, request: Request) -> Answer:
        query = await self._checked(request, "vehicles:read", lambda: query_of(request, VehicleQuery))
        page = await self._read(request, "vehicles:read", lambda c, caller: list_vehicles(c, caller.company_id, query))
        return _listed(request, page)

    async def list_drivers(self, request: Request) -> Answer:
        query = await self._checked(request, "drivers:read", lambda: query_of(request, DriverQuery))
        page = await self._read(request, "drivers:read", lambda c, caller: list_drivers(c, caller.company_id, query))
        return _listed(request, page)

    async def post_positions(self, request: Request) -> Answer:
        """Takes positions of trucks. One bad position never costs the others."""
        caller = await self.admit(request, "positions:write")

        async with self.body_permit(request, caller.company_id.hex):
            body = await request.body(self._services.settings.body_timeout_seconds)
            positions, rejected = await self._work(request, "positions:write", lambda _: read_positions(body))
            await self._services.count_positions(caller, len(positions) + len(rejected))
            feed = await self._read(
                request, "positions:write", partial(self._store_positions, positions), pipelined=True
            )
        left_out = {**feed.dropped, "rejected": len(rejected) + len(feed.rejected)}
        count_fixes(feed.accepted - sum(feed.dropped.values()), left_out)
        rejected = sorted([*rejected, *feed.rejected], key=lambda entry: entry.index)
        return json_answer(PositionsAccepted(accepted=feed.accepted, rejected=rejected), 202)

    def _store_positions(self, positions: list[tuple[int, Position]], connection: Connection, caller: Caller) -> Feed:
        radius = self._services.settings.arrival_radius_meters
        early = timedelta(hours=self._services.settings.early_arrival_hours)
        now = clock.now()
        return store_positions(connection, caller.tenant, positions, now=now, near_meters=radius, early=early)


def read_positions(body: bytes) -> tuple[list[tuple[int, Position]], list[RejectedPosition]]:
    """The readable positions, each with its place in the body, and the rejected ones. Raises ApiError for a body that
    is unreadable as a whole."""
    batch = checked(lambda: read_body(body, PositionBatch), "The body")
    positions: list[tuple[int, Position]] = []
    rejected: list[RejectedPosition] = []
    for index, entry in enumerate(batch.positions):
        try:
            positions.append((index, read_value(entry, Position)))
        except Invalid as found:
            rejected.append(RejectedPosition(index=index, message=str(found)))
    return positions, rejected


Failure = TypeVar("Failure", bound=BaseException)


def _remembered(failure: Failure, request: Request) -> Failure:
    """The failure of an earlier admitted key. If the key is refused now, the answer has nothing about its limit."""
    if isinstance(failure, ApiError) and failure.code == "unauthorized":
        request.auth_result = NOBODY
    return failure


def _route_id_of(request: Request) -> UUID:
    """The id in the path. Raises ApiError 404 for a text that cannot be an id."""
    route_id = read_id("rte", request.path_id)
    if route_id is None:
        raise ApiError("not_found", NO_SUCH_ROUTE)
    return route_id


def _etag(version: str) -> bytes:
    """The tag of an answer: `version` stands for the data, the digit in front for the release's shape of it."""
    return f'"1-{version}"'.encode()


def _not_changed(etag: bytes) -> Answer:
    return Answer(304, headers=((b"etag", etag),))


def _listed(request: Request, page: msgspec.Struct) -> Answer:
    """A page of a list. Its tag stands for its bytes: that saves the client the reading, and us nothing."""
    body = write(page)
    etag = _etag(blake2b(body, digest_size=16).hexdigest())
    return _not_changed(etag) if request.knows(etag) else Answer(200, body, JSON, ((b"etag", etag),))
