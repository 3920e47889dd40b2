"""References that differ from the fleet's names in the same way."""

from collections.abc import Sequence

from domain.fleet.api_lists import FleetRecord
from domain.fleet.likeness import Likeness
from domain.fleet.matching import MappingKind
from domain.fleet.shared_spellings import Spelling, shared_spellings
from domain.ids import new_id


def shared(
    values: Sequence[str], names: Sequence[str], kind: MappingKind = "unit_number"
) -> dict[str | None, list[str]]:
    records = [FleetRecord(new_id(), name, None, "") for name in names]
    found = shared_spellings(values, kind, Likeness(records, kind))
    assert set(found) == {Spelling(kind, spelling.before) for spelling in found}
    return {spelling.before: [f"{one.value} is {one.record.name}" for one in them] for spelling, them in found.items()}


def test_what_stands_before_the_unit_numbers_is_what_they_share() -> None:
    values = ["TRK 4101", "T-4102", "TRK 4103", "TRK 9", "T-4101", "TRK 4102", "4101A", "trk 4101", "0"]
    assert shared(values, ["4101", "4102", "4103"]) == {
        "TRK ": ["TRK 4101 is 4101", "TRK 4103 is 4103", "TRK 4102 is 4102"],
        "T-": ["T-4102 is 4102", "T-4101 is 4101"],
    }


def test_other_ways_of_writing_are_one_group() -> None:
    assert shared(["4102.", "77", "004101", "004102"], ["4101", "4102", "T-77"]) == {
        None: ["4102. is 4102", "77 is T-77"],
        "00": ["004101 is 4101", "004102 is 4102"],
    }
    assert shared(["LEE, ANN", "diaz bo", "Cy"], ["Ann Lee", "Bo Diaz"], "driver_name") == {
        None: ["LEE, ANN is Ann Lee", "diaz bo is Bo Diaz"]
    }


def test_one_reference_alone_and_one_that_fits_two_records_are_no_group() -> None:
    assert shared(["TRK 4101", "TRK 4101"], ["4101"]) == {}
    assert shared(["77", "78"], ["T-77", "R-77", "T-78", "R-78"]) == {}
