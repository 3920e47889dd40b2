"""The small rules: kinds of fuel, local times, stations by name."""

from datetime import UTC, datetime

import pytest

from domain.fills.local_times import utc_of_local, zone_of
from domain.fills.matching import KnownStation, KnownStations, match_station
from domain.roads import Point


@pytest.mark.parametrize(
    ("state", "place", "zone"),
    [
        ("TX", Point(31.77, -106.5), "America/Denver"),  # El Paso
        ("TX", Point(32.75, -97.3), "America/Chicago"),  # Fort Worth
        ("TX", None, "America/Chicago"),
        ("TN", Point(35.96, -83.9), "America/New_York"),  # Knoxville
        ("TN", Point(36.16, -86.8), "America/Chicago"),  # Nashville
        ("IN", Point(41.6, -87.3), "America/Chicago"),  # Gary
        ("IN", Point(39.8, -87.0), "America/New_York"),  # west of Indianapolis
        ("FL", Point(30.4, -87.2), "America/Chicago"),  # Pensacola
        ("AZ", Point(33.4, -112.0), "America/Phoenix"),
    ],
)
def test_the_state_tells_the_zone_and_in_some_the_place_too(state: str, place: Point | None, zone: str) -> None:
    assert zone_of(state, place) == zone


def test_the_hour_that_comes_twice_is_the_first_and_the_skipped_one_is_later() -> None:
    def moment(*local: int) -> datetime:
        return utc_of_local(datetime(*local), "America/Chicago")  # type: ignore[arg-type]

    assert moment(2026, 11, 1, 0, 59) == datetime(2026, 11, 1, 5, 59, tzinfo=UTC)
    assert moment(2026, 11, 1, 1, 30) == datetime(2026, 11, 1, 6, 30, tzinfo=UTC)
    assert moment(2026, 11, 1, 2, 0) == datetime(2026, 11, 1, 8, 0, tzinfo=UTC)
    assert moment(2026, 3, 8, 2, 30) == datetime(2026, 3, 8, 8, 30, tzinfo=UTC)


def station(station_id: str, name: str, brand: str | None, latitude: float = 41.7, state: str = "IN") -> KnownStation:
    return KnownStation(station_id, name, brand, "St. Joe", state, Point(latitude, -86.0))


def matched(
    *stations: KnownStation, name: str | None, code: str | None = None, trail: tuple[Point, ...] = ()
) -> object:
    found = match_station(KnownStations(stations), code=code, name=name, city="SAINT JOE", state="IN", trail=trail)
    return found.station.station_id if found.station is not None else None, found.score


def test_a_station_is_found_by_code_name_brand_and_store_number() -> None:
    loves, other = station("892", "Love's #892", "Love's"), station("255", "Love's #255", "Love's")
    assert matched(loves, other, name="whatever", code="892") == ("892", 100)
    assert matched(loves, other, name="LOVES #255") == ("255", 95)
    assert matched(loves, name="LOVES TRAVEL STOP") == ("892", 90)
    assert matched(loves, name="LOVES 0892") == ("892", 90)
    assert matched(loves, name="LOVES #255") == (None, 0), "another store of the brand"
    assert matched(loves, other, name="LOVES") == (None, 0)
    assert matched(loves, name="PILOT") == (None, 0)


def test_a_truck_at_a_station_tells_which_unless_another_is_as_near() -> None:
    near, far = station("1", "Love's", "Love's"), station("2", "Love's", "Love's", 41.75)
    assert matched(near, far, name="LOVES", trail=(Point(41.7, -86.0),)) == ("1", 85)
    close = station("2", "Love's", "Love's", 41.705)
    assert matched(near, close, name="LOVES", trail=(Point(41.7, -86.0),)) == (None, 0)
    away = near._replace(city="Elsewhere")
    assert matched(away, name="LOVE'S", trail=(Point(41.7, -86.0),)) == ("1", 80)
    assert matched(away, name="PILOT", trail=(Point(41.7, -86.0),)) == (None, 0), "it is named otherwise"
