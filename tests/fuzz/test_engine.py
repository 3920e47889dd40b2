"""A finding is as small as it can be, and can be repeated."""

from typing import Any

import pytest
from hypothesis import strategies as st

from tests.fuzz.__main__ import report
from tests.fuzz.engine import BLOCK, MOST_FINDINGS, Fault, Part, run_part


class Numbers(Part):
    """Numbers, of which some are wrong."""

    name = "numbers"

    def __init__(self, least_wrong: int) -> None:
        super().__init__()
        self.checked: list[int] = []
        self._least_wrong = least_wrong

    def cases(self) -> st.SearchStrategy[int]:
        return st.integers(0, 10**6)

    def check(self, case: Any) -> None:
        self.checked.append(case)
        if case >= self._least_wrong:
            raise Fault(f"{case} is too much")


def test_a_finding_is_the_smallest_case_with_the_seed_of_its_block() -> None:
    outcome = run_part(Numbers(5_000), seed=40, cases=2 * BLOCK)

    assert [(one.seed, one.cases, one.case) for one in outcome.findings] == [(40, BLOCK, "5000"), (41, BLOCK, "5000")]
    assert "5000 is too much" in str(outcome.findings[1])
    assert str(outcome.findings[1]).endswith(f"python -m tests.fuzz --only numbers --seed 41 --cases {BLOCK}")


def test_a_seed_repeats_its_cases() -> None:
    first, second, other = (Numbers(10**9) for _ in range(3))
    for part, seed in ((first, 3), (second, 3), (other, 4)):
        assert run_part(part, seed=seed, cases=60).findings == []

    assert first.checked == second.checked != other.checked


def test_a_part_ends_after_many_findings() -> None:
    outcome = run_part(Numbers(0), seed=0, cases=BLOCK * (MOST_FINDINGS + 5))

    assert len(outcome.findings) == MOST_FINDINGS


def test_a_part_that_is_stopped_by_hand_reports_what_it_has_done() -> None:
    part = Numbers(10**9)

    def stop() -> None:
        if len(part.checked) == 25:
            raise KeyboardInterrupt

    outcome = run_part(part, seed=0, cases=BLOCK, advance=stop)
    assert outcome.cases == 26
    assert outcome.counts["stopped by hand"] == 1


def test_what_goes_wrong_beside_the_answers_is_a_finding_too() -> None:
    def after() -> None:
        raise Fault("a worker failed")

    (finding,) = run_part(Numbers(10**9), seed=0, cases=10, after=after).findings
    assert (finding.case, finding.fault) == ("(no single one)", "a worker failed")


def test_the_exit_status_tells_whether_something_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    report([run_part(Numbers(10**9), seed=0, cases=10)], 1.0)
    assert "10 cases in 1 s: 0 findings" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="1"):
        report([run_part(Numbers(0), seed=0, cases=10)], 1.0)
