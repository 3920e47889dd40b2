"""The text of a message to a driver (decision 20)."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.messages.text import compose, corrected, one_line
from tests.factories import JOLIET, NEWARK, PLAN

MESSAGE_ID = UUID(int=1)


def test_the_text_names_every_fuel_stop_in_driving_order() -> None:
    lines = compose(MESSAGE_ID, "LOAD-7", "101", [JOLIET, NEWARK], PLAN).splitlines()

    assert lines == [
        "Fuel plan for LOAD-7, truck 101",
        "To: Port Newark",
        "1. Lakeside Travel Plaza, 100 Exit Rd, Elkhart, IN: mile 130, 100.0 gal at $3.455 = $345.50",
        "2. Keystone Fuel: mile 546, 50.0 gal at $3.500 = $175.00",
        "2 fuel stops, 150.0 gal, $520.50",
        "Message msg_00000000000000000000000000000001",
    ]


def test_a_plan_without_stops_says_so() -> None:
    text = compose(MESSAGE_ID, "LOAD-7", None, [JOLIET, NEWARK], {**PLAN, "stops": []})

    assert text.splitlines()[0] == "Fuel plan for LOAD-7"
    assert "No fuel stop is needed" in text


def test_a_driver_who_is_low_on_fuel_reads_so_first_and_what_to_do() -> None:
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

    text = compose(MESSAGE_ID, forged, forged, [JOLIET, {**NEWARK, "name": forged}], {**PLAN, "stops": [station]})

    assert [line.split(" ")[0] for line in text.splitlines()] == ["Fuel", "To:", "1.", "1", "Message"]
    assert not any(control in text for control in "\r\x0b\x0c\x1b\x1c\x85\u2028\u202e")


@given(st.text())
def test_a_name_stays_in_its_line_and_in_bounds(name: str) -> None:
    line = one_line(name)

    assert len(line.splitlines()) <= 1
    assert len(line) <= 200
    assert one_line(line) == line


def test_a_name_of_ordinary_text_stays_as_it_is() -> None:
    for name in ("PO <4711> & co", "Zürich Nord", "東京 ヤード", "a" * 200):
        assert one_line(name) == name
