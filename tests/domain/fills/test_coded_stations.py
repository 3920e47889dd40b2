"""A code of a station on a purchase: it is compared with the name and the town beside it."""

import pytest

from domain.fills.matching import KnownStation, KnownStations, match_station
from domain.roads import Point

JOE = Point(41.7, -86.0)
LOVES = KnownStation("00AB123", "Love's #892", "Love's", "St. Joe", "IN", JOE)
PILOT = KnownStation("P9", "Pilot #9", "Pilot", "Gary", "IN", Point(41.6, -87.3))


def matched(
    code: str, name: str, city: str, trail: tuple[Point, ...] = (), aliases: dict[str, str] | None = None
) -> tuple[str | None, bool]:
    stations = KnownStations([LOVES, PILOT], aliases)
    found = match_station(stations, code=code, name=name, city=city, state="IN", trail=trail)
    return found.station.station_id if found.station is not None else None, found.unclear


@pytest.mark.parametrize(
    ("code", "name", "city"),
    [
        ("00AB123", "whatever", "SAINT JOE"),
        ("#ab123", "LOVES", "ST JOE"),
        ("AB123", "LOVES", ""),
        ("ab123", "LOVES #892", "GRANGER"),
        ("ab123", "", "ST. JO"),
    ],
)
def test_a_code_leads_to_its_station_however_it_is_written(code: str, name: str, city: str) -> None:
    assert matched(code, name, city) == ("00AB123", False)


@pytest.mark.parametrize(
    ("name", "city"),
    [("PILOT TRAVEL CENTER", "ST JOE"), ("FJ 7", "ST JOE"), ("LOVES", "GARY"), ("PILOT #9", "GARY"), ("", "GARY")],
)
def test_a_code_that_name_or_town_speak_against_is_for_a_person(name: str, city: str) -> None:
    assert matched("AB123", name, city) == (None, True)


def test_the_truck_at_the_station_settles_it() -> None:
    assert matched("AB123", "LOVES", "GARY", trail=(JOE,)) == ("00AB123", False)


@pytest.mark.parametrize("stored", ["P9", "#00p9", "00P9"])
def test_the_companys_own_code_goes_before_an_id_and_is_read_as_it_was_stored(stored: str) -> None:
    assert matched("p9", "LOVES", "ST JOE", aliases={stored: "00AB123"}) == ("00AB123", False)
