"""The offers of stations that are open when the truck arrives; a closed station is no candidate, and neither is one at
which the driver cannot fuel.

The arrival is the earliest one: the truck rests and waits for arrival windows, and makes no fuel stop before. So a
station that opens in time for a truck without stops is open for one with stops, too."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from domain.stations.corridor_offers import Arrivals
from domain.stations.offers import Offer


class OffersOnArrival(NamedTuple):
    """Offers in driving order, by whether their station is open when the truck is there."""

    open: Sequence[Offer]
    closed: Sequence[Offer]


def without_refused(offers: Sequence[Offer], refused_until: Mapping[str, datetime]) -> Sequence[Offer]:
    """The offers, of which those of stations that the driver refused are closed to him until these moments."""
    if not refused_until:
        return offers
    return [_refused(one, refused_until.get(one.station.station_id)) for one in offers]


def _refused(offer: Offer, until: datetime | None) -> Offer:
    if until is None or (offer.closed_until is not None and offer.closed_until >= until):
        return offer
    return offer._replace(closed_until=until)


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
