"""The plan that tells a driver a higher level at his next fuel stop, because the truck burns more than planned; or an
earlier fuel stop, because the truck would arrive at the next one with less than the reserve."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from domain.planning.fuel_plan import ComputedPlan, NoPlan, compute_plan
from domain.planning.plan_inputs import PlanInputs
from domain.roads import Point
from domain.stations.offers import Offer

TRIPS_SHORT_PERCENT = 16.0
"""The share of trips that may fall below the reserve with the new level, by the spread of the burn. A driver who is
told a new level anyway gets one that lasts, for cents."""

RESERVE_DOLLARS = 20.0
"""An earlier fuel stop may cost this much more than the next one, so that the truck keeps its reserve."""


def plan_for_level(inputs: PlanInputs, stop: Point, *, now: datetime | None = None) -> ComputedPlan | NoPlan:
    """The plan that keeps the driver's next fuel stop, as far as no other one behind it is better. Where the truck
    arrives there with less than the reserve, the plan that keeps the reserve if that costs at most $20 more."""
    if inputs.trips_below_reserve_percent > TRIPS_SHORT_PERCENT:
        inputs = replace(inputs, share_percent=TRIPS_SHORT_PERCENT)
    kept = compute_plan(_from_stop(inputs, stop), now=now)
    if isinstance(kept, NoPlan) or not kept.is_low_on_fuel:
        return kept
    earlier = compute_plan(inputs, now=now)
    if isinstance(earlier, NoPlan) or earlier.is_low_on_fuel:
        return kept
    return earlier if earlier.objective <= kept.objective + RESERVE_DOLLARS else kept


def begins_before(plan: ComputedPlan, stop: Point) -> bool:
    """True if the plan's first fuel stop comes before this one."""
    offers = plan.inputs.offers
    return bool(plan.purchases) and offers[plan.purchases[0].candidate_index].mile < _mile_of(plan.inputs, stop)


def _from_stop(inputs: PlanInputs, stop: Point) -> PlanInputs:
    """The inputs of a plan that buys nothing before the stop."""
    mile, further = _mile_of(inputs, stop), inputs.further_offers
    return replace(
        inputs,
        offers=_from(inputs.offers, mile),
        further_offers=_from(further, mile) if further is not None else None,
    )


def _mile_of(inputs: PlanInputs, stop: Point) -> float:
    return next((one.mile for one in inputs.offers if _place(one) == stop), 0.0)


def _from(offers: Sequence[Offer], mile: float) -> list[Offer]:
    return [one for one in offers if one.mile >= mile]


def _place(offer: Offer) -> Point:
    return Point(offer.station.latitude, offer.station.longitude)
