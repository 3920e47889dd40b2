"""The inputs of a fuel plan: a road, a truck, the company's policy and the offers along the road."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from statistics import fmean
from typing import Any

from domain.accounts.policy import PlanPolicy
from domain.burn.figures import DEFAULT_CAPACITY_GALLONS, UNKNOWN_BURN, Burn
from domain.planning.explanation import Sources
from domain.planning.floors import MileageError, error_of
from domain.planning.relaxation import PlanLimits
from domain.planning.trips import BurnedBy
from domain.planning.ways_out import USUAL_HARD_FLOOR, HardFloor
from domain.roads import Road
from domain.stations.offers import Offer
from domain.stations.prices import PRICE_DECIMALS

USABLE_SHARE = 0.95
"""The usable share of the rated capacity. Tanks are filled to 95 %, so that the fuel has room to expand (49 CFR
393.67(c))."""

MILE_DECIMALS = 2
GALLON_DECIMALS = 6


def gallons_at(percent: float, capacity_gallons: float) -> float:
    """The fuel in a tank at this level."""
    return round(capacity_gallons * percent / 100, GALLON_DECIMALS)


def limits_of(policy: PlanPolicy, capacity_gallons: float) -> PlanLimits:
    """The policy's limits for a tank, before any is relaxed."""
    return PlanLimits(
        highest_floor_gallons=capacity_gallons,
        end_gallons=gallons_at(policy.end_fuel_percent, capacity_gallons),
        min_purchase_gallons=policy.min_purchase_gallons,
        max_stops=policy.max_stops,
        max_detour_miles=policy.max_detour_miles,
        reserve_gallons=gallons_at(policy.reserve_percent, capacity_gallons),
        later_reserve_gallons=gallons_at(policy.reserve_percent, capacity_gallons),
    )


def by_policy(policy: PlanPolicy, limits: PlanLimits) -> dict[str, Any]:
    """The values of a `Trip` that the policy decides, with these limits; its candidates apart."""
    kept = limits._asdict()
    del kept["max_detour_miles"], kept["highest_floor_gallons"]  # decide the candidates
    later_reserve = kept.pop("later_reserve_gallons")
    return {
        **kept,
        "reserve_gallons": later_reserve,
        "margin_gallons": limits.reserve_gallons - later_reserve,
        "stop_cost": policy.stop_cost,
        "leftover_value_per_gallon": policy.leftover_value_per_gallon,
    }


@dataclass(frozen=True)
class PlanInputs:
    """The inputs of a plan.

    - `fuel_percent`: the truck's reading, if it is fresh enough. With None the policy's assumed level counts.
    - `gauge_works`: the driver can fuel by the truck's gauge.
    - `offers`: the offers of the road's corridor, in driving order.
    - `closed`: the offers of stations that are closed when the truck arrives, which are no candidates.
    - `further_offers`: offers up to `FURTHEST_DETOUR_MILES` off the road. Those beyond the policy's furthest detour
      count where limits are relaxed. None: they were not read, and no limit may be relaxed.
    - `departure`: the time when the truck leaves the road's first point.
    - `opens`: the time when the arrival window of each point after the first opens, where that is known.
    - `burned`: the gallons that the road burns by the end of each leg, where the burn differs by leg. Then `mpg` does
      not count.
    - `hard_floor`: the least fuel at the way out of a fuel stop.
    - `share_percent`: the share of trips that may fall below the reserve, where it is less than the policy's.
    - `sources`: tells people where the inputs came from and how old they are. It decides nothing.
    """

    road: Road
    fuel_percent: float | None
    policy: PlanPolicy
    offers: Sequence[Offer]
    departure: datetime
    further_offers: Sequence[Offer] | None = None
    opens: Sequence[datetime | None] = ()
    capacity_gallons: float | None = None
    burn: Burn = UNKNOWN_BURN
    gauge_works: bool = True
    burned: Sequence[BurnedBy] = ()
    sources: Sources = field(default_factory=Sources)
    closed: Sequence[Offer] = ()
    hard_floor: HardFloor = USUAL_HARD_FLOOR
    share_percent: float | None = None

    @property
    def road_miles(self) -> float:
        """The miles to the destination, which the plan may not reach."""
        return round(self.road.whole_miles, MILE_DECIMALS)

    @cached_property
    def corridor_price(self) -> float:
        """The mean price of the offers. The plans of a menu have these inputs in common."""
        return fmean([round(offer.net_price, PRICE_DECIMALS) for offer in self.offers])

    @property
    def rated_gallons(self) -> float:
        return self.capacity_gallons or DEFAULT_CAPACITY_GALLONS

    def gallons_of(self, percent: float) -> float:
        return gallons_at(percent, self.rated_gallons)

    @property
    def usable_gallons(self) -> float:
        return round(self.rated_gallons * USABLE_SHARE, GALLON_DECIMALS)

    @property
    def start_percent(self) -> float:
        return self.policy.assumed_fuel_percent if self.fuel_percent is None else self.fuel_percent

    @property
    def start_gallons(self) -> float:
        return min(self.gallons_of(self.start_percent), self.usable_gallons)

    def fill_to_percent(self, gallons: float) -> int | None:
        """The level that the truck's gauge shows with this much fuel in the tank, in percent of the rated capacity:
        rounded up, so that the driver buys no less, but no more than the tank takes. None where the gauge does not
        work, or where no level of the truck is known.

        A gauge that showed more at the start than a tank takes shows that much more after the purchase, too."""
        if self.fuel_percent is None or not self.gauge_works:
            return None
        shown_beyond = max(self.fuel_percent - 100 * self.usable_gallons / self.rated_gallons, 0.0)
        level = 100 * gallons / self.rated_gallons + shown_beyond
        most = math.floor(100 * self.usable_gallons / self.rated_gallons + 1e-6)
        return min(math.ceil(level - 1e-6), most)

    @property
    def hard_floor_gallons(self) -> float:
        return round(self.hard_floor.gallons(self.rated_gallons, self.burn.mpg), GALLON_DECIMALS)

    @property
    def limits(self) -> PlanLimits:
        """The policy's limits, before any is relaxed."""
        return limits_of(self.policy, self.rated_gallons)

    @property
    def trips_below_reserve_percent(self) -> float:
        """The share of trips that may fall below the reserve."""
        return self.policy.trips_below_reserve_percent if self.share_percent is None else self.share_percent

    @property
    def mileage_error(self) -> MileageError:
        """The error of the mileage with which the plan is made."""
        return error_of(self.burn, by_level=self.gauge_works)

    def within(self, max_detour_miles: float) -> "PlanInputs":
        """The inputs with the offers up to this far off the road."""
        nearest = self.policy.max_detour_miles
        further = [one for one in self.further_offers or () if nearest < one.detour_miles <= max_detour_miles]
        offers = sorted([*self.offers, *further], key=lambda one: one.mile) if further else self.offers
        return replace(self, offers=offers, further_offers=None)
