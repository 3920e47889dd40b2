"""Second ways of a road: the stations of both ways are compared, and stored plans tell it."""

from datetime import datetime

import pytest

from domain.database.connections import Connection
from domain.roads import Point
from domain.roads.highways import HighwayRoads
from domain.stations.corridor_offers import StationPlaces, offers_along
from domain.stations.stations import StationRow, store_station
from tests.factories import DOT, Fleet

DENVER, MINNEAPOLIS = Point(39.739, -104.985), Point(44.98, -93.264)
ROAD = HighwayRoads().through([DENVER, MINNEAPOLIS])

pytestmark = pytest.mark.usefixtures("no_stations")


def station(connection: Connection, station_id: str, place: Point, city: str | None, now: datetime) -> None:
    row = StationRow(
        station_id=station_id,
        name=station_id,
        city=city,
        state="IA" if city else None,
        latitude=place.latitude,
        longitude=place.longitude,
        retail_price=3.5,
    )
    store_station(connection, row, DOT, now=now)


def test_a_second_way_is_named_by_a_town_and_compared_by_its_stations(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    """From Denver both ways begin on I-76 past Sterling. One of them goes on by Des Moines."""
    (second,) = ROAD.second_ways
    middle = second.other.line[len(second.other.line) * 2 // 3]
    station(connection, "shared", Point(40.618, -103.19), "Sterling", now)
    station(connection, "alone", Point(*middle.tolist()), "Des Moines", now)

    found = offers_along(connection, fleet.company_id, ROAD, 5.0, StationPlaces(), now=now).second_ways

    (way,) = found
    assert (way.by, way.stations, way.stations_shared) == ("Des Moines, IA", 2, 1)
    assert way.from_mile == 0
    assert way.to_mile == pytest.approx(ROAD.distance_miles)
    assert 0 <= way.longer_percent <= 3
    assert 20 < way.shared_percent < 80
    assert way.longer_miles == pytest.approx(second.other.miles - second.best.miles)


def test_a_second_way_without_stations_of_its_own_has_no_name(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    (way,) = offers_along(connection, fleet.company_id, ROAD, 5.0, StationPlaces(), now=now).second_ways
    assert (way.by, way.stations, way.stations_shared) == (None, 0, 0)


def test_a_second_way_behind_the_horizon_is_not_told(connection: Connection, fleet: Fleet, now: datetime) -> None:
    road = HighwayRoads().through([Point(39.11, -94.62), DENVER, MINNEAPOLIS])
    assert [way.leg for way in road.second_ways] == [1]
    cut = road.up_to(road.stop_miles[1] - 1)
    assert offers_along(connection, fleet.company_id, cut, 5.0, StationPlaces(), now=now).second_ways == ()
