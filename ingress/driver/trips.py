"""Finds the trips of tokens, many together: one statement for their links, one call of Redis for their limits, and one
statement for what their pages show."""

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

from domain import clock
from domain.accounts.tokens import hash_of_token
from domain.database.visibility import EVERYTHING, of_tenants
from domain.driver_page.links import DriverLink, ask_driver_links
from domain.driver_page.page import ask_trips
from domain.driver_page.shown_trip import ShownTrip
from domain.lifecycle import Environment
from ingress.api.services import Services
from ingress.http.batching import Batcher, Submission

_MOST_KNOWN = 10_000
_NOBODY_KNOWN = ""
"""The owner of all requests whose token opened nothing, or was never looked up: they take one turn together."""


class LinkedTrip(NamedTuple):
    """A token that opened a trip."""

    link: DriverLink
    trip: ShownTrip


class TooMany(Exception):
    """The link or its company has had too many pages; the next may come in `retry_after_seconds`."""

    def __init__(self, retry_after_seconds: int) -> None:
        super().__init__(f"retry in {retry_after_seconds} s")
        self.retry_after_seconds = retry_after_seconds


Asked = Submission[str, LinkedTrip | TooMany | None]


class Trips:
    """The trips that the links of one ingress process open. None stands for every token that opens nothing."""

    def __init__(self, services: Services, *, hours: float) -> None:
        self._services = services
        self._hours = hours
        self._refused_until: dict[bytes, float] = {}
        """The time by `time.monotonic` until when a token is refused without a look at its link."""
        self._owners: dict[bytes, str] = {}
        """The company of each token that opened a trip, by the token's hash; it takes turns with others."""
        self._batches: Batcher[str, LinkedTrip | TooMany | None] = Batcher(self._find, name="driver_pages", at_once=1)

    async def find(self, token: str) -> LinkedTrip | None:
        """The trip of a token; None for a token that opens nothing. Raises TooMany."""
        token_hash = hash_of_token(token)
        seconds_left = self._refused_until.get(token_hash, 0.0) - time.monotonic()
        if seconds_left > 0:
            raise TooMany(math.ceil(seconds_left))
        found = await self._batches.submit(token, self._owners.get(token_hash, _NOBODY_KNOWN))
        if isinstance(found, TooMany):
            if len(self._refused_until) >= _MOST_KNOWN:
                self._refused_until.clear()
            self._refused_until[token_hash] = time.monotonic() + found.retry_after_seconds
            raise found
        return found

    async def close(self) -> None:
        await self._batches.close()

    async def _find(self, batch: Sequence[Asked]) -> None:
        query = ask_driver_links([one.item for one in batch], hours=self._hours, now=clock.now())
        links = await self._services.ask(query, EVERYTHING)
        self._remember(batch, links)
        known = [(one, link) for one, link in zip(batch, links, strict=True) if link is not None]
        for one, link in zip(batch, links, strict=True):
            if link is None:
                one.settle(None)
        waits = await self._services.count_pages([(link.id, link.company_id) for _, link in known])
        allowed = []
        for (one, link), seconds in zip(known, waits, strict=True):
            if seconds:
                one.settle(TooMany(seconds))
            else:
                allowed.append((one, link))
        await self._settle(allowed)

    async def _settle(self, allowed: Sequence[tuple[Asked, DriverLink]]) -> None:
        if not allowed:
            return
        ids = list(dict.fromkeys(link.id for _, link in allowed))
        tenants = of_tenants((link.company_id, Environment(link.environment)) for _, link in allowed)
        trips: list[ShownTrip | None] = await self._services.ask(ask_trips(ids), tenants)
        of_link = dict(zip(ids, trips, strict=True))
        for one, link in allowed:
            trip = of_link[link.id]
            one.settle(LinkedTrip(link, trip) if trip is not None else None)

    def _remember(self, batch: Sequence[Asked], links: Sequence[DriverLink | None]) -> None:
        for one, link in zip(batch, links, strict=True):
            token_hash = hash_of_token(one.item)
            if link is None:
                self._owners.pop(token_hash, None)
                continue
            if len(self._owners) >= _MOST_KNOWN:
                self._owners.clear()  # those in use come back with their next request
            self._owners[token_hash] = link.company_id.hex
