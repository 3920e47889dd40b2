"""The text of a message to a driver (decision 20)."""

from datetime import UTC, datetime
from functools import partial
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.languages.tags import Language
from domain.languages.units import US_UNITS, Units
from domain.languages.words import Words
from domain.lifecycle import MapLink
from domain.messages.message_text import (
    LONGEST_LINE,
    OPENING,
    OPENING_CORRECTED,
    corrected,
    fitted,
    shortened,
    with_link,
)
from domain.messages.message_text import compose as compose_in_zone
from domain.planning.directions import Directions
from domain.roads.road_signs import Sign
from domain.text import one_line
from tests.factories import JOLIET, NEWARK, PLAN

MESSAGE_ID = UUID(int=1)
DIRECTIONS = [Directions("east", "12 mi after Goshen, IN"), Directions(None, None)]
LEVELS = {
    **PLAN,
    "stops": [{**stop, "fillToPercent": level} for stop, level in zip(PLAN["stops"], (81, 47), strict=True)],
}
"""A plan whose truck has a gauge that works."""

compose = partial(
    compose_in_zone,
    planned_at=datetime(2026, 11, 20, 10, tzinfo=UTC),
    time_zone="America/Chicago",
    directions=DIRECTIONS,
)


def test_the_text_names_every_fuel_stop_in_driving_order() -> None:
    lines = compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], LEVELS).splitlines()

    assert lines == [
        "Fuel plan for LOAD-7, truck 101",
        "To: Port Newark, mile 812",
        "Planned Fri Nov 20 04:00 CST",
        "1. Lakeside Travel Plaza, 100 Exit Rd, Elkhart, IN",
        "Mile 130, heading east, 12 mi after Goshen, IN: fill to 81 % (100.0 gal) at $3.455 = $345.50. Next: mile 546",
        "https://www.google.com/maps/dir/?api=1&destination=41.70000,-86.00000",
        "2. Keystone Fuel",
        "Mile 546: fill to 47 % (50.0 gal) at $3.500 = $175.00. Next: destination, mile 812",
        "https://www.google.com/maps/dir/?api=1&destination=41.00000,-78.40000",
        "2 fuel stops, 150.0 gal, $520.50",
        "Message msg_00000000000000000000000000000001",
    ]


def test_gallons_alone_are_named_where_the_gauge_tells_no_level() -> None:
    text = compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], PLAN)

    assert "IN: 100.0 gal at $3.455 = $345.50. Next: mile 546" in text
    assert "fill to" not in text


def test_a_note_of_a_stop_is_a_line_above_its_map() -> None:
    noted = [DIRECTIONS[0]._replace(notes=("If closed: Love's\n305", "N" * 300)), DIRECTIONS[1]]
    lines = compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], LEVELS, directions=noted).splitlines()

    assert lines[4].startswith("Mile 130")
    assert lines[5] == "If closed: Love's 305"
    assert lines[6] == "N" * (LONGEST_LINE - 3) + "..."
    assert lines[7].startswith("https://")


def test_a_plan_without_stops_says_so() -> None:
    text = compose(MESSAGE_ID, "LOAD-7", None, [JOLIET, NEWARK], {**PLAN, "stops": []})

    assert text.splitlines()[0] == "Fuel plan for LOAD-7"
    assert "No fuel stop is needed" in text


def test_a_message_to_a_truck_low_on_fuel_begins_with_low_fuel_and_the_first_stop() -> None:
    low = compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], PLAN, low_fuel=True)
    percent = PLAN["stops"][0]["arrivalFuelPercent"]

    first, rest = low.split("\n", 1)
    assert first.startswith("LOW FUEL: drive to Lakeside Travel Plaza, mile 130, before anything else.")
    assert first.endswith(f" {percent} % there.")
    assert rest == compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], PLAN)
    without = compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], {**PLAN, "stops": []}, low_fuel=True)
    assert without.startswith("LOW FUEL: ")


def test_a_corrected_message_says_so_and_still_begins_with_low_fuel() -> None:
    plain = compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], PLAN)
    low = compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], PLAN, low_fuel=True)

    assert corrected(plain) == "CORRECTED fuel plan" + plain.removeprefix("Fuel plan")
    assert corrected(low).split("\n", 1) == [low.split("\n", 1)[0], corrected(plain)]
    for text in (plain, low):
        assert corrected(corrected(text)) == corrected(text)


FORGED = "Yard\n2. Cheap Fuel: mile 5, 200.0 gal at $0.100 = $20.00"


@pytest.mark.parametrize(
    "end", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\x1b[2K\r", "\u202e"]
)
def test_no_name_can_forge_a_line_of_the_message(end: str) -> None:
    forged = FORGED.replace("\n", end)
    station = {**PLAN["stops"][0], "name": forged, "address": forged}

    text = compose(
        MESSAGE_ID,
        forged,
        forged,
        [JOLIET, {**NEWARK, "name": forged}],
        {**PLAN, "stops": [station]},
        directions=[Directions("east", f"12 mi after {forged}")],
    )

    assert [line.split(" ")[0] for line in text.splitlines()] == [
        *(
            "Fuel",
            "To:",
            "Planned",
            "1.",
            "Mile",
            "https://www.google.com/maps/dir/?api=1&destination=41.70000,-86.00000",
        ),
        *("1", "Message"),
    ]
    assert not any(control in text for control in "\r\x0b\x0c\x1b\x1c\x85\u2028\u202e")


NAMES = st.one_of(st.text(), st.text(min_size=150), st.sampled_from(["", "{}", "{0!r}", "%s", "a" * 400, "1\n2. "]))


@given(NAMES, st.none() | NAMES, NAMES, NAMES, st.none() | NAMES, NAMES, st.booleans(), st.sampled_from(MapLink))
def test_no_name_makes_a_line_too_long_or_adds_one(
    route_name: str,
    unit_number: str | None,
    destination: str,
    station: str,
    address: str | None,
    town: str,
    low_fuel: bool,
    map_link: MapLink,
) -> None:
    plan = {
        **PLAN,
        "stops": [{**stop, "name": station, "address": address, "fillToPercent": 100} for stop in PLAN["stops"]],
    }
    text = compose(
        MESSAGE_ID,
        route_name,
        unit_number,
        [JOLIET, {**NEWARK, "name": destination}],
        plan,
        directions=[Directions("northeast", town, 25.0)] * 2,
        map_link=map_link,
        low_fuel=low_fuel,
    )

    for sent in (text, corrected(text)):
        lines = sent.splitlines()
        assert lines == sent.split("\n")
        assert len(lines) == low_fuel + 3 + 2 * 3 + 2
        assert max(map(len, lines)) <= LONGEST_LINE


WORDS = [
    Words(language, units)
    for language in Language
    for units in (US_UNITS, Units("CA", 1.4), Units("CA", None))
    if language is not Language.ENGLISH or units is not US_UNITS
]


@given(st.sampled_from(WORDS), NAMES, NAMES, NAMES, st.booleans(), st.floats(0, 3000))
def test_in_every_language_no_name_makes_a_line_too_long_or_adds_one(
    words: Words, route_name: str, station: str, town: str, is_cut: bool, off_road: float
) -> None:
    plan = {**PLAN, "stops": [{**stop, "name": station, "fillToPercent": 100} for stop in PLAN["stops"]]}
    text = compose(
        MESSAGE_ID,
        route_name,
        station,
        [JOLIET, {**NEWARK, "name": station}],
        plan,
        directions=[Directions(words.say("northeast"), town, off_road, (station,), Sign("I-80 E", "92"))] * 2,
        low_fuel=True,
        road_miles=3333 if is_cut else None,
        why=station,
        words=words,
    )

    link = with_link(text, "https://fuel.example/d/***")
    for sent in (text, corrected(text), link, corrected(link)):
        lines = sent.splitlines()
        assert lines == sent.split("\n")
        assert len(lines) == 4 + bool(station) + 2 * 4 + 1 + is_cut + 1 + (sent.count("/d/***"))
        assert max(map(len, lines)) <= LONGEST_LINE
        assert lines[-1] == "Message msg_00000000000000000000000000000001"
        assert lines[1].startswith((words.say(OPENING), words.say(OPENING_CORRECTED)))


@pytest.mark.parametrize("words", WORDS)
def test_a_correction_and_a_cut_speak_the_language_of_the_text(words: Words) -> None:
    low = compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], PLAN, low_fuel=True, words=words)
    first, rest = low.split("\n", 1)

    assert corrected(low) == f"{first}\n{words.say(OPENING_CORRECTED)}{rest.removeprefix(words.say(OPENING))}"
    assert corrected(corrected(low)) == corrected(low)
    shorter = fitted(corrected(low), len(corrected(low)) - 10).split("\n")
    cut = "Cut here, after fuel stop {count} of {stops}: the app takes no more. Ask dispatch for the others."
    assert shorter[-2] == words.say(cut, count=1, stops=2)


def test_a_message_in_french_to_a_driver_in_canada() -> None:
    words = Words(Language.FRENCH, Units("CA", 1.4))
    text = compose(
        MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], LEVELS, directions=[Directions(None, None)] * 2, words=words
    )

    assert text.splitlines()[:5] == [
        "Plan de carburant pour LOAD-7, camion 101",
        "Destination : Port Newark, km 1307",
        "Plan du ven. 20 nov. 04 h 00 HNC",
        "1. Lakeside Travel Plaza, 100 Exit Rd, Elkhart, IN",
        "Km 210 : remplir à 81 % (378,5 L) à 1,278 $ = 483,70 $. Ensuite : km 878",
    ]


def test_our_own_words_need_only_the_characters_of_plain_text_messages() -> None:
    assert compose(MESSAGE_ID, "L" * 300, "101", [JOLIET, NEWARK], PLAN, low_fuel=True).isascii()


def test_a_long_name_is_cut_before_a_short_address() -> None:
    stops = [{**PLAN["stops"][0], "name": "N" * 300, "address": "I-80 Exit 92, Elkhart, IN"}]
    line = compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], {**PLAN, "stops": stops}).splitlines()[3]

    assert line.endswith("NNN..., I-80 Exit 92, Elkhart, IN")
    assert len(line) == LONGEST_LINE


def test_a_name_on_the_driver_s_page_turns_no_text_behind_it() -> None:
    assert shortened("Pilot\u202e\nExit 92", 40) == "Pilot Exit 92"
    assert shortened("Pilot\u202e\nExit 92", 10) == "Pilot E..."


def test_a_stop_well_off_the_road_is_described_as_such() -> None:
    directions = [Directions("east", None, 6.8), Directions("east", None, 1.9)]
    text = compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], PLAN, directions=directions)

    assert "Mile 130, heading east, then 7 mi off the road: 100.0 gal" in text
    assert "Mile 546, heading east: 50.0 gal" in text


def test_a_known_road_and_exit_take_the_place_of_the_heading() -> None:
    directions = [
        Directions("east", "12 mi after Goshen, IN", sign=Sign("I-80 E", "92")),
        Directions("east", None, 6.8, sign=Sign("US-6")),
    ]
    text = compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], PLAN, directions=directions)

    assert "Mile 130, I-80 E, exit 92, 12 mi after Goshen, IN: 100.0 gal" in text
    assert "Mile 546, US-6, heading east, then 7 mi off the road: 50.0 gal" in text


def test_a_sign_for_which_the_line_has_no_room_is_left_out() -> None:
    town = "12 mi after " + "N" * 76
    directions = [Directions("east", town, sign=Sign("I-80 E", "92"))] * 2
    text = compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], PLAN, directions=directions)

    assert f"Mile 130, heading east, {town}: 100.0 gal" in text
    assert max(map(len, text.splitlines())) <= LONGEST_LINE


def test_a_map_link_may_be_the_phone_s_own() -> None:
    text = compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], PLAN, map_link=MapLink.GEO)

    assert "geo:41.70000,-86.00000?q=41.70000,-86.00000" in text.splitlines()
    assert "google" not in text


@given(st.text())
def test_a_name_stays_in_its_line(name: str) -> None:
    line = one_line(name)

    assert len(line.splitlines()) <= 1
    assert one_line(line) == line


def test_a_name_of_ordinary_text_stays_as_it_is() -> None:
    for name in ("PO <4711> & co", "Zürich Nord", "東京 ヤード", "a" * 200):
        assert one_line(name) == name


def test_a_plan_that_ends_before_the_destination_says_where() -> None:
    lines = compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], PLAN, road_miles=1400.4).splitlines()

    assert lines[1] == "To: Port Newark, mile 1400"
    assert lines[7].endswith("Next: the end of this plan, mile 812")
    assert lines[-2] == "This plan ends at mile 812 of 1400. Ask for the next one before you are there."
    without = compose(MESSAGE_ID, "LOAD-7", None, [JOLIET, NEWARK], {**PLAN, "stops": []}, road_miles=1400.4)
    assert "No fuel stop is needed up to mile 812: the fuel on board is enough." in without
    same = compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], PLAN, road_miles=PLAN["totalDistanceMiles"])
    assert same == compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], PLAN)


def test_a_company_may_leave_prices_and_costs_out() -> None:
    text = compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], LEVELS, tells_prices=False)

    assert "Mile 130, heading east, 12 mi after Goshen, IN: fill to 81 % (100.0 gal). Next: mile 546" in text
    assert "2 fuel stops, 150.0 gal\n" in text
    assert "$" not in text
