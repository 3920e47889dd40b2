"""Examples of the fixes of a batch that count for a route, and of the visits that they make (decision 10)."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from domain.documents import PlaceDocument
from domain.roads import Point
from domain.telematics.arrivals import Fix, Visit
from domain.telematics.fix_batches import ReceivedFix
from domain.telematics.fixes_to_visits import (
    OpenRoute,
    believed_fixes,
    first_that_may_count,
    fixes_of_route,
    visits_after,
)
from domain.telematics.tracks import Track
from tests.domain.helpers import north_of
from tests.factories import JOLIET, NEWARK

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
FIRST_STOP = Point(JOLIET["latitude"], JOLIET["longitude"])
LAST_STOP = Point(NEWARK["latitude"], NEWARK["longitude"])
AWAY = Point(41.0, -80.0)
EARLY = timedelta(hours=12)
ROUTE_ID, COMPANY_ID, TRUCK_ID = (UUID(int=number) for number in range(1, 4))


def at(hours: float) -> datetime:
    """The time, in hours after noon."""
    return NOON + timedelta(hours=hours)


def route(environment: str = "live", start: datetime = NOON, imported_at: datetime = NOON - EARLY) -> OpenRoute:
    stops = [PlaceDocument(latitude=stop.latitude, longitude=stop.longitude) for stop in (FIRST_STOP, LAST_STOP)]
    return OpenRoute(ROUTE_ID, COMPANY_ID, environment, TRUCK_ID, "draft", start, stops, None, imported_at)


def track(free_since: datetime | None = None, freed_at: datetime | None = None) -> Track:
    return Track("(0,1)", TRUCK_ID, at(-240), at(-240), at(24), *FIRST_STOP, free_since, freed_at)


def stay(place: Point, hours: float, received: float | None = None) -> list[ReceivedFix]:
    """Two slow fixes at a place; they come in at once unless told."""
    moments = [at(hours), at(hours) + timedelta(minutes=1)]
    fixes = [Fix(moment, place.latitude, place.longitude, speed_mph=0) for moment in moments]
    return [ReceivedFix(fix, fix.recorded_at if received is None else at(received)) for fix in fixes]


def visited(
    fixes: list[ReceivedFix],
    *,
    of: OpenRoute | None = None,
    by: Track | None = None,
    before: dict[int, Visit] | None = None,
) -> dict[int, datetime]:
    """When the truck arrived at each stop."""
    after = visits_after(of or route(), by or track(), before or {}, fixes, early=EARLY, radius_meters=250)
    return {stop: visit.arrived_at for stop, visit in after.items()}


def test_a_rejected_late_fix_does_not_mask_a_newer_one() -> None:
    """The example in the docstring of `visits_after`."""
    late_and_new = [*stay(LAST_STOP, -10, received=3), *stay(LAST_STOP, 3)]

    assert visited(late_and_new, before={0: Visit(NOON)}) == {0: NOON, 1: at(3)}


def test_a_late_fix_makes_a_stored_arrival_earlier() -> None:
    assert visited(stay(FIRST_STOP, -1, received=1), before={0: Visit(NOON)}) == {0: at(-1)}


@pytest.mark.parametrize(("hours", "counts"), [(-11.9, True), (-12.1, False)])
def test_a_fix_counts_from_twelve_hours_before_the_start(hours: float, counts: bool) -> None:
    assert bool(visited(stay(FIRST_STOP, hours), of=route(imported_at=at(-48)))) is counts


@pytest.mark.parametrize(("hours", "counts"), [(-0.2, True), (-0.3, False)])
def test_a_fix_from_before_the_import_counts_for_fifteen_minutes(hours: float, counts: bool) -> None:
    assert bool(visited(stay(FIRST_STOP, hours), of=route(imported_at=NOON))) is counts


@pytest.mark.parametrize("environment", ["live", "sandbox"])
def test_a_truck_that_came_to_a_later_stop_before_the_import_begins_no_trip_there(environment: str) -> None:
    """It stands where its trip before has brought it. The route is imported some minutes later."""
    came = [*stay(AWAY, -0.2), *stay(LAST_STOP, -0.1)]
    stands = [*came, *stay(LAST_STOP, 0.1)]
    imported = route(environment, imported_at=NOON)

    assert visited(came, of=imported) == visited(stands, of=imported) == {}
    assert visited([*stands, *stay(AWAY, 1), *stay(LAST_STOP, 2)], of=imported) == {1: at(2)}, "it came there again"
    assert visited([*came[:2], *stay(LAST_STOP, 0.1)], of=imported) == {1: at(0.1)}, "it came after the import"


def test_a_fix_that_comes_in_after_the_import_may_be_older() -> None:
    assert visited(stay(FIRST_STOP, -5, received=1), of=route(imported_at=NOON)) == {0: at(-5)}


@pytest.mark.parametrize(
    ("environment", "received", "counts"), [("live", 3, False), ("sandbox", 1, False), ("sandbox", 3, True)]
)
def test_a_fix_from_before_the_truck_was_free_counts_only_when_simulated_time_starts_over(
    environment: str, received: float, counts: bool
) -> None:
    freed = track(free_since=at(1), freed_at=at(2))
    fixes = stay(FIRST_STOP, 0, received=received)

    assert bool(visited(fixes, of=route(environment), by=freed)) is counts


@pytest.mark.parametrize(("environment", "counts"), [("live", False), ("sandbox", True)])
def test_fixes_of_the_route_before_do_not_stand_between_those_of_started_over_time(
    environment: str, counts: bool
) -> None:
    """The truck drove its first route until 10 o'clock of simulated time, and stands at the next first stop at 0."""
    freed = track(free_since=at(10), freed_at=at(0.5))
    moments = [at(0) + timedelta(seconds=30 * number) for number in range(8)]
    driven = [ReceivedFix(Fix(moment, *AWAY, speed_mph=60), at(0.4)) for moment in moments[::2]]
    stands = [ReceivedFix(Fix(moment, *FIRST_STOP, speed_mph=0), at(0.6)) for moment in moments[1::2]]
    batch = sorted([*driven, *stands], key=lambda received: received.fix.recorded_at)
    starts = route(environment)

    believed, flags = believed_fixes(fixes_of_route(starts, freed, batch))

    assert bool(visited(believed, of=starts, by=freed)) is counts
    assert bool(flags) is not counts


def test_fixes_are_loaded_from_when_they_may_count() -> None:
    assert first_that_may_count(track(), route(), early=EARLY) == at(-12)
    assert first_that_may_count(track(free_since=at(1)), route(), early=EARLY) == at(1)
    assert first_that_may_count(track(free_since=at(1)), route("sandbox"), early=EARLY) == at(-12)
    assert first_that_may_count(track(), route(start=at(-500)), early=EARLY) == at(-240)


def test_a_truck_at_a_stop_across_the_street_has_left_the_one_before() -> None:
    """No fix at the second stop is far enough from the first one to be a departure by itself."""
    gate = north_of(FIRST_STOP, 290)
    stops = [PlaceDocument(latitude=stop.latitude, longitude=stop.longitude) for stop in (FIRST_STOP, gate, LAST_STOP)]
    across = route()._replace(stops=stops)
    fixes = [*stay(FIRST_STOP, 0), *stay(gate, 1)]

    after = visits_after(across, track(), {}, fixes, early=EARLY, radius_meters=250)

    assert {stop: (visit.arrived_at, visit.departed_at) for stop, visit in after.items()} == {
        0: (at(0), at(1)),
        1: (at(1), None),
    }
    away = [*fixes, *stay(AWAY, 10), *stay(AWAY, 10.1)]
    later = visits_after(across, track(), after, away, early=EARLY, radius_meters=250)
    assert (later[0].departed_at, later[1].departed_at) == (at(1), at(10))
    together = visits_after(across, track(), {}, away, early=EARLY, radius_meters=250)
    assert {stop: visit.departed_at for stop, visit in together.items()} == {0: at(1), 1: at(10)}
