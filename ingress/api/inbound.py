"""Positions that vendors of telematics send: `POST /telematics/{connector}`.

The connector's id stands in the address, and the vendor's signature or token is checked by the vendor's own rule. An
unknown connector and a wrong signature get the same answer after the same work, so not even its timing tells them
apart.

Until the sender is known, a body counts against the share of its network address, by the bytes that have arrived. So
announcing a body without sending it takes nothing from a company. Positions are stored before the answer: a vendor
without a 2xx sends again, and a position that comes twice is a repeat."""

import asyncio
import secrets
from contextvars import Context
from datetime import timedelta
from types import TracebackType
from uuid import UUID

import msgspec
import psycopg
from starlette.datastructures import QueryParams

from domain import clock
from domain.accounts.contacts import Contacts, UnreadableContact
from domain.connectors.answer_readers import MOST_VALUES_SENT, SMALL_BYTES, TooManyValues, require_few_values
from domain.connectors.connectors import open_access
from domain.connectors.kinds import VENDORS
from domain.connectors.leases import ConnectorRow
from domain.connectors.page_storage import (
    FeedRules,
    StoredPage,
    find_receiver,
    note_received,
    store_inbound_page,
)
from domain.connectors.vendor import Access, ForgedRequest, InboundRequest, UnreadableAnswer, VendorPage
from domain.contract.shapes import FieldFault
from domain.database.fence import IS_ANY_FENCED
from domain.database.visibility import EVERYTHING, NOTHING, of_tenants
from domain.encoding import write
from domain.ids import read_id
from domain.telemetry.logs import get_logger
from domain.telemetry.metrics import count_fixes
from ingress.api.access import company_paused
from ingress.api.request import Answer, Request
from ingress.api.services import Services
from ingress.http.connection_limits import address_of
from ingress.http.fair_queue import FairSemaphore
from ingress.http.problems import ApiError

log = get_logger(__name__)

PAUSED_SECONDS = 60

_STEP_BYTES = 64 << 10
"""Bytes of a body that uvicorn reads ahead."""

_NO_ID = UUID(int=0)
_RECEIVING = {kind: vendor for kind, vendor in VENDORS.items() if vendor.receives}

_NOTED_EVERY_SECONDS = 5.0


class Inbound:
    """The endpoint of vendors, over one process's services."""

    def __init__(self, services: Services) -> None:
        settings = services.settings
        self._services = services
        self._contacts = Contacts.of(settings)
        self._rules = FeedRules(settings.arrival_radius_meters, timedelta(hours=settings.early_arrival_hours))
        self._left: dict[UUID, StoredPage | None] = {}
        """Counts that came after a connector's last ones were stored, for connectors with a task that stores more."""
        self._noting: set[asyncio.Task[None]] = set()
        nobody = write({"webhook_secret": secrets.token_hex()}).decode()
        self._nobody = (self._contacts.seal(nobody) if self._contacts.prefix else None) or nobody
        """Sealed credentials that fit no request; they are opened and compared where there is no connector."""

    async def take(self, request: Request) -> Answer:
        request.credentials = None  # a token of the vendor's is no key of ours
        patience = self._services.settings.body_timeout_seconds
        strangers = self._services.unverified_bodies
        async with _Room(strangers, _address(request), request.max_body_bytes(), patience) as room:
            given = await self._read(request, room)
            receiver, access = await self._verified(request.path_id, given)
        bodies = self._services.bodies
        async with bodies.permit(receiver.company_id.hex, len(given.body), patience_seconds=patience):
            if len(given.body) > SMALL_BYTES:  # reading it would hold up the requests of others
                page = await self._services.in_thread_of(receiver.company_id, lambda: _page(receiver, given, access))
            else:
                page = _page(receiver, given, access)
            taken = await self._take(receiver, page)
        count_fixes(taken.stored, taken.left_out)
        return Answer(202, write(_Accepted(taken.stored, dict(taken.left_out))))

    async def _read(self, request: Request, room: "_Room") -> InboundRequest:
        """The request with its body. Raises ApiError if the body is too large or too slow, and CapacityTimeout if its
        address has too much open for too long."""
        body = await request.body(self._services.settings.body_timeout_seconds, room.hold)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.scope["headers"]}
        return InboundRequest(headers, dict(QueryParams(request.scope["query_string"])), body)

    async def _verified(self, text: str, given: InboundRequest) -> tuple[ConnectorRow, Access]:
        """The connector, if the request is its vendor's. Raises ApiError otherwise: 401, or 429 while any company
        leaves for another cell, since this may be its connector."""
        receiver = await self._receiver(text)
        sealed = (receiver.url, receiver.credentials) if receiver is not None else ("", self._nobody)
        try:
            access = open_access(*sealed, self._contacts)
        except UnreadableContact:
            log.error("inbound.credentials_unreadable", connector_id=receiver.id if receiver is not None else None)
            raise
        passed = _kinds_that_verify(given, access)
        if receiver is None or receiver.kind not in passed:
            raise company_paused() if await self._services.ask(IS_ANY_FENCED, NOTHING) else _refused()
        return receiver, access

    async def _receiver(self, text: str) -> ConnectorRow | None:
        """The connector with this id, if its vendor sends."""
        connector_id = read_id("con", text) or _NO_ID
        found = await self._services.ask(find_receiver(connector_id), EVERYTHING)
        return found if found is not None and found.kind in _RECEIVING else None

    async def _take(self, receiver: ConnectorRow, page: VendorPage) -> StoredPage:
        """Stores a page of a known sender. Raises ApiError 429 over the connector's limits; the vendor sends again
        later."""
        if receiver.paused_at is not None:
            raise _paused()
        await self._count_against_limits(receiver.id, page)
        taken = await self._services.in_thread_of(receiver.company_id, lambda: self._store(receiver, page))
        if taken is None:
            raise _paused()
        await self._add_counts(receiver, taken)
        return taken

    async def _count_against_limits(self, connector_id: UUID, page: VendorPage) -> None:
        """Counts a page of the vendor; strangers' requests are not counted, so they cannot use up the limits. Raises
        ApiError 429 over a limit; the vendor sends again later."""
        for positions in (None, len(page.fixes)):
            seconds = await self._services.count_inbound(connector_id, positions)
            if seconds:
                raise _too_many(seconds)

    def _store(self, receiver: ConnectorRow, page: VendorPage) -> StoredPage | None:
        with self._services.database.pipelined_transaction(of_tenants([receiver.tenant])) as connection:
            return store_inbound_page(connection, receiver, page, rules=self._rules, now=clock.now())

    async def _add_counts(self, receiver: ConnectorRow, taken: StoredPage) -> None:
        """Stores counts at once, or, less than 5 s after the last ones, once that time is over: Traccar sends each
        position by itself, and counting each in the connector's row would make them wait for one another."""
        if receiver.id in self._left:
            self._left[receiver.id] = _together(self._left[receiver.id], taken)
            return
        self._left[receiver.id] = None
        task = asyncio.create_task(self._note_what_follows(receiver), context=Context())  # of no request
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)
        await self._note(receiver, taken)

    async def _note_what_follows(self, receiver: ConnectorRow) -> None:
        try:
            while True:
                await asyncio.sleep(_NOTED_EVERY_SECONDS)
                due, self._left[receiver.id] = self._left[receiver.id], None
                if due is None:
                    break
                await self._note(receiver, due)
        finally:
            left = self._left.pop(receiver.id)
            if left is not None:
                await self._note(receiver, left)

    async def _note(self, receiver: ConnectorRow, due: StoredPage) -> None:
        def note() -> None:
            with self._services.database.pipelined_transaction(of_tenants([receiver.tenant])) as connection:
                note_received(connection, receiver, due, now=clock.now())

        try:
            await self._services.in_thread_of(receiver.company_id, note)
        except psycopg.Error as error:  # the positions are stored, and the vendor need not send them again
            log.warning("inbound.not_counted", connector_id=receiver.id, error=str(error))

    async def close(self) -> None:
        """Stores the counts that are left."""
        for task in self._noting:
            task.cancel()
        await asyncio.gather(*self._noting, return_exceptions=True)


def _kinds_that_verify(given: InboundRequest, access: Access) -> set[str]:
    """The kinds of vendors whose rule accepts the request. All are asked each time, so the time of the answer does not
    tell which kind a connector has."""
    passed = set()
    for kind, vendor in _RECEIVING.items():
        try:
            vendor().verify(given, access, now=clock.now())
        except ForgedRequest:
            continue
        passed.add(kind)
    return passed


def _page(receiver: ConnectorRow, given: InboundRequest, access: Access) -> VendorPage:
    """The positions of a request whose sender is known. Raises ApiError 400 if the vendor's format is broken."""
    vendor = VENDORS[receiver.kind]()
    try:
        require_few_values(given.body, MOST_VALUES_SENT)
        return vendor.read_inbound(given, access)
    except (UnreadableAnswer, TooManyValues):
        fault = FieldFault(field="", message=f"is not what {vendor.title} sends")
        raise ApiError("validation_error", "The body has 1 invalid field.", errors=[fault]) from None


def _address(request: Request) -> str:
    """The network address by which a request counts."""
    client = request.scope.get("client")
    return address_of(client[0]) if client else ""


class _Room:
    """Space for the bytes of a body until its sender is known. It grows in steps, so a body that was announced and is
    not sent takes one step. Raises CapacityTimeout when the address has too much open for too long."""

    def __init__(self, bodies: FairSemaphore, owner: str, announced: int, patience_seconds: float) -> None:
        self._bodies = bodies
        self._owner = owner
        self._announced = announced
        self._patience_seconds = patience_seconds
        self._held = 0

    async def __aenter__(self) -> "_Room":
        await self.hold(1)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bodies.give_back(self._owner, self._held)

    async def hold(self, length: int) -> None:
        """Waits until there is space for this many bytes."""
        wanted = min(-(-length // _STEP_BYTES) * _STEP_BYTES, self._announced)
        if wanted > self._held:
            await self._bodies.take(self._owner, wanted - self._held, self._patience_seconds)
            self._held = wanted


class _Accepted(msgspec.Struct, rename="camel"):
    stored: int
    left_out: dict[str, int]


def _together(one: StoredPage | None, other: StoredPage) -> StoredPage:
    if one is None:
        return other
    newest_at = max((at for at in (one.newest_at, other.newest_at) if at is not None), default=None)
    return StoredPage(one.stored + other.stored, one.left_out + other.left_out, newest_at)


def _refused() -> ApiError:
    return ApiError(
        "unauthorized",
        "There is no such connector, or the request does not carry its vendor's signature or token: compare the address"
        " and the secret with the connector's page in the console.",
    )


def _paused() -> ApiError:
    return ApiError(
        "rate_limited",
        "The connector is paused, and nothing was stored: a person resumes it in the console.",
        headers={"Retry-After": str(PAUSED_SECONDS)},
    )


def _too_many(seconds: int) -> ApiError:
    return ApiError(
        "rate_limited",
        f"More requests or positions in a minute than the feed takes; retry in {seconds} s.",
        headers={"Retry-After": str(seconds)},
    )
