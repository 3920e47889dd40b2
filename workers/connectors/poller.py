"""Polls one connector: asks the vendor, stores the page with its cursor, waits, asks again, until its lease is lost.

A vendor that hangs, never ends, sends too much or sends nonsense costs only its own connector."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

import psycopg

from domain import clock
from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contacts import Contacts, UnreadableContact
from domain.accounts.name_lookups import looking_up_for
from domain.backoff import backoff
from domain.connectors.answer_readers import AnswerReaders
from domain.connectors.connectors import open_access
from domain.connectors.kinds import VENDORS
from domain.connectors.leases import ConnectorRow, LeaseLost
from domain.connectors.page_storage import FeedRules, StoredPage, note_failure, store_page
from domain.connectors.vendor import ForgottenCursor, Vendor, VendorFault, VendorHurried, VendorPage
from domain.connectors.vendor_http import BoundedHttp
from domain.database.connections import Connection
from domain.settings import Settings
from domain.telemetry.logs import get_logger
from domain.telemetry.metrics import CONNECTOR_POLLS, count_fixes

log = get_logger(__name__)

Result = TypeVar("Result")

POLL_SECONDS = 120.0
"""Longest time of one poll, with all its requests."""

DOUBT_SECONDS = 1800.0
"""After this time without news a cursor may be dead: the newest positions are asked for once."""

_MOST_FIXES_OF_VEHICLE = 5
"""Most fixes in an answer, for each vehicle that it may name. A feed has more of few vehicles, and few of many."""

_LONGEST_CURSOR = 6_000
"""Most characters of a cursor, which goes into an address: most servers take 8 KB."""

MOST_PAGES_IN_A_ROW = 100
"""After this many pages in a row, a vendor that always has a next page waits like one that has none."""

_FIRST_WAIT_SECONDS = 10.0
_LONGEST_WAIT_SECONDS = 900.0
_DATABASE_AWAY_SECONDS = 3.0

Store = Callable[[ConnectorRow, Callable[[Connection], Result]], Awaitable[Result]]
"""Does work in a transaction that sees the connector's company, in a thread."""


class Poller:
    """Polls a connector as long as this process holds its lease."""

    def __init__(
        self,
        leased: ConnectorRow,
        settings: Settings,
        store: Callable[[ConnectorRow, Callable[[Connection], object]], Awaitable[object]],
        readers: AnswerReaders | None = None,
    ) -> None:
        self.leased = leased
        self.is_storing = False
        self._settings = settings
        self._store = store
        self._cursor = leased.cursor
        self._failures = leased.failures
        self._vendor: Vendor = VENDORS[leased.kind]()
        self._http = BoundedHttp(
            allowed=AllowedHosts.of_connectors(settings),
            most_bytes=settings.connector_answer_megabytes << 20,
            readers=readers,
            owner=leased.company_id.hex,
        )
        self._is_doubted = leased.cursor_doubted
        self._has_given_up = False
        self._has_left_out = False
        """True once a page of this round was left out because it failed twice."""
        self._fruitful_at = time.monotonic()
        """When the cursor last brought something, or was given up."""
        self._rules = FeedRules(settings.arrival_radius_meters, timedelta(hours=settings.early_arrival_hours))

    async def run(self) -> None:
        """Polls until the lease is lost."""
        try:
            with looking_up_for(self.leased.company_id):
                await self._poll_for_ever()
        except LeaseLost:
            log.info("connectors.lease_lost", connector_id=self.leased.id)
        except Exception:
            log.exception("connectors.poller_failed", connector_id=self.leased.id)
        finally:
            await self._http.close()

    async def _poll_for_ever(self) -> None:
        """Polls again and again. Raises LeaseLost once another process has the lease; `run` then ends."""
        pages_in_a_row = 0
        await _sleep_until(self.leased.due_at)
        while True:
            page = await self._turn()
            pages_in_a_row = pages_in_a_row + 1 if page is not None and page.has_more else 0
            if 0 < pages_in_a_row < MOST_PAGES_IN_A_ROW:
                continue
            if pages_in_a_row:
                pages_in_a_row = 0
                await asyncio.sleep(self._wait_seconds())
            else:
                await _sleep_until(self._due_at)

    async def _turn(self) -> VendorPage | None:
        """One poll, with its page stored; None if it failed. Raises LeaseLost once another process has the lease."""
        started, doubts = time.perf_counter(), (self._is_doubted, self._fruitful_at, self._has_given_up)
        try:
            page = self._without_dead_cursor(await self._ask())
            if page.has_more and page.cursor == self._cursor:
                raise VendorFault("it gives the same page again and again")
            _require_bounded(page, self._settings.connector_answer_vehicles)
        except VendorFault as fault:
            CONNECTOR_POLLS.labels(self.leased.kind, "failed").observe(time.perf_counter() - started)
            await self._fail(fault)
            return None
        CONNECTOR_POLLS.labels(self.leased.kind, "done").observe(time.perf_counter() - started)
        now = clock.now()
        self._due_at = now + timedelta(seconds=0 if page.has_more else self._wait_seconds())
        taken = await self._stored(partial(self._take, page, self._due_at, now))
        if taken is None:
            self._is_doubted, self._fruitful_at, self._has_given_up = doubts  # nothing came of this poll
            return None
        self._cursor = page.cursor
        if page.vehicles or not self._has_left_out:  # else there was no further page, or there is no answer at all
            self._failures = 0
        self._has_left_out = self._has_left_out and page.cursor is not None
        count_fixes(taken.stored, taken.left_out)
        return page

    async def _ask(self) -> VendorPage:
        """The vendor's page. Raises VendorFault for whatever goes wrong, and `_turn` stores it."""
        try:
            access = open_access(self.leased.url, self.leased.credentials, Contacts.of(self._settings))
            async with asyncio.timeout(POLL_SECONDS):
                return await self._vendor.poll(self._cursor, access, self._http)
        except VendorFault:
            raise
        except TimeoutError:
            raise VendorFault(f"it did not answer within {POLL_SECONDS:g} s") from None
        except UnreadableContact:
            raise VendorFault(
                "its credentials are sealed with another key",
                what_to_do="give the credentials again, or run with the FUELROUTE_CONTACT_KEY they were stored with",
            ) from None
        except Exception as error:  # whatever an answer does to the vendor's class is the vendor's fault
            log.exception("connectors.poll_failed", connector_id=self.leased.id, kind=self.leased.kind)
            raise VendorFault(f"its answer could not be understood ({type(error).__name__})") from None

    def _without_dead_cursor(self, page: VendorPage) -> VendorPage:
        """The page, without a cursor that has brought nothing for long, or that follows a change of credentials: it may
        be of another account. Nothing is lost, because the next poll brings the newest positions."""
        if page.fixes or page.levels or page.has_more or self._cursor is None:
            self._is_doubted, self._fruitful_at = False, time.monotonic()
            if self._has_given_up and page.fixes:
                self._has_given_up = False
                return page._replace(
                    remark=page.remark or "the place where the last poll ended brought nothing any more"
                )
            return page
        if not self._is_doubted and time.monotonic() - self._fruitful_at < DOUBT_SECONDS:
            return page
        self._is_doubted, self._fruitful_at, self._has_given_up = False, time.monotonic(), True
        log.info("connectors.cursor_given_up", connector_id=self.leased.id, kind=self.leased.kind)
        return page._replace(cursor=None)

    def _take(self, page: VendorPage, due_at: datetime, now: datetime, connection: Connection) -> StoredPage:
        is_part = self._vendor.counts_pages and (page.has_more or self._has_left_out)
        return store_page(
            connection, self.leased, page, ends_fault=not is_part, due_at=due_at, rules=self._rules, now=now
        )

    async def _fail(self, fault: VendorFault) -> None:
        """Stores the fault, and waits longer each time, or as long as the vendor asks for. Raises LeaseLost once
        another process has the lease."""
        seconds = backoff(_FIRST_WAIT_SECONDS, self._failures, longest=_LONGEST_WAIT_SECONDS)
        seconds *= random.uniform(0.75, 1.25)  # noqa: S311 (no secret): many connectors do not come back together
        if isinstance(fault, VendorHurried):
            if fault.retry_after_seconds is not None:
                seconds = fault.retry_after_seconds + random.uniform(0, 1)  # noqa: S311
        elif self._vendor.counts_pages and (in_a_row := self._failures % 3):  # those of earlier processes count
            self._has_left_out = in_a_row == 1
            self._cursor = str(int(self._cursor or 1) + 1) if self._has_left_out else None
        self._failures += 1
        now = clock.now()
        self._due_at = now + timedelta(seconds=seconds)
        forgets = isinstance(fault, ForgottenCursor)
        if forgets:
            self._cursor, self._due_at = None, now
        log.warning(
            "connectors.poll_refused",
            connector_id=self.leased.id,
            kind=self.leased.kind,
            error=str(fault),
            retry_seconds=round(seconds, 1),
        )
        note = partial(self._note, str(fault), fault.what_to_do, forgets, now)
        due_at = self._due_at
        await self._stored(note)
        self._due_at = max(self._due_at, due_at)  # the vendor has asked for its wait, wherever the database is

    def _note(self, error: str, what_to_do: str, forgets: bool, now: datetime, connection: Connection) -> bool:
        note_failure(
            connection,
            self.leased,
            error,
            what_to_do,
            due_at=self._due_at,
            forgets_cursor=forgets,
            now=now,
        )
        return True

    async def _stored(self, work: Callable[[Connection], Result]) -> Result | None:
        """The result of `work`; None while the database is away, so that the same page is asked for again. Raises
        LeaseLost once another process has the lease."""
        self.is_storing = True
        try:
            return await self._store(self.leased, work)  # type: ignore[return-value]
        except psycopg.Error as error:
            log.warning("connectors.not_stored", connector_id=self.leased.id, error=str(error))
            self._due_at = clock.now() + timedelta(seconds=_DATABASE_AWAY_SECONDS)
            return None
        finally:
            self.is_storing = False

    def _wait_seconds(self) -> float:
        seconds = max(self._vendor.least_wait_seconds, self._settings.connector_poll_seconds)
        return seconds + random.uniform(0, seconds / 10)  # noqa: S311 (no secret)


def _require_bounded(page: VendorPage, most_vehicles: int) -> None:
    """Check the size of a page. Raises VendorFault if it names more vehicles or positions than are taken, or has a
    cursor that cannot be stored and sent again."""
    if page.cursor is not None and (len(page.cursor) > _LONGEST_CURSOR or not page.cursor.isprintable()):
        raise VendorFault("the place where its answer ends cannot be kept: it is too long, or no text")
    if len(page.vehicles) > most_vehicles or len(page.fixes) > most_vehicles * _MOST_FIXES_OF_VEHICLE:
        raise VendorFault(
            f"its answer names {len(page.vehicles):,} vehicles with {len(page.fixes):,} positions, and at most"
            f" {most_vehicles:,} vehicles are taken",
            what_to_do="ask the vendor for smaller pages, or raise FUELROUTE_CONNECTOR_ANSWER_VEHICLES",
        )


async def _sleep_until(moment: datetime | None) -> None:
    if moment is not None:
        await asyncio.sleep(max(0.0, (moment - clock.now()).total_seconds()))
