"""Finds the trips of tokens, many together: one call of Redis for their limits, one statement that tells which of the
kept trips are as they were, and one that reads the others."""

import asyncio
import math
import time
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from domain import clock
from domain.accounts.tokens import hash_of_token
from domain.database.fence import IS_ANY_FENCED
from domain.database.visibility import EVERYTHING, NOTHING, Visibility, of_tenants
from domain.driver_page.links import DriverLink
from domain.driver_page.page import OpenedTrip, ask_trips, ask_trips_now
from domain.driver_page.trips_of_links import TripNow
from domain.languages.tags import Language
from domain.lifecycle import Environment
from ingress.api.access import PAUSE_SECONDS
from ingress.api.services import Services
from ingress.driver.kept_pages import KeptPages, SeenTrip
from ingress.http.batching import Batcher, Submission

REST_SECONDS = 0.1
"""The pages that come within this time after a batch has begun are looked up together. A call of Redis and a statement
cost as much as the pages of four drivers, and a phone does not notice."""
_MOST_KNOWN = 10_000
_NOBODY_KNOWN = ""
"""The owner of all requests whose token opened nothing, or was never looked up: they take one turn together."""


class TooMany(Exception):
    """The link or its company has had too many pages; the next may come in `retry_after_seconds`."""

    def __init__(self, retry_after_seconds: int) -> None:
        super().__init__(f"retry in {retry_after_seconds} s")
        self.retry_after_seconds = retry_after_seconds


class _Known(NamedTuple):
    """A token that opened a trip at its last look. The next look asks again."""

    link_id: UUID
    company_id: UUID
    environment: Environment
    refused_until: float
    """The time by `time.monotonic` until when the token is refused without a look at its link."""

    @classmethod
    def of(cls, link: DriverLink) -> "_Known":
        return cls(link.id, link.company_id, Environment(link.environment), 0.0)


class Wanted(NamedTuple):
    """A token, and the page that is asked for with it."""

    token_hash: bytes
    chosen: Language | None
    """The language that the driver chose on the page."""
    is_page: bool
    """True where a kept page is enough."""


Found = OpenedTrip | SeenTrip | None
"""None stands for every token that opens nothing."""
_Asked = Submission[Wanted, Found | TooMany]


class Trips:
    """The trips that the links of one ingress process open."""

    def __init__(self, services: Services, kept: KeptPages, *, hours: float) -> None:
        self._services = services
        self._kept = kept
        self._hours = hours
        self._known: dict[bytes, _Known] = {}
        """The tokens that opened a trip, by their hashes."""
        self._batches, self._first_looks = (
            Batcher[Wanted, Found | TooMany](self._find, name=name, at_once=1, rest_seconds=REST_SECONDS)
            for name in ("driver_pages", "first_driver_pages")
        )

    async def page(self, token: str, chosen: Language | None) -> Found:
        """The page of a token's trip where it is kept, else the trip. Raises TooMany."""
        return await self._found(Wanted(hash_of_token(token), chosen, is_page=True))

    async def open(self, token: str) -> OpenedTrip | None:
        """The trip of a token. Raises TooMany."""
        found = await self._found(Wanted(hash_of_token(token), None, is_page=False))
        return found if isinstance(found, OpenedTrip) else None

    async def _found(self, wanted: Wanted) -> Found:
        known = self._known.get(wanted.token_hash)
        if known is None:
            found = await self._first_looks.submit(wanted, _NOBODY_KNOWN)
        else:
            seconds_left = known.refused_until - time.monotonic()
            if seconds_left > 0:
                raise TooMany(math.ceil(seconds_left))
            found = await self._batches.submit(wanted, known.company_id.hex)
        if isinstance(found, TooMany):
            raise found
        return found

    async def close(self) -> None:
        await self._batches.close()
        await self._first_looks.close()

    async def _find(self, batch: Sequence[_Asked]) -> None:
        """Finds the trips of known tokens or of unknown ones; a batch does not mix them. Known ones are counted before
        anything is read of them, and only their companies are visible then."""
        known = [self._known.get(one.item.token_hash) for one in batch]
        tenants = [(one.company_id, one.environment) for one in known if one is not None]
        visible = of_tenants(tenants) if len(tenants) == len(batch) else EVERYTHING
        allowed = await self._allowed(batch, known)
        seen = await self._seen([one.item for one in allowed if one.item.is_page], visible)
        for one in allowed:
            if one.item in seen:
                one.settle(seen[one.item])
                await asyncio.sleep(0)  # its page is made before the next one is settled; pushes get a turn in between
        await self._open([one for one in allowed if one.item not in seen], visible)

    async def _seen(self, wanted: Sequence[Wanted], visible: Visibility) -> dict[Wanted, SeenTrip]:
        """The trips of known tokens whose pages are kept, where the trip is in the version of its page. Trips of other
        tokens are read, so that these are known and their next pages are counted."""
        kept = [one for one in wanted if one.token_hash in self._known and one.token_hash in self._kept]
        if not kept:
            return {}
        query = ask_trips_now([one.token_hash for one in kept], hours=self._hours, now=clock.now())
        trips: list[TripNow | None] = await self._services.ask(query, visible)
        seen = {one: self._seen_now(one, trip) for one, trip in zip(kept, trips, strict=True) if trip is not None}
        return {one: trip for one, trip in seen.items() if trip is not None}

    def _seen_now(self, wanted: Wanted, now: TripNow) -> SeenTrip | None:
        trip = self._kept.get(wanted.token_hash, now.version)
        if trip is None:
            return None
        kind = trip.kind_of_page(wanted.chosen, now.place)
        page = trip.pages.get(kind)
        return trip.seen(page, kind, now.place, now.truck_at) if page is not None else None

    async def _open(self, batch: Sequence[_Asked], visible: Visibility) -> None:
        """Reads the trips of a part of a batch."""
        if not batch:
            return
        query = ask_trips([one.item.token_hash for one in batch], hours=self._hours, now=clock.now())
        trips: list[OpenedTrip | None] = await self._services.ask(query, visible)
        is_any_away = None in trips and await self._services.ask(IS_ANY_FENCED, NOTHING)
        for one, trip in zip(batch, trips, strict=True):
            if trip is None and is_any_away:  # a phone would forget the answers that it keeps
                one.settle(TooMany(PAUSE_SECONDS))
                continue
            self._remember(one.item.token_hash, trip)
            one.settle(trip)
            await asyncio.sleep(0)

    async def _allowed(self, batch: Sequence[_Asked], known: Sequence[_Known | None]) -> list[_Asked]:
        """The requests within their limits; the others are settled. The first look at a token is not counted."""
        counted = [(one.link_id, one.company_id) for one in known if one is not None]
        waits = iter(await self._services.count_pages(counted))
        allowed = []
        for one, of_token in zip(batch, known, strict=True):
            seconds = next(waits) if of_token is not None else 0
            if of_token is not None and seconds:
                self._known[one.item.token_hash] = of_token._replace(refused_until=time.monotonic() + seconds)
                one.settle(TooMany(seconds))
            else:
                allowed.append(one)
        return allowed

    def _remember(self, token_hash: bytes, trip: OpenedTrip | None) -> None:
        if trip is None:
            self._known.pop(token_hash, None)
            self._kept.forget(token_hash)
        elif token_hash not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()  # those in use come back with their next request
            self._known[token_hash] = _Known.of(trip.link)
