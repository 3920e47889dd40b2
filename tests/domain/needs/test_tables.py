"""The tables of needs are whole."""

from pathlib import Path

from domain.needs import operator_needs
from domain.needs.company_needs import COMPANY_NEEDS
from domain.needs.need import Need
from domain.needs.operator_needs import OPERATOR_NEEDS


def test_operators_can_be_told_of_each_need_that_a_rule_finds() -> None:
    declared = [one for one in vars(operator_needs).values() if isinstance(one, Need)]

    assert [need for need in declared if need not in OPERATOR_NEEDS] == []


def test_two_needs_have_two_kinds() -> None:
    for needs in (OPERATOR_NEEDS, COMPANY_NEEDS):
        assert len({need.kind for need in needs}) == len(needs)


def test_the_readme_says_why_a_company_is_told_of_each_kind() -> None:
    readme = Path(operator_needs.__file__).with_name("README.md").read_text()

    assert [need.kind for need in COMPANY_NEEDS if f"`{need.kind}`" not in readme] == []
