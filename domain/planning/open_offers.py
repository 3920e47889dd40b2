"""The offers of stations that are open when the truck arrives; a closed station is no candidate.

The arrival is the earliest one: the truck rests and waits for arrival windows, and makes no fuel stop before. So a
station that opens in time for a truck without stops is open for one with stops, too."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np

from domain.planning.schedule import RoadPoint, arrival_times
from domain.roads import Road
from domain.stations.offers import Offer


class OffersOnArrival(NamedTuple):
    """Offers in driving order, by whether their station is open when the truck is there."""

    open: Sequence[Offer]
    closed: Sequence[Offer]


def offers_on_arrival(
    offers: Sequence[Offer], road: Road, departure: datetime, opens: Sequence[datetime | None]
) -> OffersOnArrival:
    """`opens` has the time when the arrival window of each of the road's points after the first opens."""
    doubtful = [one for one in offers if one.closed_until is not None]
    if not doubtful:
        return OffersOnArrival(offers, [])
    arrivals = _earliest_arrivals(road, departure, opens, [one.mile for one in doubtful])
    closed = {id(one) for one, arrival in zip(doubtful, arrivals, strict=True) if _is_closed(one, arrival)}
    return OffersOnArrival(
        [one for one in offers if id(one) not in closed], [one for one in doubtful if id(one) in closed]
    )


def _is_closed(offer: Offer, arrival: datetime | None) -> bool:
    return offer.closed_until is not None and arrival is not None and arrival < offer.closed_until


def _earliest_arrivals(
    road: Road, departure: datetime, opens: Sequence[datetime | None], miles: Sequence[float]
) -> list[datetime | None]:
    """The arrival at each of these miles, which are in driving order; None after the year 9999."""
    hours = np.interp(miles, road.stop_miles, road.stop_hours).tolist()
    points = [(mile, RoadPoint(hour), True) for mile, hour in zip(miles, hours, strict=True)]
    stops = zip(road.stop_miles[1:], map(RoadPoint, road.stop_hours[1:], opens), strict=False)
    points = sorted([*points, *((mile, stop, False) for mile, stop in stops)], key=lambda one: one[0])
    arrivals = arrival_times(departure, (point for _, point, _ in points))
    return [arrival for arrival, (_, _, is_asked) in zip(arrivals, points, strict=True) if is_asked]
