"""The offers of stations that are open when the truck arrives; a closed station is no candidate.

The arrival is the earliest one: the truck rests and waits for arrival windows, and makes no fuel stop before. So a
station that opens in time for a truck without stops is open for one with stops, too."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from domain.stations.corridor_offers import Arrivals
from domain.stations.offers import Offer


class OffersOnArrival(NamedTuple):
    """Offers in driving order, by whether their station is open when the truck is there."""

    open: Sequence[Offer]
    closed: Sequence[Offer]


def offers_on_arrival(offers: Sequence[Offer], arrivals: Arrivals) -> OffersOnArrival:
    doubtful = [one for one in offers if one.closed_until is not None]
    if not doubtful:
        return OffersOnArrival(offers, [])
    times = arrivals([one.mile for one in doubtful])
    closed = {id(one) for one, arrival in zip(doubtful, times, strict=True) if _is_closed(one, arrival)}
    return OffersOnArrival(
        [one for one in offers if id(one) not in closed], [one for one in doubtful if id(one) in closed]
    )


def _is_closed(offer: Offer, arrival: datetime | None) -> bool:
    return offer.closed_until is not None and arrival is not None and arrival < offer.closed_until
