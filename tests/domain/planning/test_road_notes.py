"""The road of a plan in words."""

from dataclasses import replace

from domain.planning.road_notes import ASSUMED_TRUCK, EMBEDDED_NOTE, road_in_words, road_origin
from domain.roads import Point
from domain.roads.highways import HighwayRoads
from domain.roads.truck_dimensions import ANY_TRUCK, TruckDimensions
from domain.stations.second_ways import ComparedWay

ROAD = HighwayRoads().through([Point(41.52, -88.08), Point(41.56, -83.63)])
TALL = TruckDimensions(height_feet=13.5, weight_pounds=80_000.0, axle_count=5, hazmat=True)


def test_the_truck_of_a_road_is_named_with_its_units() -> None:
    words = road_in_words(road_origin(ROAD, TALL))
    assert words.truck == "13.5 ft high, 80,000 lb, 5 axles, hazardous cargo"
    every = TruckDimensions(
        width_feet=8.5, length_feet=72.0, weight_pounds=35_000.0, axle_weight_pounds=17_000.0, hazmat=False
    )
    assert (
        road_in_words(road_origin(ROAD, every)).truck
        == "8.5 ft wide, 72 ft long, 35,000 lb, 17,000 lb on an axle, no hazardous cargo"
    )


def test_embedded_roads_say_that_they_do_not_know_what_is_closed_to_the_truck() -> None:
    assert road_in_words(road_origin(ROAD, TALL)).truck_note == EMBEDDED_NOTE
    assert road_in_words(road_origin(ROAD, ANY_TRUCK)).truck_note == EMBEDDED_NOTE
    assert road_in_words(road_origin(ROAD, ANY_TRUCK)).truck == "not given"


def test_plans_of_earlier_versions_have_neither_a_truck_nor_second_ways() -> None:
    words = road_in_words({"source": "great-circle+highway-graph", "fallback_reason": "no main road"})
    assert words.credit == "great-circle+highway-graph (© OpenStreetMap contributors); no main road"
    assert (words.truck, words.second_ways) == (None, [])


def test_a_second_way_is_told_with_what_both_have_in_common() -> None:
    way = ComparedWay(0.0, 870.6, "Lincoln, NE", 0.888, -12.4, 45.2, 31, 12)
    assert road_in_words(road_origin(ROAD, ANY_TRUCK, second_ways=[way])).second_ways == [
        "A second way by Lincoln, NE is 0.9 % longer in time (12 mi shorter), from mile 0 to 871: 45 % of it and"
        " 12 of its 31 stations lie on this road"
    ]
    unknown = way._replace(by=None, longer_miles=3.0, stations=0, stations_shared=0)
    assert (
        "A second way is 0.9 % longer in time (3 mi longer)"
        in road_in_words(road_origin(ROAD, ANY_TRUCK, second_ways=[unknown])).second_ways[0]
    )


def test_roads_of_valhalla_are_for_the_vehicle_else_for_an_assumed_one() -> None:
    road = replace(ROAD, source="valhalla")
    assert road_in_words(road_origin(road, TALL)).truck_note == "the vehicle"
    assert road_in_words(road_origin(road, ANY_TRUCK)).truck_note == ASSUMED_TRUCK
