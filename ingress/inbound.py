"""Positions that vendors of telematics send: `POST /telematics/{connector}`.

The connector's id stands in the address, and the vendor's signature or token is checked by the vendor's own rule. An
unknown connector and a wrong signature get the same answer. Positions are stored before the answer: who gets no 2xx
sends again, and what comes twice is a repeat.
"""

import time
from collections import Counter
from datetime import timedelta
from uuid import UUID

import msgspec
from starlette.datastructures import QueryParams

from domain import clock
from domain.accounts.contacts import Contacts, UnreadableContact
from domain.connectors.connectors import open_access
from domain.connectors.kinds import VENDORS
from domain.connectors.taking import (
    Receiver,
    Taken,
    TakingRules,
    find_receiver,
    note_received,
    take_inbound,
)
from domain.connectors.vendor import ForgedRequest, InboundRequest, UnreadableAnswer, VendorPage
from domain.contract.shapes import FieldFault
from domain.encoding import write
from domain.ids import read_id
from domain.metrics import FIXES_RECEIVED
from domain.observability import get_logger
from domain.visibility import EVERYTHING, of_tenants
from ingress.problems import ApiError
from ingress.request import Answer, Request
from ingress.services import Services

log = get_logger(__name__)

PAUSED_SECONDS = 60

_NOTED_EVERY_SECONDS = 5.0
_MOST_TALLIES = 10_000


class Inbound:
    """The endpoint of vendors, over one process's services."""

    def __init__(self, services: Services) -> None:
        settings = services.settings
        self._services = services
        self._contacts = Contacts.of(settings)
        self._rules = TakingRules(settings.arrival_radius_meters, timedelta(hours=settings.early_arrival_hours))
        self._tallies: dict[UUID, _Tally] = {}

    async def take(self, request: Request) -> Answer:
        request.credentials = None  # a token of the vendor's is no key of ours
        receiver = await self._receiver(request.path_id)
        bodies, patience = self._services.bodies, self._services.settings.body_timeout_seconds
        async with bodies.permit(receiver.company_id.hex, request.max_body_bytes(), patience_seconds=patience):
            page = await self._read(receiver, request)
            if receiver.paused_at is not None:
                raise _paused()
            await self._count_against_limits(receiver.id, page)
            taken = await self._services.in_thread_of(receiver.company_id, lambda: self._store(receiver, page))
            if taken is None:
                raise _paused()
            await self._services.jobs.put(*taken.jobs)
        _count(taken)
        return Answer(202, write(_Accepted(taken.stored, dict(taken.left_out))))

    async def _receiver(self, text: str) -> Receiver:
        """Raises ApiError 401."""
        connector_id = read_id("con", text)
        found = await self._services.ask(find_receiver(connector_id), EVERYTHING) if connector_id is not None else None
        if found is None or found.kind not in VENDORS or not VENDORS[found.kind].receives:
            raise _refused()
        return found

    async def _read(self, receiver: Receiver, request: Request) -> VendorPage:
        """The page of a request whose sender is known. Raises ApiError."""
        vendor = VENDORS[receiver.kind]()
        body = await request.body(self._services.settings.body_timeout_seconds)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.scope["headers"]}
        given = InboundRequest(headers, dict(QueryParams(request.scope["query_string"])), body)
        try:
            access = open_access(receiver.url, receiver.credentials, self._contacts)
            vendor.verify(given, access, now=clock.now())
            return vendor.read_inbound(given, access)
        except ForgedRequest:
            raise _refused() from None
        except UnreadableAnswer:
            fault = FieldFault(field="", message=f"is not what {vendor.title} sends")
            raise ApiError("validation_error", "The body has 1 invalid field.", errors=[fault]) from None
        except UnreadableContact:
            log.error("inbound.credentials_unreadable", connector_id=receiver.id)
            raise

    async def _count_against_limits(self, connector_id: UUID, page: VendorPage) -> None:
        """Only what its vendor sends counts, so nobody else uses the limits up. Raises ApiError 429."""
        for positions in (None, len(page.fixes)):
            seconds = await self._services.count_inbound(connector_id, positions)
            if seconds:
                raise _too_many(seconds)

    def _store(self, receiver: Receiver, page: VendorPage) -> Taken | None:
        now = clock.now()
        visible = of_tenants([receiver.tenant])
        with self._services.database.transaction_by_key(visible) as connection:
            taken = take_inbound(connection, receiver, page, rules=self._rules, now=now)
        if taken is None:
            return None
        due = self._tally(receiver.id).add(taken)
        if due is not None:
            with self._services.database.transaction_by_key(visible) as connection:
                note_received(connection, receiver, due, now=now)
        return taken

    def _tally(self, connector_id: UUID) -> "_Tally":
        if len(self._tallies) >= _MOST_TALLIES:
            self._tallies.clear()
        return self._tallies.setdefault(connector_id, _Tally())


class _Accepted(msgspec.Struct, rename="camel"):
    stored: int
    left_out: dict[str, int]


class _Tally:
    """Counts of a connector that are not stored yet. Traccar sends each position by itself: to count each in the
    connector's row would make them wait for one another."""

    def __init__(self) -> None:
        self._noted_at = -_NOTED_EVERY_SECONDS
        self._taken = Taken(0, Counter(), [], None)

    def add(self, taken: Taken) -> Taken | None:
        """The counts to store now. None: later."""
        before = self._taken
        newest = max((one for one in (before.newest_at, taken.newest_at) if one is not None), default=None)
        self._taken = Taken(before.stored + taken.stored, before.left_out + taken.left_out, [], newest)
        if time.monotonic() - self._noted_at < _NOTED_EVERY_SECONDS:
            return None
        due, self._taken, self._noted_at = self._taken, Taken(0, Counter(), [], None), time.monotonic()
        return due


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


def _count(taken: Taken) -> None:
    FIXES_RECEIVED.labels("stored").inc(taken.stored)
    for reason, count in taken.left_out.items():
        FIXES_RECEIVED.labels(reason).inc(count)
