"""Writes the explanation of a computed plan from its inputs: the truck, the limits, and every candidate with what its
price is made from."""

from collections.abc import Mapping, Sequence

import numpy as np

from domain.accounts.policy import ANY_SHARE_PERCENT
from domain.planning.explanation import (
    ExplainedCandidate,
    ExplainedDeal,
    Explanation,
    explained_inputs,
)
from domain.planning.plan_inputs import MILE_DECIMALS, PlanInputs
from domain.planning.relaxation import PlanLimits
from domain.planning.trips import Candidate, Infeasible, Trip
from domain.stations.offers import Offer
from domain.stations.prices import PRICE_DECIMALS, PriceParts

_DEGREE_DECIMALS, _OBJECTIVE_DECIMALS = 6, 6


def explain_plan(
    inputs: PlanInputs, limits: PlanLimits, trip: Trip, gallons: Mapping[int, float], result: float | Infeasible
) -> Explanation:
    """The explanation. `gallons` has the gallons bought, by candidate. `result` is the value of the objective, or why
    there is none."""
    explanation: Explanation = {
        "inputs": explained_inputs(
            inputs.policy,
            trip,
            capacity_gallons=inputs.rated_gallons,
            road_miles=inputs.road_miles,
            burn=inputs.burn.document(),
            max_detour_miles=limits.max_detour_miles,
            hard_floor_gallons=inputs.hard_floor_gallons,
            roads=inputs.road.source,
        ),
        "relaxed": [
            {"limit": limit, "policy": policy, "used": used}
            for limit, policy, used in limits.relaxed_from(inputs.limits)
        ],
        "sources": inputs.sources,
        "candidates": [
            _explained(candidate, offer, gallons.get(index, 0.0), trip.reserve_gallons)
            for index, (candidate, offer) in enumerate(zip(trip.candidates, inputs.offers, strict=True))
        ],
        "line": np.round(inputs.road.line, _DEGREE_DECIMALS).tolist(),
        "line_miles": np.round(inputs.road.line_miles, MILE_DECIMALS).tolist(),
        "objective": round(result, _OBJECTIVE_DECIMALS) if not isinstance(result, Infeasible) else None,
        "infeasible": {"from_mile": result.from_mile, "to_mile": result.to_mile, "reason": result.reason}
        if isinstance(result, Infeasible)
        else None,
    }
    share_percent = inputs.trips_below_reserve_percent
    if share_percent < ANY_SHARE_PERCENT:
        explanation["mileage_error"] = inputs.mileage_error.document(share_percent)
    if inputs.share_percent is not None:
        explanation["mileage_error"]["beyond_policy"] = True
    if all(offer.parts is not None for offer in inputs.offers):
        explanation["deals"] = _explained_deals(inputs.offers)
    if trip.burned:
        explanation["burned"] = [[mile, gallons] for mile, gallons in trip.burned]
    return explanation


def _explained(candidate: Candidate, offer: Offer, gallons: float, reserve_gallons: float) -> ExplainedCandidate:
    explained: ExplainedCandidate = {
        "station_id": candidate.station_id,
        "name": offer.station.name,
        "state": offer.station.state,
        "mile": candidate.mile,
        "detour_miles_in": candidate.detour_miles_in,
        "detour_miles_out": candidate.detour_miles_out,
        "net_price": round(offer.net_price, PRICE_DECIMALS),
        "adjusted_price": offer.adjusted_price,
        "gallons": gallons,
    }
    if candidate.floor_gallons > reserve_gallons:
        explained["floor_gallons"] = candidate.floor_gallons
    if offer.station.brand:
        explained["brand"] = offer.station.brand
    if offer.parts is not None:
        _add_parts(explained, offer.parts)
    change = offer.price_change
    if change is not None:
        explained["price_change"] = {"at": change.at.isoformat(), "before": change.before, "after": change.after}
    return explained


def _add_parts(explained: ExplainedCandidate, parts: PriceParts) -> None:
    if parts.retail_price is None:
        explained["retail_price"] = None
    elif (retail_price := round(parts.retail_price, PRICE_DECIMALS)) != explained["net_price"]:
        explained["retail_price"] = retail_price
    numbers = sorted(deal.number for deal in parts.deals if deal.number is not None)
    if numbers:
        explained["deals"] = numbers
    for deal in parts.deals:
        if deal.number is None and deal.net_price is not None:
            explained["quote"] = round(deal.net_price, PRICE_DECIMALS)


def _explained_deals(offers: Sequence[Offer]) -> list[ExplainedDeal]:
    held: dict[int, ExplainedDeal] = {}
    for offer in offers:
        for deal in offer.parts.deals if offer.parts is not None else ():
            if deal.number is not None and deal.number not in held:
                held[deal.number] = {
                    "number": deal.number,
                    "brand": deal.brand,
                    "discount_per_gallon": deal.discount_per_gallon,
                    "net_price": deal.net_price,
                }
    return [held[number] for number in sorted(held)]
