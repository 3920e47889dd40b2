"""The lesson of completed trips for one truck: the trips that are believed, and the mileage that they agree on.

Newer trips count more. One trip proves nothing, and a trip whose gauge stuck, or that drove twice what trucks drive
with a gallon, counts nowhere; it is kept with the reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from domain.burn.figures import PROVEN_TRIPS, BurnTrip, LearnedFigure
from domain.burn.levels import LevelAtMile, MeasuredBurn, Numbers, measure_burn, steady_lines
from domain.burn.trip_levels import CardFuel, LevelParts, at_miles

HALF_LIFE = timedelta(days=60)
"""A trip that is this much older than the newest one counts half."""

MOST_TRIPS = 30
"""Most trips that count, the newest."""

LEAST_TRIP_MILES = 100.0

MOST_SPREAD_SHARE = 0.12
"""Largest standard deviation of a trip's burn, by the noise of its gauge, with which the trip counts."""

STILL_PERCENT, _LEAST_SHARE_FALLEN = 10.0, 0.25
"""A gauge stands still that shows less than a quarter of so much burned."""

MOST_FALL_PERCENT = 10.0
"""Most of the tank by which a level may fall at once beyond what burned there. More is a gauge, or a thief."""

_NEAR_LEVELS = 4

MOST_TIMES_A_FIGURE = 2.0
"""A trip that drove more than twice, or less than half, of every figure known before is not believed."""

FARTHEST_FROM_OTHERS = 0.25
"""Largest distance of a trip's mileage from the truck's median, as a share of it, with which the trip counts."""

LEAST_SPREAD_PERCENT = 2.0
"""Trips that agree closer than this agree by chance."""

TripDoubt = Literal["levels", "short", "noise", "gauge", "mileage", "overlap", "others"]

DOUBTS_IN_WORDS: dict[str, str] = {
    "levels": "its fuel levels show no burn",
    "short": f"fewer than {LEAST_TRIP_MILES:.0f} miles with levels",
    "noise": "its levels scatter too much",
    "gauge": "its gauge stood still while fuel must have burned, or fell at once",
    "mileage": "no truck like it drives so far, or so little, with a gallon",
    "overlap": "another trip of the truck was on the same miles",
    "others": "far from the truck's other trips",
}
"""The reasons why a trip is not believed, in words that follow "not believed:"."""


@dataclass(frozen=True, slots=True)
class TripBurn:
    """The burn of one completed trip. `by_card`: the gallons of fuel cards took part. `doubt` is why it does not count,
    None where it does."""

    route_id: UUID
    started_at: datetime
    ended_at: datetime
    miles: float = 0.0
    gallons: float = 0.0
    spread_gallons: float = 0.0
    by_card: bool = False
    doubt: TripDoubt | None = None

    @property
    def mpg(self) -> float:
        return self.miles / self.gallons


def measure_trip(
    trip: TripBurn,
    parts: LevelParts,
    bought: Sequence[CardFuel],
    *,
    capacity_gallons: float,
    known_mpg: Sequence[float],
) -> TripBurn:
    """The trip with its burn, or with the doubt against it. `known_mpg` are the figures known before: of the truck's
    record, of its company's trucks, or the default."""
    measured, by_card = [], False
    for levels in parts:
        known = list(at_miles(bought, levels))
        burn = measure_burn(levels, capacity_gallons=capacity_gallons, bought=known)
        if burn is not None:
            measured.append((burn, levels))
            by_card |= bool(known)
    if not measured:
        return replace(trip, doubt="levels")
    burns = [burn for burn, _ in measured]
    is_odd = any(_is_odd(burn, levels, capacity_gallons) for burn, levels in measured)
    found = replace(
        trip,
        miles=sum(burn.miles for burn in burns),
        gallons=sum(burn.gallons for burn in burns),
        spread_gallons=sum(burn.spread_gallons**2 for burn in burns) ** 0.5,
        by_card=by_card,
    )
    return replace(found, doubt=_doubt(found, known_mpg, is_odd=is_odd))


def _doubt(trip: TripBurn, known_mpg: Sequence[float], *, is_odd: bool) -> TripDoubt | None:
    if trip.miles < LEAST_TRIP_MILES:
        return "short"
    if not any(mpg / MOST_TIMES_A_FIGURE <= trip.mpg <= mpg * MOST_TIMES_A_FIGURE for mpg in known_mpg):
        return "mileage"
    if is_odd:
        return "gauge"
    return "noise" if trip.spread_gallons > MOST_SPREAD_SHARE * trip.gallons else None


def _is_odd(burn: MeasuredBurn, levels: Sequence[LevelAtMile], capacity_gallons: float) -> bool:
    """True if the gauge stood still on miles that burned much, or fell at once by what takes many miles."""
    percent_per_mile = 100 * burn.gallons_per_mile / capacity_gallons
    lines = [(miles * percent_per_mile, _smooth(percents)) for miles, percents in steady_lines(levels)]
    return any(_stands_still(due, percents) or _falls_at_once(due, percents) for due, percents in lines)


def _smooth(percents: Numbers) -> Numbers:
    """The median of each level with the one before and the one behind it."""
    padded = np.concatenate((percents[:1], percents, percents[-1:]))
    return np.asarray(np.median(sliding_window_view(padded, 3), axis=1), dtype=np.float64)


def _stands_still(due: Numbers, percents: Numbers) -> bool:
    """True if the level fell by much less than what was due. `due` is the percent burned so far, by the whole trip's
    burn."""
    ends = np.searchsorted(due, due + STILL_PERCENT)
    begins = np.flatnonzero(ends < len(due))
    ends = ends[begins]
    fallen = percents[begins] - percents[ends]
    return bool(np.any(fallen < (due[ends] - due[begins]) * _LEAST_SHARE_FALLEN))


def _falls_at_once(due: Numbers, percents: Numbers) -> bool:
    fallen = percents[:-_NEAR_LEVELS] - percents[_NEAR_LEVELS:]
    return bool(np.any(fallen - (due[_NEAR_LEVELS:] - due[:-_NEAR_LEVELS]) > MOST_FALL_PERCENT))


def believed(trips: Sequence[TripBurn]) -> list[TripBurn]:
    """All trips of a truck, the newest first, with the doubts that one casts on another: of two on the same miles the
    longer one counts, and one far from the others does not."""
    judged = sorted(_without_overlaps(trips), key=lambda trip: trip.ended_at, reverse=True)
    counted = [trip for trip in judged if trip.doubt is None][:MOST_TRIPS]
    if len(counted) < PROVEN_TRIPS:
        return judged
    middle = _weighted_median([(trip.mpg, weight) for trip, weight in _weighted(counted)])
    far = {trip.route_id for trip in counted if abs(trip.mpg / middle - 1) > FARTHEST_FROM_OTHERS}
    return [replace(trip, doubt="others") if trip.route_id in far else trip for trip in judged]


def _without_overlaps(trips: Sequence[TripBurn]) -> list[TripBurn]:
    shadowed: set[UUID] = set()
    kept: TripBurn | None = None
    for trip in sorted((one for one in trips if one.doubt is None), key=lambda one: one.started_at):
        if kept is None or trip.started_at >= kept.ended_at:
            kept = trip
            continue
        shorter, longer = sorted((kept, trip), key=lambda one: (one.miles, one.route_id))
        shadowed.add(shorter.route_id)
        kept = longer
    return [replace(trip, doubt="overlap") if trip.route_id in shadowed else trip for trip in trips]


def agreed_burn(trips: Sequence[TripBurn]) -> LearnedFigure | None:
    """The figure of the believed trips among these, the newest first; None without any."""
    counted = [trip for trip in trips if trip.doubt is None][:MOST_TRIPS]
    if not counted:
        return None
    weighted = _weighted(counted)
    mpg = sum(weight * trip.miles for trip, weight in weighted) / sum(
        weight * trip.gallons for trip, weight in weighted
    )
    taught = tuple(BurnTrip(trip.route_id, trip.ended_at, trip.miles, trip.mpg) for trip in counted)
    return LearnedFigure(mpg, max(_spread_percent(weighted, mpg), LEAST_SPREAD_PERCENT), taught)


def _weighted(trips: Sequence[TripBurn]) -> list[tuple[TripBurn, float]]:
    """The trips with their weights by age. Age counts from the newest trip: a truck that stood for a year is the same
    truck."""
    return [(trip, 0.5 ** ((trips[0].ended_at - trip.ended_at) / HALF_LIFE)) for trip in trips]


def _weighted_median(values: Sequence[tuple[float, float]]) -> float:
    ordered, reached = sorted(values), 0.0
    half = sum(weight for _, weight in ordered) / 2
    for value, weight in ordered:
        reached += weight
        if reached >= half:
            return value
    raise ValueError("no values")


def _spread_percent(weighted: Sequence[tuple[TripBurn, float]], mpg: float) -> float:
    """One standard deviation from trip to trip. Few trips show too little of it, so it is taken for one trip less."""
    if len(weighted) < 2:
        return 0.0
    total = sum(weight for _, weight in weighted)
    squares = sum(weight * (trip.mpg / mpg - 1) ** 2 for trip, weight in weighted) / total
    return float(100 * (squares * len(weighted) / (len(weighted) - 1)) ** 0.5)
