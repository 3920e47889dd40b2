"""The fuel levels of a completed trip over its miles: made from the truck's fixes, and packed for later.

Positions are deleted long before the last fuel card's file has come, and a tank may be corrected years later. So the
levels of each trip are kept, a few bytes each, and its burn can be measured again at any time.
"""

import zlib
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from domain.burn.levels import KnownPurchase, LevelAtMile
from domain.roads import Point, great_circle_miles
from domain.roads.packing import pack_integers, unpack_integers

_LONGEST_GAP_MILES = 30.0
"""Longest gap between fixes over which the truck's way counts as known. A longer one divides the trip in two parts."""

MOST_LEVELS = 800
"""Most levels that are kept of a trip, about 2 KB: one every 2.5 miles on the longest usual one."""

_STANDING_MILES = 0.1
"""Fixes nearer than this to the one before are of a standing truck."""

LONGER_PERCENT_PER_MILE, _LONGEST_STEP_MILES = 1.0, 10.0
"""A road is longer than the straight lines between fixes, by at most this much for each mile between two fixes."""

_PER_MILE, _PER_PERCENT = 100, 10


class LevelFix(NamedTuple):
    """A fix of the truck, with its fuel level if it has one."""

    place: Point
    at: datetime
    percent: float | None


LevelParts = Sequence[Sequence[LevelAtMile]]
"""The levels of each part of a trip whose way is known. Miles count on from part to part."""


def levels_of(fixes: Sequence[LevelFix], *, road_miles: float | None) -> LevelParts:
    """The levels over the miles of the fixes' way. `road_miles` is the length of the whole road as it was planned,
    which corrects the way where the truck took about that road."""
    steps = list(_steps([fix.place for fix in fixes]))
    longer = _longer([step for step in steps if step], road_miles)
    parts: list[list[LevelAtMile]] = [[]]
    mile = 0.0
    for fix, step in zip(fixes, steps, strict=True):
        if step > _LONGEST_GAP_MILES:
            parts.append([])
        mile += step * longer
        if fix.percent is not None:
            parts[-1].append(LevelAtMile(fix.at, mile, fix.percent))
    return _thinned([part for part in parts if part])


def _steps(places: Sequence[Point]) -> Iterator[float]:
    """The miles to each fix from the last one that was driven to: 0 while the truck stands, whose fixes wander."""
    stood = places[0] if places else None
    for place in places:
        miles = great_circle_miles(stood, place) if stood is not None else 0.0
        stood = place if miles >= _STANDING_MILES else stood
        yield miles if miles >= _STANDING_MILES else 0.0


def _longer(steps: Sequence[float], road_miles: float | None) -> float:
    """The factor from the straight lines between fixes to the road; 1 where the truck took another road, or where a
    part of its way is not known."""
    if road_miles is None or not steps or max(steps) > _LONGEST_GAP_MILES:
        return 1.0
    factor = road_miles / sum(steps)
    mean = min(sum(steps) / len(steps), _LONGEST_STEP_MILES)
    return factor if 1.0 <= factor <= 1 + mean * LONGER_PERCENT_PER_MILE / 100 else 1.0


def _thinned(parts: LevelParts) -> LevelParts:
    every = -(-sum(map(len, parts)) // MOST_LEVELS)
    return [part[::every] for part in parts] if every > 1 else parts


def pack_levels(parts: LevelParts, since: datetime) -> bytes:
    rows = [
        (
            number,
            round((one.at - since).total_seconds()),
            round(one.mile * _PER_MILE),
            round(one.percent * _PER_PERCENT),
        )
        for number, part in enumerate(parts)
        for one in part
    ]
    if not rows:
        return b""
    deltas = np.diff(np.array(rows, dtype=np.int64).T, prepend=0)
    return zlib.compress(pack_integers(deltas).tobytes())


def unpack_levels(stored: bytes, since: datetime) -> LevelParts:
    if not stored:
        return []
    numbers = unpack_integers(np.frombuffer(zlib.decompress(stored), dtype=np.uint8).reshape(4, -1))
    parts: dict[int, list[LevelAtMile]] = {}
    for number, seconds, mile, percent in np.cumsum(numbers.reshape(4, -1).astype(np.int64), axis=1).T.tolist():
        at = since + timedelta(seconds=seconds)
        parts.setdefault(number, []).append(LevelAtMile(at, mile / _PER_MILE, percent / _PER_PERCENT))
    return list(parts.values())


class CardFuel(NamedTuple):
    """Gallons of tractor fuel by a fuel card, and when the card says that they were bought."""

    at: datetime
    gallons: float


_ONE_STOP = timedelta(minutes=30)


def one_purchase_a_stop(bought: Sequence[CardFuel]) -> list[CardFuel]:
    """Purchases within half an hour are one: both tanks of a truck, or a pump that ended at a limit."""
    found: list[CardFuel] = []
    for one in sorted(bought):
        if found and one.at - found[-1].at <= _ONE_STOP:
            found[-1] = CardFuel(found[-1].at, found[-1].gallons + one.gallons)
        else:
            found.append(one)
    return found


def at_miles(bought: Sequence[CardFuel], levels: Sequence[LevelAtMile]) -> Iterator[KnownPurchase]:
    """The mile of each purchase that falls between two levels."""
    seconds = [one.at.timestamp() for one in levels]
    for purchase in bought:
        if seconds[0] <= purchase.at.timestamp() <= seconds[-1]:
            mile = np.interp(purchase.at.timestamp(), seconds, [one.mile for one in levels])
            yield KnownPurchase(float(mile), purchase.gallons)
