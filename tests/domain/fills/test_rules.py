"""The small rules: kinds of fuel, local times, stations by name."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


SALT_LAKE = ("Salt Lake City", "UT")
FLYING_J = KnownStation("TS00000", "Flying J Travel Center #746", "Flying J", *SALT_LAKE, Point(40.7, -111.9))
OTHERS = (
    KnownStation("TS00001", "Pilot Travel Center #747", "Pilot", "Springville", "UT", Point(40.2, -111.6)),
    KnownStation("TS00002", "Love's #746", "Love's", *SALT_LAKE, Point(40.8, -111.9)),
    KnownStation("TS00003", "Flying J Travel Center #1007", "Flying J", *SALT_LAKE, Point(40.6, -111.9)),
    KnownStation("TS00004", "TA Salt Lake City", "TA", *SALT_LAKE, Point(40.74, -111.9)),
    KnownStation("FJ1200", "Flying J", "Flying J", "Provo", "UT", Point(40.2, -111.7)),
    KnownStation("TS00005", "Pilot Travel Center", "Pilot", "Ogden", "UT", Point(41.2, -112.0)),
)


def in_utah(name: str, city: str | None = "SALT LAKE CITY", trail: tuple[Point, ...] = ()) -> str | None:
    found = match_station(KnownStations((FLYING_J, *OTHERS)), code=None, name=name, city=city, state="UT", trail=trail)
    return found.station.station_id if found.station is not None else None


@pytest.mark.parametrize(
    ("name", "city", "station_id"),
    [
        ("FJ-SALT LAKE CITY 746", "SALT LAKE CITY", "TS00000"),
        ("FJ SALT LAKE CITY #00746", "SALT LAKE CTY", "TS00000"),
        ("746 PFJ", "SALT LAKE", "TS00000"),
        ("FJ-SALT LAKE CITY 746", "SLC", "TS00000"),
        ("FJ-SALT LAKE CITY 746", "OGDEN", None),
        ("FJ 1200", "PROVO", "FJ1200"),
        ("FLYINGJ746", "SALT LAKE CITY", "TS00000"),
        ("PILOT SALT LAKE CITY 746", "SALT LAKE CITY", "TS00000"),
        ("FLYING J 746", None, "TS00000"),
        ("LOVES TRAVEL S00000746", "SALT LAKE CITY", "TS00002"),
        ("LVS 746", "SALT LAKE CITY", "TS00002"),
        ("747 Springville UT", "Springville", "TS00001"),
        ("TA SALT LAKE CITY", "SALT LAKE CITY", "TS00004"),
        ("TA #99", "SALT LAKE CITY", "TS00004"),
        ("FJ-SALT LAKE CITY", "SALT LAKE CITY", None),
        ("FJ-SALT LAKE CITY 748", "SALT LAKE CITY", None),
        ("PETRO 746", "SALT LAKE CITY", None),
        ("FJ-OGDEN 746", "OGDEN", None),
        ("PILOT OGDEN 747", "OGDEN", None),
        ("PILOT OGDEN 12", "OGDEN", "TS00005"),
        ("I-15 EXIT 746 TRUCK STOP", "SALT LAKE CITY", None),
    ],
)
def test_a_name_as_the_card_prints_it_is_a_station_by_chain_number_and_town(
    name: str, city: str | None, station_id: str | None
) -> None:
    assert in_utah(name, city) == station_id


def test_a_number_that_belongs_to_another_town_counts_if_the_truck_was_there() -> None:
    assert in_utah("FJ-OGDEN 746", "OGDEN", trail=(FLYING_J.place,)) == "TS00000"
    assert in_utah("FJ-OGDEN 746", "OGDEN", trail=(OTHERS[-1].place,)) is None


@given(st.permutations(["FJ", "SALT LAKE CITY", "0746"]), st.sampled_from([" ", "-", " - ", "_", " #"]))
def test_chain_town_and_number_may_come_in_any_order(parts: list[str], sign: str) -> None:
    assert in_utah(sign.join(parts)) == "TS00000"
