"""Keeps the trips whose pages were shown last, so that a trip of which only the truck has moved is neither read nor
rendered again."""

from collections import OrderedDict
from datetime import datetime
from typing import NamedTuple

from domain.driver_page.page import OpenedTrip
from domain.driver_page.progress import Course
from domain.driver_page.shown_trip import ShownTruck
from domain.languages.tags import Language
from domain.languages.words import Words
from domain.roads import Point

MOST_KEPT_BYTES = 32_000_000
"""Most bytes that one process keeps: those of some 2,500 trips."""
_COURSE_BYTES = 2_000
"""Bytes of a trip without its road and its pages, as a rule."""

Parts = tuple[bytes, ...]


class PageKind(NamedTuple):
    """The page of a trip among those that it can have in one version."""

    chosen: Language | None
    """The language that the driver chose on the page."""
    behind: int
    """The number of fuel stops behind the truck."""
    knows_place: bool
    """False where no position of the truck is known."""


class KeptPage(NamedTuple):
    """A rendered page, but for the values of the truck, which are written in `words`."""

    parts: Parts
    words: Words


class SeenTrip(NamedTuple):
    """A trip whose page is kept, and its truck as it is at that moment."""

    page: KeptPage
    time_zone: str
    truck: ShownTruck


class TripPages:
    """A trip in one version of it, and its pages as far as they were shown."""

    __slots__ = ("bytes", "course", "pages", "time_zone", "token_hash", "version")

    def __init__(self, trip: OpenedTrip) -> None:
        self.token_hash = trip.row.token_hash
        self.version = trip.row.version
        self.time_zone = trip.row.time_zone
        self.course: Course = trip.course
        self.pages: dict[PageKind, KeptPage] = {}
        self.bytes = _COURSE_BYTES + len(self.version) + self.course.road_bytes

    def kind_of_page(self, chosen: Language | None, place: Point | None) -> PageKind:
        return PageKind(chosen, self.course.behind(place), place is not None)

    def seen(self, page: KeptPage, kind: PageKind, place: Point | None, at: datetime | None) -> SeenTrip:
        """The trip with that page of it, while its truck is at that place."""
        truck = ShownTruck(at if kind.knows_place else None, self.course.miles_away(place, behind=kind.behind))
        return SeenTrip(page, self.time_zone, truck)


class KeptPages:
    """The newest trips of one process, by the hashes of their tokens. Whoever asks has the version of the trip from the
    database at that moment; nothing is shown from here alone."""

    def __init__(self, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._trips: OrderedDict[bytes, TripPages] = OrderedDict()

    def __contains__(self, token_hash: bytes) -> bool:
        return token_hash in self._trips

    def get(self, token_hash: bytes, version: str) -> TripPages | None:
        """The trip, if it is kept in that version."""
        trip = self._trips.get(token_hash)
        if trip is None or trip.version != version:
            return None
        self._trips.move_to_end(token_hash)
        return trip

    def put(self, opened: OpenedTrip) -> TripPages:
        """The trip in the version that was read, with the pages that are kept of it."""
        token_hash = opened.row.token_hash
        kept = self.get(token_hash, opened.row.version)
        if kept is None:
            self.forget(token_hash)
            kept = self._trips[token_hash] = TripPages(opened)
            self._make_room(kept.bytes)
        return kept

    def put_page(self, trip: TripPages, kind: PageKind, page: KeptPage) -> None:
        trip.pages[kind] = page
        if self._trips.get(trip.token_hash) is trip:  # it may have made room for others
            added = sum(map(len, page.parts))
            trip.bytes += added
            self._make_room(added)

    def forget(self, token_hash: bytes) -> None:
        trip = self._trips.pop(token_hash, None)
        if trip is not None:
            self._bytes -= trip.bytes

    def _make_room(self, added: int) -> None:
        self._bytes += added
        while self._bytes > self._most_bytes and self._trips:
            self.forget(next(iter(self._trips)))
