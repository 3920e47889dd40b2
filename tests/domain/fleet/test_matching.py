"""The rules of matching: which references lead to one record, and what the hold reason says (decisions 1 and 2)."""

from collections.abc import Sequence
from uuid import UUID

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.fleet.matching import GivenReference, unclear_references, why_unclear

A, B, C = (UUID(int=number) for number in range(1, 4))
candidates = st.lists(st.sampled_from([A, B, C]), max_size=2, unique=True)
references = st.lists(
    st.builds(GivenReference, st.sampled_from(["unit number", "VIN"]), st.text(max_size=5), candidates),
    min_size=1,
    max_size=2,
)


@hypothesis_settings(deadline=None)
@given(references)
def test_references_are_clear_only_if_each_leads_to_the_same_one_record(
    given_references: Sequence[GivenReference],
) -> None:
    records = {tuple(reference.candidates) for reference in given_references}
    agreed = len(records) == 1 and len(records.pop()) == 1

    unclear = unclear_references(given_references)

    assert (unclear == []) is agreed
    assert agreed or why_unclear("vehicle", unclear)


def test_the_detail_names_the_reference_that_failed_and_what_to_do() -> None:
    unknown = why_unclear("vehicle", [GivenReference("VIN", "1XK", [])])
    ambiguous = why_unclear("driver", [GivenReference("name", "Ann Lee", [A, B])])
    different = why_unclear(
        "driver", [GivenReference("name", "Ann Lee", [A]), GivenReference("external id", "D-2", [B])]
    )

    assert "the VIN '1XK'" in unknown
    assert "map it in the vehicle matching screen" in unknown
    assert "'Ann Lee' fits more than one driver" in ambiguous
    assert "The name 'Ann Lee' and the external id 'D-2' lead to different drivers" in different
