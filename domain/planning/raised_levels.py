"""The plan that tells a driver a higher level at his next fuel stop, because the truck burns more than planned."""

from collections.abc import Sequence
from dataclasses import replace

from domain.planning.plan_inputs import PlanInputs
from domain.roads import Point
from domain.stations.offers import Offer

TRIPS_SHORT_PERCENT = 16.0
"""The share of trips that may fall below the reserve with the new level, by the spread of the burn. A driver who is
told a new level anyway gets one that lasts, for cents."""


def inputs_for_level(inputs: PlanInputs, stop: Point) -> PlanInputs:
    """The inputs of a plan that keeps the next fuel stop, as far as no other one behind it is better: nothing is bought
    before it."""
    mile = next((one.mile for one in inputs.offers if _place(one) == stop), 0.0)
    share_percent = min(inputs.policy.trips_below_reserve_percent, TRIPS_SHORT_PERCENT)
    further = inputs.further_offers
    return replace(
        inputs,
        offers=_from(inputs.offers, mile),
        further_offers=_from(further, mile) if further is not None else None,
        policy=inputs.policy._replace(trips_below_reserve_percent=share_percent),
    )


def _from(offers: Sequence[Offer], mile: float) -> list[Offer]:
    return [one for one in offers if one.mile >= mile]


def _place(offer: Offer) -> Point:
    return Point(offer.station.latitude, offer.station.longitude)
