"""Facts of a plan for the driver's page, beside the plan's document: the exit, the side of the road, the way out.

They are stored with the plan, in no language, since the page is read often and in many languages; to unpack the
explanation for each reader would take a hundred times as long, and retention deletes it."""

import math

from domain.documents import DriverFacts, FuelStopFacts, PriceChangeDocument, WayOutDocument
from domain.encoding import utc_text
from domain.planning.directions import heading_at, nearest_town
from domain.planning.fuel_plan import ComputedPlan, PlannedFuelStop
from domain.planning.ways_out import WayOut
from domain.roads import Road
from domain.roads.road_signs import Sign
from domain.stations.arrival_prices import PriceChange
from domain.stations.offers import Offer
from domain.stations.prices import net_price

SIDE_MILES = 0.15
"""A station nearer to the road's line may be on either side of it: the embedded roads are off by some 100 yards."""

MOST_SIDE_MILES = 3.0
"""The side of a station further away says nothing of the exit."""

_TANGENT_MILES = 0.25


def driver_facts_of(plan: ComputedPlan) -> DriverFacts:
    offers = [plan.inputs.offers[purchase.candidate_index] for purchase in plan.purchases]
    return {
        "lowFuel": plan.is_low_on_fuel,
        "fuelStops": [
            _facts_of(plan, offer, stop, sign) for offer, stop, sign in zip(offers, plan.stops, plan.signs, strict=True)
        ],
    }


def _facts_of(plan: ComputedPlan, offer: Offer, stop: PlannedFuelStop, sign: Sign | None) -> FuelStopFacts:
    road, town = plan.inputs.road, nearest_town(plan.inputs.offers, offer)
    return {
        "heading": heading_at(road, offer.mile),
        "road": sign.name if sign is not None else None,
        "exit": sign.exit if sign is not None else None,
        "town": {"name": town.name, "miles": round(town.miles, 1), "isAhead": town.is_ahead} if town else None,
        "isOnLeft": is_on_left(road, offer),
        "offRoadMiles": round(offer.detour_miles, 1),
        "wayOut": _way_out(stop.way_out),
        "priceChange": _price_change(offer.price_change),
        "hours": offer.station.hours,
        "pricedAt": _priced_at(offer),
    }


def is_on_left(road: Road, offer: Offer) -> bool | None:
    """True for a station left of the road as it is driven, False for one on its right; None where that is not
    certain."""
    if not SIDE_MILES <= offer.detour_miles <= MOST_SIDE_MILES:
        return None
    before, after = (road.place_at(offer.mile + step) for step in (-_TANGENT_MILES, _TANGENT_MILES))
    squeezed = math.cos(math.radians(offer.station.latitude))
    east, north = (after.longitude - before.longitude) * squeezed, after.latitude - before.latitude
    place = road.place_at(offer.mile)
    to_east = (offer.station.longitude - place.longitude) * squeezed
    to_north = offer.station.latitude - place.latitude
    across = (east * to_north - north * to_east) / max(math.hypot(east, north) * math.hypot(to_east, to_north), 1e-12)
    return across > 0 if abs(across) >= math.sin(math.radians(30)) else None


def _way_out(way_out: WayOut | None) -> WayOutDocument | None:
    if way_out is None:
        return None
    station = way_out.station
    if station is None:
        return {"name": None, "mile": way_out.mile}
    return {
        "name": station.name,
        "mile": way_out.mile,
        "latitude": station.latitude,
        "longitude": station.longitude,
    }


def _price_change(change: PriceChange | None) -> PriceChangeDocument | None:
    if change is None:
        return None
    return {"at": utc_text(change.at), "before": change.before, "after": change.after}


def _priced_at(offer: Offer) -> str | None:
    """The time of the pump price, where it makes the price: a quote or a fixed price may be lower."""
    station, parts = offer.station, offer.parts
    if station.priced_at is None or parts is None or parts.retail_price is None or offer.price_change is not None:
        return None
    return utc_text(station.priced_at) if net_price(None, parts.deals) != offer.net_price else None
