"""Tags as people write them in OpenStreetMap, from the wiki and from extracts of American cities."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.roads.osm_tags import (
    exit_number,
    feet,
    is_closed_to_trucks,
    is_too_small_for_trucks,
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
        ("13´6\"", 13.5), ("13‘6", 13.5),
        ("13'-6\"", 13.5), ("12'06\"", 12.5), ("13' 6''", 13.5), ("13'6", 13.5), ("4.1 meter", 13.45),
        ("none", None), ("default", None), ("below_default", None), ("", None), ("-3", None), ("no_sign", None),
        ("unsigned", None), ("x", None), ("4.1 @ (Mo-Fr)", None),
    ],
)  # fmt: skip
def test_heights(value: str, expected: float | None) -> None:
    found = feet(value)
    assert found == (pytest.approx(expected, abs=0.005) if expected is not None else None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("20 st", 40_000), ("20st", 40_000), ("36.5 st", 73_000), ("18", 39_683), ("18 t", 39_683),
        ("40000 lbs", 40_000), ("80,000 lbs", 80_000), ("1,080,000lb", 1_080_000), ("7,5", 16_535),
        ("7,500 kg", 16_535),
        ("10 ton", 20_000), ("3,500", 7_716), ("1,2,3", None),
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
        ({"access": "hov", "hov": "designated"}, True), ({"access": "hov", "hgv": "yes"}, False),
        ({"access": "private"}, True),
        ({"access": "no", "hgv": "designated"}, False), ({"access": "no", "motor_vehicle": "yes"}, False),
        ({"hgv": "local"}, False), ({"motor_vehicle": "no"}, True), ({}, False),
        ({"motor_vehicle": "private"}, True), ({"access": "no", "hgv": "yes"}, False),
        ({"hgv": "delivery;destination"}, True), ({"goods": "yes", "access": "no"}, True),  # vans
        ({"oneway": "yes", "oneway:conditional": "-1 @ (Mo-Fr 05:00-11:00)"}, True),
        ({"oneway:conditional": "yes @ (Mo-Fr 07:00-09:00)"}, False),
        ({"hgv:lanes": "no|yes"}, False), ({"oneway": "reversible", "highway": "motorway"}, True),
        ({"hgv:conditional": "no @ (22:00-06:00)"}, False), ({"hgv:conditional": "no @ (weight>7.5)"}, True),
        ({"hgv:conditional": "no @ (weightrating > 26,000 lbs)"}, True),
        ({"hgv:conditional": "no @ (weight>90000 lbs)"}, False),
        ({"hgv:conditional": "no @ (Sa,Su); destination @ (weight>=3.5)"}, True),
        ({"hgv:conditional": "yes @ (weight<3.5)"}, False), ({"hgv:conditional": "no @ ("}, False),
    ],
)  # fmt: skip
def test_what_is_closed_to_trucks(tags: dict[str, str], closed: bool) -> None:
    assert is_closed_to_trucks(tags) == closed


@pytest.mark.parametrize(
    ("tags", "is_too_small"),
    [
        ({"maxheight": "13'6\""}, False), ({"maxheight": "4.11"}, False), ({"maxheight": "13'5\""}, True),
        ({"maxheight": "3.5;4.5"}, True), ({"maxheight": "default"}, False), ({"maxheight:backward": "12'"}, True),
        ({"maxheight:lanes": "12'|14'"}, False), ({"maxwidth": "2.6"}, False), ({"maxwidth": "8'"}, True),
        ({"maxlength": "53'"}, False), ({"maxlength": "30 ft"}, True),
        ({"maxweight": "80,000 lbs"}, False), ({"maxweight": "36.25"}, False), ({"maxweight": "40 st"}, False),
        ({"maxweight": "3.5", "maxweight:conditional": "none @ destination"}, True), ({"maxweight:hgv": "20 st"}, True),
        ({"maxaxleload": "20000 lbs"}, False), ({"maxaxleload": "5"}, True), ({}, False),
    ],
)  # fmt: skip
def test_limits_that_keep_an_ordinary_truck_out(tags: dict[str, str], is_too_small: bool) -> None:
    assert is_too_small_for_trucks(tags) == is_too_small


_ACCESS_KEYS = ("hgv", "access", "motor_vehicle", "hgv:conditional", "oneway", "junction")
_OTHER_KEYS = ("maxheight", "maxweight", "maxwidth", "maxaxleload", "highway", "ref", "network", "direction")
_KEYS = st.sampled_from((*_ACCESS_KEYS, *_OTHER_KEYS))
_VALUES = st.text(max_size=255) | st.text("0123456789.,'\"-;:@()>=< ftinmslbkgo²٣\n", max_size=40)


@given(st.dictionaries(_KEYS, _VALUES | st.just("motorway_junction")))
def test_no_value_that_people_write_stops_the_reading(tags: dict[str, str]) -> None:
    is_closed_to_trucks(tags)
    is_too_small_for_trucks(tags)
    route_of_relation(tags)
    exit_number(tags)
    assert one_way(tags) in (-1, 0, 1)
    for value in tags.values():
        assert (feet(value) or 0) >= 0
        assert (pounds(value) or 0) >= 0
        route_number(value)
        signed_direction(value)


@given(
    st.integers(0, 99), st.integers(0, 11), st.sampled_from(["{}'{}\"", "{} ft {} in", "{}'-{}\"", "{}′{}″", "{}'{}"])
)
def test_feet_and_inches_are_read_as_they_are_written(whole: int, inches: int, written: str) -> None:
    assert feet(written.format(whole, inches)) == pytest.approx(whole + inches / 12)


@pytest.mark.parametrize(
    ("tags", "direction"),
    [
        ({"highway": "motorway"}, 1), ({"highway": "motorway", "oneway": "no"}, 0), ({"oneway": "-1"}, -1),
        ({"junction": "roundabout"}, 1), ({"junction": "roundabout", "oneway": "-1"}, -1),
        ({"highway": "trunk"}, 0), ({"oneway": "reversible"}, 0),
    ],
)  # fmt: skip
def test_one_way_roads(tags: dict[str, str], direction: int) -> None:
    assert one_way(tags) == direction


@pytest.mark.parametrize(
    ("ref", "number"),
    [
        ("I 80;US 6", "I-80"), ("US 6;I 80", "I-80"), ("PA 581;US 11", "US-11"), ("US 1 Alternate", "US-1 Alternate"),
        ("I 40 BL", "I-40 BL"), ("US 62 BUS;KY 4", "KY-4"), ("US 31W BYP", "US-31W BYP"), ("I 80 Bus.", "I-80 Bus"),
        ("I 35 Frontage Road", "I-35 Frontage"), ("I 84 WB", "I-84"),
        ("I 80 Business;US 6", "US-6"), ("I 80 Business", "I-80 Business"), ("I 80 (future)", "I-80"),
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
    assert route_of_relation({"network": "US:I:Business", "ref": "80"}) is None
    assert (signed_direction("east"), signed_direction("Northbound"), signed_direction("forward")) == ("E", "N", None)
    assert exit_number({"highway": "motorway_junction", "ref": "440A"}) == "440A"
    assert exit_number({"highway": "motorway_junction", "ref": "12A;12B"}) == "12A-12B"
    assert exit_number({"highway": "motorway_junction", "ref": "see sign\n"}) is None
    assert exit_number({"highway": "motorway_junction"}) is None
    assert exit_number({"highway": "traffic_signals", "ref": "4"}) is None
