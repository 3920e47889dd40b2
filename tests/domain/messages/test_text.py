"""The text of a message to a driver (decision 20)."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.messages.text import compose, one_line
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
