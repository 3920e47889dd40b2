"""Drivers without a plan: one fills up when his tank gets low, one goes to the cheapest pump in his range."""

from collections.abc import Sequence

from domain.stations.offers import Offer
from tests.benchmarks.truth.driver import FIX_MILES, USUAL_DETOUR_MILES, Fix, Order
from tests.benchmarks.truth.world import Trip
from tests.domain.planning.plans import usual_policy

FILLS_UP_BELOW_PERCENT = 30.0


class Unplanned:
    """A driver who decides at each fix if he needs fuel, unless he is on his way to a pump."""

    def begin(self, trip: Trip, fix: Fix) -> Sequence[Order]:
        self.trip, self.going_to = trip, -1.0
        return self.see(fix) or []

    def see(self, fix: Fix) -> Sequence[Order] | None:
        if fix.mile <= self.going_to + FIX_MILES:
            return None
        offer = self.choose(fix)
        if offer is None:
            return None
        self.going_to = offer.mile
        return [Order(offer, self.trip.truck.capacity_gallons)]

    def end(self, fix: Fix) -> None:
        pass

    def choose(self, fix: Fix) -> Offer | None:
        raise NotImplementedError

    def _ahead(self, fix: Fix) -> list[Offer]:
        near = [one for one in self.trip.offers if one.detour_miles <= USUAL_DETOUR_MILES]
        return [one for one in near if one.mile >= fix.mile]


class FillsUpWhenLow(Unplanned):
    def choose(self, fix: Fix) -> Offer | None:
        return next(iter(self._ahead(fix)), None) if fix.percent < FILLS_UP_BELOW_PERCENT else None


class CheapestInRange(Unplanned):
    """The driver fills up at the cheapest pump in his range, as the way of that name in `explain`."""

    def choose(self, fix: Fix) -> Offer | None:
        policy, truck = usual_policy(), self.trip.truck
        mpg = truck.declared_mpg or truck.mpg

        def range_to(percent: float) -> float:
            return (fix.percent - percent) * truck.capacity_gallons / 100 * mpg

        if self.trip.road.distance_miles - fix.mile <= range_to(policy.end_fuel_percent):
            return None
        reach = fix.mile + range_to(policy.reserve_percent)
        room = fix.mile + range_to(95.0) + policy.min_purchase_gallons * mpg
        choices = [one for one in self._ahead(fix) if room <= one.mile + one.detour_miles <= reach]
        return min(choices, key=lambda one: (one.net_price, -one.mile), default=next(iter(self._ahead(fix)), None))
