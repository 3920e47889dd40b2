"""The trips that one ingress process finds for tokens: what it asks the database, and what it counts."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

import pytest

from domain.accounts.tokens import hash_of_token
from domain.ids import new_id
from domain.languages.words import ENGLISH
from ingress.api.services import Services
from ingress.driver import trips
from ingress.driver.kept_pages import KeptPage, KeptPages
from tests.ingress.test_kept_pages import COURSE, ENTIRE


class _Row:
    """A link that opens its trip, in its only version; no position of the truck is known."""

    version, time_zone, environment, place, truck_at = "1", "UTC", "live", None, None

    def __init__(self, token: str) -> None:
        self.token_hash, self.id, self.company_id = hash_of_token(token), new_id(), new_id()


class _Opened:
    course = COURSE

    def __init__(self, row: _Row) -> None:
        self.row = self.link = row


class _Services:
    """Services that know the links of some tokens."""

    def __init__(self, *tokens: str) -> None:
        self.rows = {hash_of_token(token): _Row(token) for token in tokens}
        self.counted = list[UUID]()

    async def ask(self, query: Any, _: object) -> list[Any]:
        rows = [self.rows[one] for one in query._parameters["hashes"]]
        return [_Opened(row) for row in rows] if "shows_plan" in query._parameters else rows

    async def count_pages(self, links: Sequence[tuple[UUID, UUID]]) -> list[int]:
        self.counted += [link for link, _ in links]
        return [0] * len(links)


def test_a_link_that_made_room_for_others_is_read_again_and_its_next_pages_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trips, "_MOST_KNOWN", 1)
    monkeypatch.setattr(trips, "REST_SECONDS", 0.0)
    services, kept = _Services("one", "another"), KeptPages()
    finder = trips.Trips(cast(Services, services), kept, hours=24)

    async def look(token: str) -> bool:
        """True if its page was kept; it is kept now."""
        found: Any = await finder.page(token, None)
        if isinstance(found, _Opened):
            kept.put_page(kept.put(cast(Any, found)), ENTIRE, KeptPage((b"page",), ENGLISH))
        return not isinstance(found, _Opened)

    async def looks() -> list[bool]:
        return [await look(token) for token in ("one", "one", "another", "one", "one")]

    assert asyncio.run(looks()) == [False, True, False, False, True]
    assert services.counted == [services.rows[hash_of_token("one")].id] * 2
