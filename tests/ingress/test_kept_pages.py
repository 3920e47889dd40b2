"""Trips whose pages were shown last are kept, within bounds."""

from typing import Any, cast

from domain.driver_page.progress import Course
from domain.languages.words import ENGLISH
from domain.routes.plans.planned_stops import PlanMilestones
from ingress.driver.kept_pages import KeptPage, KeptPages, PageKind, TripPages

COURSE = Course(PlanMilestones((), None, 0.0, 0), None)
ENTIRE = PageKind(None, 0, knows_place=False)


class _Row:
    time_zone = "UTC"

    def __init__(self, token_hash: bytes, version: str) -> None:
        self.token_hash, self.version = token_hash, version


class _Opened:
    course = COURSE

    def __init__(self, token_hash: bytes, version: str = "1") -> None:
        self.row = _Row(token_hash, version)


def put(trips: KeptPages, token_hash: bytes, version: str = "1", page: bytes = b"page") -> TripPages:
    trip = trips.put(cast(Any, _Opened(token_hash, version)))
    trips.put_page(trip, ENTIRE, KeptPage((page,), ENGLISH))
    return trip


def test_a_trip_is_kept_in_the_version_that_was_read_last() -> None:
    trips = KeptPages()
    put(trips, b"a")
    assert trips.get(b"a", "2") is None
    put(trips, b"a", "2", b"newer")
    assert trips.get(b"a", "1") is None
    kept = trips.get(b"a", "2")
    assert kept is not None
    assert kept.pages[ENTIRE].parts == (b"newer",)


def test_a_trip_that_is_read_again_in_the_same_version_keeps_its_pages() -> None:
    trips = KeptPages()
    kept = put(trips, b"a")
    assert trips.put(cast(Any, _Opened(b"a"))) is kept


def test_the_trips_that_nobody_has_asked_for_longest_make_room() -> None:
    trips = KeptPages(most_bytes=10_000)
    for token_hash in (b"a", b"b"):
        put(trips, token_hash, page=b"x" * 2_000)
    assert trips.get(b"a", "1") is not None
    put(trips, b"c", page=b"x" * 2_000)
    assert [one in trips for one in (b"a", b"b", b"c")] == [True, False, True]


def test_bytes_of_what_has_made_room_are_not_counted_any_more() -> None:
    trips = KeptPages(most_bytes=10_000)
    gone = put(trips, b"a", page=b"x" * 20_000)
    assert b"a" not in trips
    for _ in range(5):
        trips.put_page(gone, ENTIRE, KeptPage((b"x" * 9_000,), ENGLISH))
        put(trips, b"b")
    assert b"b" in trips
