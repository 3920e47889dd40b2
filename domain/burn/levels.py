"""The burn of a truck, measured from its fuel levels over the miles that it drove.

No single level decides: trackers send 0, fuel sloshes, gauges show whole percents. Levels of a few miles together count
by their median, and a median that its neighbours contradict is left out. The level falls along a line, with one slope
for the whole way; the slope is the burn. So what a gauge always shows too much or too little cancels out.

A rise is a purchase, and the line begins anew behind it: how much was bought need not be known. A purchase whose
gallons are known is taken off the levels behind it instead, and the line goes on. A long silence ends a line too,
because a truck may have fueled in it; and so does a fall that no miles explain: another gauge, a night of idling, a
thief.

    mile 0: 80 %, mile 100: 72 %, mile 110: 95 %, mile 210: 87 %    with 200 gallons: 16 gallons in 100 miles
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK_MILES = 3.0
"""Levels of this many miles count once, by their median."""

OUTLIER_PERCENT = 5.0
"""A level this far, and by two usual steps more, from the median of itself and its four neighbours is wrong."""

NEIGHBOURS = 5

PURCHASE_PERCENT = 5.0
"""The smallest rise that is a purchase, from the median of three levels to that of the next three."""

LOWEST_MPG = 3.0
"""A fall counts as one that no miles explain if it is larger than a purchase beyond what they burn with this."""

ALIGNED_MILES = 15.0
"""A known purchase is looked for this far from its mile."""

LONGEST_GAP_MILES = 60.0
"""Longest way without a level in which no purchase can hide. A truck that always sends few levels has longer ones."""

LEAST_MILES = 50.0
LEAST_LEVELS = 6
"""Fewer miles or medians prove nothing."""

LEAST_NOISE_PERCENT = 0.5
"""Gauges show whole percents, so levels that follow a line exactly prove no more than this."""

NEXT_TO_NOTHING_PERCENT = 1.0
"""Highest level that counts as nothing, unless the tank was nearly empty before. Trackers without a gauge, or while
they start, send 0, and some send shares of 1, where 0.62 means 62 % and 1 a full tank."""

HIGHEST_PERCENT = 150.0
"""Highest level that counts. A gauge that is off shows somewhat more than a full tank. A higher number is no
percentage: 255 means that the tracker has no value, and 700 may be liters."""

NOT_AVAILABLE_PERCENT = (101.6, 102.0)
"""On the bus of a truck (J1939, 0.4 % a bit) 0xFE means an error, and 0xFF that there is no value."""

Numbers = NDArray[np.float64]


def is_percentage(percent: float) -> bool:
    """Tell if a reading may be a level at all."""
    return percent <= HIGHEST_PERCENT and round(percent, 1) not in NOT_AVAILABLE_PERCENT


def shows_level(percent: float | None) -> bool:
    """Tell if a reading shows a level by itself. A tracker that has none sends next to nothing, 255 or the like."""
    return percent is not None and percent > NEXT_TO_NOTHING_PERCENT and is_percentage(percent)


class LevelAtMile(NamedTuple):
    """A fuel level in percent of capacity, and the mile of the way at which the truck sent it."""

    at: datetime
    mile: float
    percent: float


class KnownPurchase(NamedTuple):
    """Gallons that are known exactly, as from a fuel card, and the mile of the way where they were bought."""

    mile: float
    gallons: float


@dataclass(frozen=True, slots=True)
class MeasuredBurn:
    """The fuel burned from `from_mile` on over `miles`, with one standard deviation by the noise of the gauge."""

    from_mile: float
    miles: float
    gallons: float
    spread_gallons: float
    noise_percent: float
    """One standard deviation of a level from its line."""
    levels: int
    """The number of medians that it was measured from."""

    @property
    def mpg(self) -> float:
        return self.miles / self.gallons

    @property
    def gallons_per_mile(self) -> float:
        return self.gallons / self.miles

    @property
    def spread_share(self) -> float:
        """The standard deviation as a share of the burn."""
        return self.spread_gallons / self.gallons


def measure_burn(
    levels: Sequence[LevelAtMile], *, capacity_gallons: float, bought: Sequence[KnownPurchase] = ()
) -> MeasuredBurn | None:
    """The burn that these levels show, in order of time; None where they prove none. A mile of the way may come back
    only as noise of fixes: the way leads on."""
    return burn_of_steady(*steady_levels(levels), capacity_gallons=capacity_gallons, bought=bought)


def burn_of_steady(
    miles: Numbers, percents: Numbers, *, capacity_gallons: float, bought: Sequence[KnownPurchase] = ()
) -> MeasuredBurn | None:
    """The burn that the medians of `steady_levels` show; None where they prove none."""
    if len(miles) < LEAST_LEVELS:
        return None
    percents = _without_purchases(miles, percents, bought, capacity_gallons)
    lines = _lines(miles, percents, most_percent_per_mile=100 / LOWEST_MPG / capacity_gallons)
    across, down, driven = (np.concatenate(parts) for parts in zip(*map(_centered, lines), strict=True))
    spread_of_miles, degrees = float(across @ across), len(across) - len(lines) - 1
    if driven.sum() < LEAST_MILES or degrees < LEAST_LEVELS - 2:
        return None
    slope = -float(across @ down) / spread_of_miles
    if slope <= 0:
        return None
    noise = max(float(np.sqrt(np.sum((down + slope * across) ** 2) / degrees)), LEAST_NOISE_PERCENT)
    way, gallons_a_percent = float(miles[-1] - miles[0]), capacity_gallons / 100
    return MeasuredBurn(
        from_mile=float(miles[0]),
        miles=way,
        gallons=slope * way * gallons_a_percent,
        spread_gallons=noise / spread_of_miles**0.5 * way * gallons_a_percent,
        noise_percent=noise,
        levels=len(miles),
    )


def steady_levels(levels: Sequence[LevelAtMile]) -> tuple[Numbers, Numbers]:
    """Miles and percents of the medians that count, in the order of the way."""
    blocks = _blocks(_without_nothing([one for one in levels if is_percentage(one.percent)]))
    medians = [_middle(block) for block in blocks]
    miles = np.array([mile for mile, _ in medians], dtype=np.float64)
    percents = np.array([percent for _, percent in medians], dtype=np.float64)
    step = _median(np.abs(np.diff(percents))) if len(percents) > 1 else 0.0
    agrees = np.abs(percents - _neighbours(percents)) <= OUTLIER_PERCENT + 2 * step
    counts = agrees & _shows_something(percents)
    return np.maximum.accumulate(miles[counts]), percents[counts]


def _without_nothing(levels: Sequence[LevelAtMile]) -> list[LevelAtMile]:
    """The levels without those next to 0 that follow one well above it: a second tracker that has no gauge sends 0 as
    often as the first one sends its level, so half of a block may be zeros."""
    kept, last = list[LevelAtMile](), 100.0
    for one in levels:
        is_something = one.percent > NEXT_TO_NOTHING_PERCENT
        if is_something or last <= NEXT_TO_NOTHING_PERCENT + OUTLIER_PERCENT:
            kept.append(one)
        last = one.percent if is_something else last
    return kept


def _middle(block: Sequence[LevelAtMile]) -> tuple[float, float]:
    """The median mile, and the median percent. Most blocks have one level."""
    if len(block) == 1:
        return block[0].mile, block[0].percent
    return median(one.mile for one in block), median(one.percent for one in block)


def _blocks(levels: Sequence[LevelAtMile]) -> list[list[LevelAtMile]]:
    """The levels in blocks of a few miles. A new block begins at each rise, too."""
    blocks: list[list[LevelAtMile]] = []
    for one in levels:
        last = blocks[-1][-1] if blocks else None
        if (
            last is None
            or one.mile // BLOCK_MILES != last.mile // BLOCK_MILES
            or one.percent - last.percent >= PURCHASE_PERCENT
        ):
            blocks.append([])
        blocks[-1].append(one)
    return blocks


def steady_lines(levels: Sequence[LevelAtMile]) -> list[tuple[Numbers, Numbers]]:
    """Miles and percents of the medians that count, divided at purchases and at long silences."""
    miles, percents = steady_levels(levels)
    return _lines(miles, percents) if len(miles) > 1 else []


def _shows_something(percents: Numbers) -> NDArray[np.bool_]:
    """A level of next to nothing counts only behind a low one."""
    before = np.concatenate(([100.0], percents[:-1]))
    return (percents > NEXT_TO_NOTHING_PERCENT) | (
        (before > NEXT_TO_NOTHING_PERCENT) & (before <= NEXT_TO_NOTHING_PERCENT + OUTLIER_PERCENT)
    )


def _neighbours(percents: Numbers) -> Numbers:
    """The median of each level with the two before and the two behind it; at the ends that of five as well."""
    if len(percents) < NEIGHBOURS:
        return np.full(len(percents), _median(percents) if len(percents) else 0.0)
    windows, middle = len(percents) - NEIGHBOURS + 1, NEIGHBOURS // 2
    medians = np.sort([percents[first : first + windows] for first in range(NEIGHBOURS)], axis=0)[middle]
    return np.concatenate((medians[:1].repeat(middle), medians, medians[-1:].repeat(middle)))


def _median(numbers: Numbers) -> float:
    """The median, as `np.median` has it, which takes ten times as long for a few numbers."""
    ordered, middle = np.sort(numbers), len(numbers) // 2
    return float(ordered[middle] if len(numbers) % 2 else (ordered[middle - 1] + ordered[middle]) / 2)


def _rises(percents: Numbers) -> Numbers:
    """The rise before each level but the first: the median of three levels from there on less that of three before."""
    padded = np.concatenate((percents[:1], percents[:1], percents, percents[-1:], percents[-1:]))
    one, two, three = padded[:-2], padded[1:-1], padded[2:]
    medians = np.maximum(np.minimum(one, two), np.minimum(np.maximum(one, two), three))
    return np.asarray(medians[3:] - medians[: len(percents) - 1], dtype=np.float64)


def _without_purchases(
    miles: Numbers, percents: Numbers, bought: Sequence[KnownPurchase], capacity_gallons: float
) -> Numbers:
    """The levels less the known gallons bought before them. A purchase that the gauge shows less than half of went
    elsewhere, into a cooler or another truck."""
    less = percents.copy()
    for purchase in bought:
        percent = 100 * purchase.gallons / capacity_gallons
        is_near = np.abs(miles[1:] - purchase.mile) <= ALIGNED_MILES
        found = np.flatnonzero(is_near & (_rises(less) >= percent / 2))
        if len(found):
            less[found[np.diff(less)[found].argmax()] + 1 :] -= percent
    return less


def _lines(miles: Numbers, percents: Numbers, most_percent_per_mile: float = math.inf) -> list[tuple[Numbers, Numbers]]:
    """The levels divided at purchases, at long silences, and where they fall by more than any miles burn."""
    gaps = np.diff(miles)
    silent = gaps > max(LONGEST_GAP_MILES, 4 * _median(gaps))
    divided = _begins_anew(percents) | silent
    if math.isfinite(most_percent_per_mile):
        divided |= _begins_anew(-percents - most_percent_per_mile * miles)
    ends = [0, *(np.flatnonzero(divided) + 1).tolist(), len(miles)]
    return [(miles[begin:end], percents[begin:end]) for begin, end in pairwise(ends)]


def _begins_anew(percents: Numbers) -> NDArray[np.bool_]:
    """True for the steepest step of each rise, and for all that are as large as a purchase: a tank fills slowly."""
    steps = np.diff(percents)
    found = np.zeros(len(steps), dtype=np.bool_)
    for at in np.flatnonzero(_rises(percents) >= PURCHASE_PERCENT):
        near = slice(max(at - 2, 0), at + 3)
        found[near] |= steps[near] >= min(PURCHASE_PERCENT, steps[near].max())
    return found


def _centered(line: tuple[Numbers, Numbers]) -> tuple[Numbers, Numbers, Numbers]:
    """The miles and the percents of a line, each less its mean, and the miles that the line covers."""
    miles, percents = line
    return miles - miles.mean(), percents - percents.mean(), miles[-1:] - miles[:1]
