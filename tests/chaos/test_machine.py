"""A short run of the random machine: each kind of fault once, under load. `python -m tests.chaos` runs it for long."""

import pytest

from tests.chaos.faults import FAULTS
from tests.chaos.machine import QUICK, Plan, run

pytestmark = pytest.mark.servers


def test_no_kind_of_fault_loses_doubles_or_strands_a_route() -> None:
    plan = Plan("22", faults=len(FAULTS), pushes=500, together=5, longest_hold_seconds=1.5, settings=QUICK)

    outcome = run(plan)

    assert outcome.violations == [], outcome.logs
    assert set(outcome.faults) | set(outcome.skipped) == {fault.name for fault in FAULTS}
    assert outcome.pushes >= plan.pushes
    assert outcome.messages["sent"] > 0
