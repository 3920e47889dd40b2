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


@pytest.mark.slow
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


def likely(value: str, names: Sequence[str], kind: MappingKind = "unit_number") -> list[str]:
    """The records that one click may map the value to."""
    records = [FleetRecord(new_id(), name, name, "") for name in names]
    ranked = Likeness(records, kind).rank(value, limit=3)
    assert [one.is_likely for one in ranked].count(True) <= 1
    return [one.record.name or "" for one in ranked if one.is_likely]


@pytest.mark.parametrize(
    ("value", "names", "likely_one"),
    [
        ("TRK 4101", "4101 4102", "4101"),
        ("trk04101", "4101 4102", "4101"),
        ("Unit #4101", "4101", "4101"),
        ("T77", "T-77", "T-77"),
        ("77", "T-77", "T-77"),
        ("TRUCK T-77", "T-77 77", "T-77"),
        ("TRK-0", "0 4101", "0"),
    ],
)
def test_a_unit_number_with_other_words_before_it_is_likely(value: str, names: str, likely_one: str) -> None:
    assert likely(value, names.split()) == [likely_one]


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("0", "4101 4102 4103"),
        ("4104", "4101 4102 4103"),
        ("41O1", "4101"),  # a letter O: perhaps, so a person confirms it
        ("4101A", "4101"),  # a letter behind the number makes another truck of it
        ("4101 / 4102", "4101 4102"),
        ("77", "T-77 R-77"),
        ("T-77", "R-77"),
        ("101-A", "A-101"),
        ("00101", "101 0101"),
    ],
)
def test_a_unit_number_that_only_resembles_another_is_not_likely(value: str, names: str) -> None:
    assert likely(value, names.split()) == []


def test_a_name_is_likely_when_its_words_are_the_same() -> None:
    assert likely("LEE, ANN", NAMES, "driver_name") == ["Ann Lee"]
    assert likely("José  Núñez", ["Nunez, Jose"], "driver_name") == ["Nunez, Jose"]
    for value in ("Ann", "M. Villanueva", "Maria Villanu", "Ann M Lee"):
        assert likely(value, NAMES, "driver_name") == []
    assert likely("Ann Lee", ["Lee, Ann", "ann lee"], "driver_name") == []


def test_an_id_is_likely_when_only_case_and_signs_differ() -> None:
    vins = ["1XKAD49X0CJ000101", "1XKAD49X0CJ000102"]
    assert likely(vins[0].lower(), vins, "vin") == [vins[0]]
    assert likely(vins[0][:-1] + "3", vins, "vin") == []
    assert likely("d_17", ["D-17", "D-71"], "driver_external_id") == ["D-17"]
    assert likely("emp 17", ["17"], "driver_external_id") == []


@given(
    st.integers(1, 10**6),
    st.integers(0, 3),
    st.sampled_from(["", "T", "TRK ", "Unit #", "truck-", "ÉQ "]),
    st.sampled_from(["", " ", "  ", "-", "."]),
)
def test_spaces_leading_zeros_and_words_before_a_number_change_nothing(
    number: int, zeros: int, before: str, after: str
) -> None:
    written, fleet = f"{before}{'0' * zeros}{number}{after}", [str(number), str(number + 1), f"{number}0"]
    assert likely(written, fleet) == [str(number)]
    assert likely(str(number), [written, f"{number}0"]) == [written]


@given(st.integers(0, 10**6), st.lists(st.integers(0, 10**6), unique=True, max_size=8))
def test_another_number_is_never_likely(number: int, others: list[int]) -> None:
    assert likely(str(number), [f"T-{other}" for other in others if other != number]) == []


@given(st.text(max_size=40), st.lists(st.one_of(st.none(), st.text(max_size=40)), max_size=8))
def test_any_text_can_be_compared(value: str, names: list[str | None]) -> None:
    for kind in ("unit_number", "driver_name"):
        assert set(ranked(value, names, kind)) <= {name or "" for name in names}


@given(st.text(min_size=1, max_size=40))
def test_a_record_that_differs_only_in_case_spaces_and_signs_is_found(value: str) -> None:
    found = ranked(f" {value.upper()}-", [value], "unit_number")
    assert found == [value] or tidy(value) != tidy(f" {value.upper()}-") or not tidy(value)
