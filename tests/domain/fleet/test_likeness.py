"""Candidates for a reference that fits nothing, and which of a route's references is to blame."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.fleet.api_lists import FleetRecord
from domain.fleet.likeness import Likeness, tidy
from domain.fleet.matching import MappingKind
from domain.ids import new_id

NAMES = ("Ann Lee", "Bo Diaz", "Maria Villanueva", "Annette Leeson")
UNITS = ("101", "102", "4101", "T-77")


def ranked(value: str, names: Sequence[str | None], kind: MappingKind) -> list[str]:
    records = [FleetRecord(new_id(), name, None, "") for name in names]
    return [candidate.record.name or "" for candidate in Likeness(records, kind).rank(value, limit=3)]


@pytest.mark.parametrize(
    ("value", "likely"),
    [
        ("LEE, ANN", "Ann Lee"),
        ("Maria Villanu", "Maria Villanueva"),
        ("ann  lee", "Ann Lee"),
        ("Bo Días", "Bo Diaz"),
        ("M. Villanueva", "Maria Villanueva"),
    ],
)
def test_names_in_another_order_or_case_come_first(value: str, likely: str) -> None:
    assert ranked(value, NAMES, "driver_name")[0] == likely


@pytest.mark.parametrize(
    ("value", "likely"), [("TRUCK-101", "101"), ("0102", "102"), ("t77", "T-77"), ("Unit 4101", "4101")]
)
def test_unit_numbers_within_the_reference_come_first(value: str, likely: str) -> None:
    assert ranked(value, UNITS, "unit_number")[0] == likely


@pytest.mark.parametrize(
    ("value", "likely"),
    [
        ("TRUCK 0417", "0417"),
        ("Truck #2017A", "2017"),
        ("Okafor 7, Christopher", "Christopher Okafor 7"),
        ("Cristopher  Okafr 7", "Christopher Okafor 7"),
        ("SANDHU HARPRET 12", "Harpreet Sandhu 12"),
    ],
)
def test_the_right_record_of_a_large_fleet_comes_first(value: str, likely: str) -> None:
    """Not every record is looked at closely."""
    people = product(("Christopher", "Harpreet", "Linda"), ("Okafor", "Sandhu", "Bielak"), range(300))
    names = [" ".join(map(str, one)) for one in people]
    units = [f"{number:04}" for number in range(5000)]
    if likely in units:
        assert ranked(value, units, "unit_number")[0] == likely
    else:
        assert ranked(value, names, "driver_name")[0] == likely


@pytest.mark.parametrize("value", ["0", "0" * 200, "1", "41", "T", "unit"])
def test_a_number_that_is_merely_contained_is_not_suggested(value: str) -> None:
    assert ranked(value, UNITS, "unit_number") == []
    assert ranked(value, [f"{number:04}" for number in range(4000, 5000)], "unit_number") == []
    assert ranked(value, [f"{number}" for number in range(90, 100)], "unit_number") == []
    assert ranked(value, [f"Unit {number}" for number in range(90, 100)], "unit_number") == []


@pytest.mark.parametrize(
    ("value", "likely", "percent"),
    [
        ("TRUCK-101", "101", 90),
        ("TRK0101", "101", 90),
        ("Truck #4101 spare", "4101", 90),
        ("77", "T-77", 90),
        ("4101 / 102", "4101", 77),
        ("0101", "101", 100),
    ],
)
def test_a_whole_number_in_the_reference_is_a_likeness(value: str, likely: str, percent: int) -> None:
    records = [FleetRecord(new_id(), name, None, "") for name in UNITS]
    first = Likeness(records, "unit_number").rank(value, limit=1)[0]
    assert (first.record.name, first.percent) == (likely, percent)


@pytest.mark.parametrize("value", ["e", "A", "nn", "illa", "Villan", "Maria"])
def test_letters_within_a_name_give_no_likeness_and_a_whole_word_gives_little(value: str) -> None:
    records = [FleetRecord(new_id(), name, None, "") for name in NAMES]
    for candidate in Likeness(records, "driver_name").rank(value, limit=3):
        assert value == "Maria", candidate
        assert (candidate.record.name, candidate.percent) == ("Maria Villanueva", 70)


def test_a_record_with_nothing_in_common_is_not_suggested() -> None:
    assert ranked("ZZZ", UNITS, "unit_number") == []
    assert ranked("", UNITS, "unit_number") == []
    assert ranked("---", [*UNITS, None, ""], "unit_number") == []


@given(st.text(max_size=40), st.lists(st.one_of(st.none(), st.text(max_size=40)), max_size=8))
def test_any_text_can_be_compared(value: str, names: list[str | None]) -> None:
    for kind in ("unit_number", "driver_name"):
        assert set(ranked(value, names, kind)) <= {name or "" for name in names}


@given(st.text(min_size=1, max_size=40))
def test_a_record_that_differs_only_in_case_spaces_and_signs_is_found(value: str) -> None:
    found = ranked(f" {value.upper()}-", [value], "unit_number")
    assert found == [value] or tidy(value) != tidy(f" {value.upper()}-") or not tidy(value)
