"""The figures of many drives, with 95 % intervals, and their table."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from rich.table import Table

from domain.roads.sphere import Array
from tests.benchmarks.truth.driver import LOW_PERCENT, Outcome
from tests.domain.planning.plans import usual_policy

Z = 1.96
BOOTSTRAPS = 2_000
SAME_PERCENT = 0.05
"""Percent of the tank: a purchase in tenths of a gallon ends so close to its limit."""

COLUMNS = (
    "world",
    "drives",
    "regret %",
    "as told, regret %",
    "$ a trip",
    "below reserve %",
    "below 10 %",
    "below 5 %",
    "dry %",
    f"told before {LOW_PERCENT:.0f} %",
    "messages",
)


def table_of(rows: Sequence[tuple[str, Sequence[Outcome]]]) -> Table:
    """A line for each world and checkout."""
    table = Table(*COLUMNS)
    for title, outcomes in rows:
        table.add_row(title, *cells(outcomes))
    return table


def line_of(title: str, outcomes: Sequence[Outcome]) -> str:
    """A line of the table in Markdown."""
    return f"| {' | '.join([title, *cells(outcomes)])} |"


def cells(outcomes: Sequence[Outcome]) -> list[str]:
    reserve = usual_policy().reserve_percent
    low = [one.low_told for one in outcomes if one.low_told is not None]
    return [
        str(len(outcomes)),
        *_regret(outcomes),
        _share(outcomes, lambda one: one.lowest_percent < reserve - SAME_PERCENT),
        _share(outcomes, lambda one: one.lowest_percent < 10),
        _share(outcomes, lambda one: one.lowest_percent < 5),
        _share(outcomes, lambda one: one.dry_mile is not None),
        f"{sum(low)} of {len(low)}",
        _mean([one.messages for one in outcomes]),
    ]


def wilson(count: int, of: int) -> tuple[float, float]:
    """The interval of a share (E. B. Wilson, 1927)."""
    share, spread = count / of, Z**2 / of
    middle = (share + spread / 2) / (1 + spread)
    half = Z * math.sqrt(share * (1 - share) / of + spread / of / 4) / (1 + spread)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def _share(outcomes: Sequence[Outcome], is_so: Callable[[Outcome], bool]) -> str:
    count = sum(map(is_so, outcomes))
    low, high = wilson(count, len(outcomes))
    return f"{100 * count / len(outcomes):.1f} ({100 * low:.1f} to {100 * high:.1f})"


def _mean(values: Sequence[float]) -> str:
    half = Z * float(np.std(values)) / math.sqrt(len(values))
    return f"{np.mean(values):.2f} ± {half:.2f}"


def _regret(outcomes: Sequence[Outcome]) -> list[str]:
    """Percent beyond the optimum of the drives that arrived, of those without a skipped or closed stop, and dollars."""
    arrived = [one for one in outcomes if one.dry_mile is None and one.optimum_dollars is not None]
    pairs = np.array([regret_of(one) for one in arrived])
    as_told = np.array([regret_of(one) for one in arrived if not one.hindered])
    return [_percent(pairs), _percent(as_told), f"{pairs[:, 0].mean():.2f}" if arrived else "-"]


def _percent(pairs: Array) -> str:
    """The ratio of the sums, by bootstrap."""
    if not len(pairs):
        return "-"
    drawn = np.random.default_rng(0).integers(len(pairs), size=(BOOTSTRAPS, len(pairs)))
    more, least = pairs[drawn].sum(axis=1).T
    low, high = np.percentile(100 * more / least, [2.5, 97.5])
    total, optimum = pairs.sum(axis=0)
    return f"{100 * total / optimum:.2f} ({low:.2f} to {high:.2f})"


def regret_of(outcome: Outcome) -> tuple[float, float]:
    """Dollars of the drive beyond the optimum, and of the optimum. Fuel left beyond the optimum's counts at its average
    price; fuel that is missing costs what the mean station of the road asks."""
    assert outcome.optimum_dollars is not None
    left = outcome.left_gallons - outcome.optimum_left_gallons
    worth = left * (outcome.fuel_price if left > 0 else outcome.mean_price)
    return outcome.dollars - worth - outcome.optimum_dollars, outcome.optimum_dollars


def outcomes_of(documents: Mapping[str, Sequence[Mapping[str, object]]]) -> dict[str, list[Outcome]]:
    return {name: [Outcome(**one) for one in drives] for name, drives in documents.items()}  # type: ignore[arg-type]
