"""Finds the trips of tokens, many together: one call of Redis for their limits, and one statement for their links and
what their pages show."""

import asyncio
import math
import time
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from domain import clock
from domain.accounts.tokens import hash_of_token
from domain.database.fence import IS_ANY_FENCED
from domain.database.visibility import EVERYTHING, NOTHING, of_tenants
from domain.driver_page.links import DriverLink
from domain.driver_page.page import OpenedTrip, ask_trips
from domain.lifecycle import Environment
from ingress.api.access import PAUSE_SECONDS
from ingress.api.services import Services
from ingress.http.batching import Batcher, Submission

REST_SECONDS = 0.05
"""The pages that come within this time after a batch are looked up together. A call of Redis and a statement cost as
much as the pages of three drivers, and a phone does not notice."""
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


_Asked = Submission[str, OpenedTrip | TooMany | None]


class Trips:
    """The trips that the links of one ingress process open. None stands for every token that opens nothing."""

    def __init__(self, services: Services, *, hours: float) -> None:
        self._services = services
        self._hours = hours
        self._known: dict[bytes, _Known] = {}
        """The tokens that opened a trip, by their hashes."""
        self._batches, self._first_looks = (
            Batcher[str, OpenedTrip | TooMany | None](self._find, name=name, at_once=1, rest_seconds=REST_SECONDS)
            for name in ("driver_pages", "first_driver_pages")
        )

    async def find(self, token: str) -> OpenedTrip | None:
        """The trip of a token; None for a token that opens nothing. Raises TooMany."""
        token_hash = hash_of_token(token)
        known = self._known.get(token_hash)
        if known is None:
            found = await self._first_looks.submit(token, _NOBODY_KNOWN)
        else:
            seconds_left = known.refused_until - time.monotonic()
            if seconds_left > 0:
                raise TooMany(math.ceil(seconds_left))
            found = await self._batches.submit(token, known.company_id.hex)
        if isinstance(found, TooMany):
            raise found
        return found

    async def close(self) -> None:
        await self._batches.close()
        await self._first_looks.close()

    async def _find(self, batch: Sequence[_Asked]) -> None:
        """Finds the trips of known tokens or of unknown ones; a batch does not mix them. Known ones are counted before
        anything is read of them, and only their companies are visible then."""
        hashes = [hash_of_token(one.item) for one in batch]
        known = [self._known.get(one) for one in hashes]
        tenants = [(one.company_id, one.environment) for one in known if one is not None]
        visible = of_tenants(tenants) if len(tenants) == len(batch) else EVERYTHING
        allowed = await self._allowed(batch, hashes, known)
        if not allowed:
            return
        query = ask_trips([one.item for one in allowed], hours=self._hours, now=clock.now())
        trips: list[OpenedTrip | None] = await self._services.ask(query, visible)
        is_any_away = None in trips and await self._services.ask(IS_ANY_FENCED, NOTHING)
        for one, trip in zip(allowed, trips, strict=True):
            if trip is None and is_any_away:  # a phone would forget the answers that it keeps
                one.settle(TooMany(PAUSE_SECONDS))
                continue
            self._remember(hash_of_token(one.item), trip)
            one.settle(trip)
            await asyncio.sleep(0)  # its page is made before the next one is settled, and pushes get a turn in between

    async def _allowed(
        self, batch: Sequence[_Asked], hashes: Sequence[bytes], known: Sequence[_Known | None]
    ) -> list[_Asked]:
        """The requests within their limits; the others are settled. The first look at a token is not counted."""
        counted = [(one.link_id, one.company_id) for one in known if one is not None]
        waits = iter(await self._services.count_pages(counted))
        allowed = []
        for one, token_hash, of_token in zip(batch, hashes, known, strict=True):
            seconds = next(waits) if of_token is not None else 0
            if of_token is not None and seconds:
                self._known[token_hash] = of_token._replace(refused_until=time.monotonic() + seconds)
                one.settle(TooMany(seconds))
            else:
                allowed.append(one)
        return allowed

    def _remember(self, token_hash: bytes, trip: OpenedTrip | None) -> None:
        if trip is None:
            self._known.pop(token_hash, None)
        elif token_hash not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()  # those in use come back with their next request
            self._known[token_hash] = _Known.of(trip.link)
