"""The orders that a driver reads: the text of his message, and the stations of its plan."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from domain.stations.offers import Offer
from tests.benchmarks.truth.driver import Order
from tests.benchmarks.truth.world import Trip

_STOP = re.compile(r"^(?=[0-9]+\. )", re.MULTILINE)
_LEVEL_FIRST = re.compile(r"fill to ([0-9]+) % \(")
_WAY_OUT = re.compile(r"if closed: (.+?), mile ([0-9]+)", re.IGNORECASE)
_SAME_MILES = 1.0


def orders_of(trip: Trip, text: str, plan: Mapping[str, Any], from_mile: float) -> list[Order]:
    """The orders of a message with its plan, a document of the API that begins at `from_mile` of the trip."""
    shown = _STOP.split(text)[1:]
    orders = []
    for stop, lines in zip(plan["stops"], shown, strict=True):
        mile = from_mile + stop["milesFromOrigin"]
        level, way_out = _LEVEL_FIRST.search(lines), _WAY_OUT.search(lines)
        orders.append(
            Order(
                _offer_at(trip.offers, (stop["latitude"], stop["longitude"]), mile),
                stop["gallonsToFill"],
                float(level[1]) if level else None,
                _named(trip.offers, way_out[1], from_mile + float(way_out[2])) if way_out else None,
            )
        )
    return orders


def _offer_at(offers: Sequence[Offer], place: tuple[float, float], mile: float) -> Offer:
    at_place = [one for one in offers if (one.station.latitude, one.station.longitude) == place]
    return min(at_place, key=lambda one: abs(one.mile - mile))


def _named(offers: Sequence[Offer], name: str, mile: float) -> Offer | None:
    """The station that the message names for a closed pump."""
    near = [one for one in offers if abs(one.mile - mile) <= _SAME_MILES]
    return next((one for one in near if one.station.name.startswith(name.removesuffix("..."))), None)
