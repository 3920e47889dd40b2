"""Whole plans with everything in play at once agree with the oracle. `fuelroute bench plan` compares 500 of them."""

import pytest

from tests.benchmarks.exact import difference, everything, rules_in_play

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("block", range(4))
def test_whole_plans_equal_the_exact_solution(block: int) -> None:
    found = {seed: difference(everything(seed)[0]) for seed in range(1000 + block * 25, 1000 + block * 25 + 25)}
    assert {seed: what for seed, what in found.items() if what is not None} == {}


def test_the_random_plans_cover_every_rule() -> None:
    assert min(rules_in_play(range(1000, 1100)).values()) >= 3
