"""Directions to the fuel stops of a plan, for the driver's message: heading, road and exit, nearest town, what to
know at the pump."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from domain.languages.words import ENGLISH, Words, capitalized, text_to_say
from domain.planning.fuel_plan import ComputedPlan, PlannedFuelStop
from domain.planning.ways_out import way_out_in_words
from domain.roads import Road
from domain.roads.road_signs import Sign
from domain.stations.offers import Offer

HEADING_MILES = 5.0
"""The heading is measured from this far before the stop to this far after it, so that no ramp or bend turns it."""

NEAR_TOWN_MILES = 30.0
"""A town further along the road tells a driver little."""

_HEADINGS = (
    text_to_say("north"),
    text_to_say("northeast"),
    text_to_say("east"),
    text_to_say("southeast"),
    text_to_say("south"),
    text_to_say("southwest"),
    text_to_say("west"),
    text_to_say("northwest"),
)


class Directions(NamedTuple):
    """The directions to one fuel stop, in the driver's language. `heading` is None where the road goes nowhere, `town`
    where no other town with a truck stop is near."""

    heading: str | None
    town: str | None
    """The nearest town, such as `12 mi after Goshen, IN`; None where none is near."""
    off_road_miles: float = 0.0
    """The straight distance from the road to the stop."""
    notes: tuple[str, ...] = ()
    """More to know at this stop; each is a line of the message."""
    sign: Sign | None = None
    """The sign of the road and the exit to the stop; None where they are not known."""


def directions_of(plan: ComputedPlan, words: Words = ENGLISH, *, tells_prices: bool = True) -> list[Directions]:
    """The directions to each fuel stop of a plan, in driving order. Without `tells_prices` no note has a price."""
    given = plan.inputs
    offers = [given.offers[purchase.candidate_index] for purchase in plan.purchases]
    return [
        Directions(
            heading=heading_at(given.road, offer.mile, words),
            town=town_near(given.offers, offer, words),
            off_road_miles=offer.detour_miles,
            notes=_notes(offer, stop, words, tells_prices=tells_prices),
            sign=sign,
        )
        for offer, stop, sign in zip(offers, plan.stops, plan.signs, strict=True)
    ]


def _notes(offer: Offer, stop: PlannedFuelStop, words: Words, *, tells_prices: bool) -> tuple[str, ...]:
    change = offer.price_change if tells_prices else None
    price = [words.say("Price {change}", change=change.in_words(words))] if change is not None else []
    return (*price, capitalized(way_out_in_words(stop.explained_way_out, words)))


def heading_at(road: Road, mile: float, words: Words = ENGLISH) -> str | None:
    """The direction in which the road leads at that mile, as one of eight words."""
    before, after = (road.place_at(at) for at in (mile - HEADING_MILES, mile + HEADING_MILES))
    north = after.latitude - before.latitude
    east = math.remainder(after.longitude - before.longitude, 360) * math.cos(math.radians(before.latitude))
    if max(abs(north), abs(east)) < 1e-4:
        return None
    return words.say(_HEADINGS[round(math.degrees(math.atan2(east, north)) / 45) % 8])


def _mile(offer: Offer) -> float:
    return offer.mile


class Town(NamedTuple):
    """The nearest other town, ahead of a stop or behind it."""

    name: str
    miles: float
    is_ahead: bool

    def in_words(self, words: Words = ENGLISH) -> str:
        """The town as drivers read it: `12 mi after Goshen, IN`, if it is behind the stop."""
        text = text_to_say("{distance} before {town}") if self.is_ahead else text_to_say("{distance} after {town}")
        return words.say(text, distance=words.distance(self.miles), town=self.name)


def nearest_town(offers: Sequence[Offer], stop: Offer) -> Town | None:
    """The nearest other town on the road, as far as truck stops of the corridor tell where towns are. `offers` are in
    driving order."""
    first = bisect_left(offers, stop.mile - NEAR_TOWN_MILES, key=_mile)
    end = bisect_right(offers, stop.mile + NEAR_TOWN_MILES, key=_mile)
    towns = {
        (abs(stop.mile - other.mile), other.mile > stop.mile, f"{other.station.city}, {other.station.state or ''}")
        for other in offers[first:end]
        if other.station.city and (other.station.city, other.station.state) != (stop.station.city, stop.station.state)
    }
    near = min((town for town in towns if 0.5 <= town[0] <= NEAR_TOWN_MILES), default=None)
    if near is None:
        return None
    miles, is_ahead, name = near
    return Town(name.rstrip(", "), miles, is_ahead)


def town_near(offers: Sequence[Offer], stop: Offer, words: Words = ENGLISH) -> str | None:
    town = nearest_town(offers, stop)
    return town.in_words(words) if town is not None else None
