"""Tags as people write them in OpenStreetMap, from the wiki and from extracts of American cities."""

import pytest

from domain.roads.osm_tags import (
    exit_number,
    feet,
    is_closed_to_trucks,
    least_pounds,
    lowest_feet,
    one_way,
    pounds,
    route_number,
    route_of_relation,
    signed_direction,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("4.1", 13.45), ("4.1 m", 13.45), ("4,1m", 13.45), ("410 cm", 13.45), ("13'6\"", 13.5), ("13' 6\"", 13.5),
        ("13 ft 6 in", 13.5), ("13ft6in", 13.5), ("12'", 12), ("12.5 ft", 12.5), ("162\"", 13.5), ("12’6”", 12.5),
        ("none", None), ("default", None), ("below_default", None), ("", None), ("-3", None), ("no_sign", None),
        ("x", None),
    ],
)  # fmt: skip
def test_heights(value: str, expected: float | None) -> None:
    found = feet(value)
    assert found == (pytest.approx(expected, abs=0.005) if expected is not None else None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("20 st", 40_000), ("20st", 40_000), ("36.5 st", 73_000), ("18", 39_683), ("18 t", 39_683),
        ("40000 lbs", 40_000),
        ("7.5 t", 16_535), ("3500 kg", 7_716), ("10 lt", 22_400), ("none", None), ("default", None), ("20 xy", None),
    ],
)  # fmt: skip
def test_weights(value: str, expected: float | None) -> None:
    found = pounds(value)
    assert found == (pytest.approx(expected, rel=1e-4) if expected is not None else None)


def test_the_lowest_of_several_limits_counts() -> None:
    assert lowest_feet({"maxheight": "14'", "maxheight:physical": "13'"}, "maxheight", "maxheight:physical") == 13
    assert lowest_feet({"maxheight": "default"}, "maxheight") is None
    assert least_pounds({"maxweight": "36 st;20 st"}, "maxweight") == 40_000
    assert lowest_feet({"maxheight": "0"}, "maxheight") is None  # nothing is that low


@pytest.mark.parametrize(
    ("tags", "closed"),
    [
        ({"hgv": "no"}, True), ({"hgv": "destination"}, True), ({"hgv": "delivery"}, True),
        ({"access": "private"}, True),
        ({"access": "no", "hgv": "designated"}, False), ({"access": "no", "motor_vehicle": "yes"}, False),
        ({"hgv": "local"}, False), ({"motor_vehicle": "no"}, True), ({}, False),
    ],
)  # fmt: skip
def test_what_is_closed_to_trucks(tags: dict[str, str], closed: bool) -> None:
    assert is_closed_to_trucks(tags) == closed


@pytest.mark.parametrize(
    ("tags", "direction"),
    [
        ({"highway": "motorway"}, 1), ({"highway": "motorway", "oneway": "no"}, 0), ({"oneway": "-1"}, -1),
        ({"junction": "roundabout"}, 1), ({"highway": "trunk"}, 0), ({"oneway": "reversible"}, 0),
    ],
)  # fmt: skip
def test_one_way_roads(tags: dict[str, str], direction: int) -> None:
    assert one_way(tags) == direction


@pytest.mark.parametrize(
    ("ref", "number"),
    [
        ("I 80;US 6", "I-80"), ("US 6;I 80", "I-80"), ("PA 581;US 11", "US-11"), ("US 1 Alternate", "US-1"),
        ("NE 31", "NE-31"), ("I 35W", "I-35W"), ("FM 1960", "FM-1960"), ("SR-99", "SR-99"), ("", None), ("581", None),
        ("Broad Street", None), (";;", None),
    ],
)  # fmt: skip
def test_route_numbers(ref: str, number: str | None) -> None:
    assert route_number(ref) == number


def test_relations_and_exits() -> None:
    assert route_of_relation({"network": "US:I", "ref": "80"}) == "I-80"
    assert route_of_relation({"network": "US:PA:Turnpike", "ref": "76"}) == "PA-76"
    assert route_of_relation({"network": "US:I"}) is None
    assert (signed_direction("east"), signed_direction("Northbound"), signed_direction("forward")) == ("E", "N", None)
    assert exit_number({"highway": "motorway_junction", "ref": "440A"}) == "440A"
    assert exit_number({"highway": "motorway_junction", "ref": "12A;12B"}) == "12A-12B"
    assert exit_number({"highway": "motorway_junction", "ref": "see sign\n"}) is None
    assert exit_number({"highway": "motorway_junction"}) is None
    assert exit_number({"highway": "traffic_signals", "ref": "4"}) is None
