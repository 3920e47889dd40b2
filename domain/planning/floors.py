"""The floors of a trip: the least fuel on arriving at each station, if the truck buys there.

**Floors that grow along the road.** A truck rarely drives as far with a gallon as its plan says. Let its true mileage
be `1 + e` times the plan's, where e has a mean and a spread. Where the plan has burned B gallons since the level was
last known, the truck has burned `B / (1 + e)`. So it has at least its reserve R there if the plan has at least

    R + B k    with    k = 1 / (1 + e) - 1

The company says which share of its trips may fall below the reserve, and k belongs to the e of which this share of
trips falls short. The other trips keep their reserve at every stop. So the share is one of trips, not of stops.

**The last known level.** Where a driver fuels by gallons, the plan's start is the last known level, and B counts from
there. A driver who fills to a level begins anew at each stop. How much a leg burns depends on the stop before it,
which a floor of one station cannot know. But no leg burns more than a full tank gives down to that leg's own floor:

    U - B >= R + B k    so    B <= (U - R) / (1 + k)

So B is cut there. That keeps more than is needed on short legs, and the optimizer stays exact.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import NamedTuple

from domain.accounts.policy import ANY_SHARE_PERCENT
from domain.burn.figures import Burn, BurnKind
from domain.planning.explanation import ExplainedMileageError, Explanation
from domain.planning.relaxation import PlanLimits
from domain.planning.trips import Purchase, Trip, drive_trip

FLOOR_DECIMALS = 2

LEAST_TRUE_SHARE = 0.4
"""No truck drives less than this share of the miles that its plan expects of a gallon."""

WORST_MARGIN = -0.5
"""A plan that lies further below the reserve than this share of its gallons falls below it in any case."""


class MileageError(NamedTuple):
    """The true mileage of a trip less the plan's, as a share of the plan's: mean and one standard deviation.
    `by_level`: the driver fills to a level, so that each stop ends the error of the way before it."""

    mean: float
    spread: float
    by_level: bool

    @property
    def _error(self) -> NormalDist:
        return NormalDist(self.mean, self.spread)

    def margin_per_gallon(self, share_percent: float) -> float:
        """The gallons beyond the reserve for each gallon that the plan burns, with which no more than this share of
        trips falls below the reserve."""
        if share_percent >= ANY_SHARE_PERCENT:
            return 0.0
        true_share = 1 + self._error.inv_cdf(share_percent / 100)
        return max(1 / max(true_share, LEAST_TRUE_SHARE) - 1, 0.0)

    def chance_beyond(self, margin_per_gallon: float) -> float:
        """The chance that a trip burns more than the plan's gallons and this margin for each of them."""
        return self._error.cdf(1 / (1 + max(margin_per_gallon, WORST_MARGIN)) - 1)

    def document(self, share_percent: float) -> ExplainedMileageError:
        """The error as an explanation keeps it."""
        return {
            "share_percent": share_percent,
            "mean_percent": round(100 * self.mean, 2),
            "spread_percent": round(100 * self.spread, 2),
            "by_level": self.by_level,
            "margin_percent": round(100 * self.margin_per_gallon(share_percent), 2),
        }


DECLARED_MEAN, USUAL_SPREAD = -0.03, 0.08
"""The error of a declared mileage, by the world in which plans are judged (`tests/benchmarks/truth`): drivers, weather
and load make 8 % from trip to trip, and trucks do 3 % less than their papers say."""

UNKNOWN_SPREAD = 0.14
"""One standard deviation where the default counts: trucks in that world do 5.6 to 8.2 miles with a gallon, 12 % one
from another, and each its 8 % from trip to trip."""

USUAL_TRIPS = 4
"""A few trips agree by chance. So the usual spread counts beside a truck's own as much as this many of its trips."""


def error_of(burn: Burn, *, by_level: bool) -> MileageError:
    """The error of a figure of burn: by the truck's own trips where they prove one, else the usual one of its kind."""
    learned = burn.learned
    if learned is None or burn.kind == "measured":
        return _usual_error(burn.kind, burn.spread_percent, by_level=by_level)
    return MileageError(learned.mpg / burn.mpg - 1, _own_spread(learned.spread_percent, len(learned.trips)), by_level)


def _own_spread(spread_percent: float, trips: int) -> float:
    squares = trips * (spread_percent / 100) ** 2 + USUAL_TRIPS * USUAL_SPREAD**2
    return math.sqrt(squares / (trips + USUAL_TRIPS))


def _usual_error(kind: BurnKind, spread_percent: float | None, *, by_level: bool) -> MileageError:
    """The error of a figure that the truck's own trips do not prove. A company's median is one of trucks."""
    if kind == "declared":
        return MileageError(DECLARED_MEAN, USUAL_SPREAD, by_level)
    if kind == "measured" and spread_percent is not None:
        return MileageError(0.0, spread_percent / 100, by_level)
    if kind == "default":
        return MileageError(0.0, UNKNOWN_SPREAD, by_level)
    from_truck_to_truck = (spread_percent or 0.0) / 100 if kind == "fleet" else 0.0
    return MileageError(0.0, math.hypot(USUAL_SPREAD, from_truck_to_truck), by_level)


def explained_error(explanation: Explanation) -> MileageError:
    """The error by which a stored plan was made. Where the company kept no more than the reserve, the error of its
    figure of burn; plans of earlier versions have a declared one."""
    error = explanation.get("mileage_error")
    if error is not None:
        return MileageError(error["mean_percent"] / 100, error["spread_percent"] / 100, error["by_level"])
    by_level = all("fill_to_percent" in one for one in explanation["candidates"] if one["gallons"])
    burn = explanation["inputs"].get("burn")
    if burn is not None and "trips" in burn and burn["kind"] != "measured":
        return MileageError(0.0, _own_spread(burn["spread_percent"], len(burn["trips"])), by_level)
    kind: BurnKind = burn["kind"] if burn is not None else "declared"
    return _usual_error(kind, burn.get("spread_percent") if burn is not None else None, by_level=by_level)


def with_growing_floors(trip: Trip, limits: PlanLimits, share_percent: float, error: MileageError) -> Trip:
    """The trip with a floor for each candidate and for the destination, so that no more than this share of trips falls
    below the reserve."""
    margin = error.margin_per_gallon(share_percent)
    if not margin:
        return trip
    most_burned = (trip.usable_gallons - trip.reserve_gallons) / (1 + margin) if error.by_level else math.inf

    def floor(burned_gallons: float) -> float:
        return trip.reserve_gallons + margin * min(burned_gallons, most_burned)

    at_end = min(floor(trip.gallons_to(trip.distance_miles)), limits.highest_floor_gallons)
    return with_floors(
        replace(trip, end_gallons=max(trip.end_gallons, round(at_end, FLOOR_DECIMALS))),
        [
            floor(trip.gallons_to(one.mile) + trip.detour_gallons(one.mile, one.detour_miles_in))
            for one in trip.candidates
        ],
        limits.highest_floor_gallons,
    )


def with_floors(trip: Trip, floors: Sequence[float], highest_gallons: float) -> Trip:
    """The trip with these floors, in gallons, one for each candidate, where they exceed those that it has. Those above
    the highest are lowered to it. One that the reserve covers is left out."""
    raised = [max(floor, one.floor_gallons) for floor, one in zip(floors, trip.candidates, strict=True)]
    lowered = [round(min(floor, highest_gallons), FLOOR_DECIMALS) for floor in raised]
    kept = [floor if floor > trip.reserve_gallons else 0.0 for floor in lowered]
    candidates = [
        one if one.floor_gallons == floor else one._replace(floor_gallons=floor)
        for one, floor in zip(trip.candidates, kept, strict=True)
    ]
    return replace(trip, candidates=tuple(candidates))


def chance_below(reserve_gallons: float, trip: Trip, purchases: Sequence[Purchase], error: MileageError) -> float:
    """The chance that a truck that buys these gallons falls below the reserve because its mileage is wrong."""
    known, burned, least_margin = trip.start_usable_gallons, 0.0, math.inf
    for arriving, gallons in zip(drive_trip(trip, purchases), [*(one.gallons for one in purchases), 0.0], strict=True):
        burned = known - arriving if error.by_level else burned + known - arriving
        if burned > 0:
            least_margin = min(least_margin, (arriving - reserve_gallons) / burned)
        known = arriving + gallons
    return error.chance_beyond(least_margin)
