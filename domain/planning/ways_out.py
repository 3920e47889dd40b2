"""The way out of a fuel stop: where its truck goes if the station is closed.

Behind each planned fuel stop another station is in reach, above a hard floor, with the fuel on arrival and without a
purchase, where there is one at all. The end of the plan is a way out, too, where it is nearer. A floor for each
candidate makes the optimizer keep it: the hard floor, and the gallons to the nearest way out. The reserve covers most
of these floors, so they cost next to nothing.

A station has no floor where no other one is ahead, where a full tank does not reach a way out, or would be too full to
buy. Where no plan keeps all floors, the highest are dropped, as few as possible: no limit of the policy is relaxed for
a way out."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from domain.languages.words import ENGLISH, Words
from domain.planning.explanation import ExplainedWayOut
from domain.planning.trips import GALLON_TOLERANCE, Candidate, Infeasible, Solution, Trip
from domain.settings import Settings
from domain.stations.offers import Offer, Station

_SAME_PLACE_MILES = 0.3
_SAME_PLACE_DEGREES = 0.0015
"""Two stations that are so near to each other, along the road and in degrees (some 500 feet), may be one that is known
by two ids."""


class HardFloor(NamedTuple):
    """The least fuel that is left at a way out: the greater of a share of the rated capacity and the fuel of some
    miles."""

    percent: float = 2.0
    miles: float = 25.0

    @classmethod
    def of(cls, settings: Settings) -> "HardFloor":
        return cls(settings.hard_floor_percent, settings.hard_floor_miles)

    def gallons(self, rated_gallons: float, mpg: float) -> float:
        return max(rated_gallons * self.percent / 100, self.miles / mpg)


USUAL_HARD_FLOOR = HardFloor()


class WayOut(NamedTuple):
    """The station to go to, or the end of the plan where `station` is None, and its mile."""

    station: Station | None
    mile: float

    def document(self) -> ExplainedWayOut:
        station = self.station
        return {
            "station_id": station.station_id if station is not None else None,
            "name": station.name if station is not None else None,
            "mile": self.mile,
        }


def way_out_in_words(way_out: ExplainedWayOut | None, words: Words = ENGLISH) -> str:
    """The way out as drivers and dispatchers read it: `if closed: Love's 305, mile 412`."""
    if way_out is None:
        return words.say("if closed: no other station is in reach, ask dispatch")
    mile = words.mile(way_out["mile"])
    if way_out["name"] is None:
        return words.say("if closed: drive on, the fuel reaches {mile}", mile=mile)
    return words.say("if closed: {station}, {mile}", station=way_out["name"], mile=mile)


def floors_for_ways_out(trip: Trip, offers: Sequence[Offer], hard_floor_gallons: float) -> list[float]:
    """The least fuel on arriving at each candidate with which a way out is in reach; 0 where there is none. `offers`
    are those of the candidates."""
    burned = [trip.burned_at(one) for one in trip.candidates]
    nearest = _nearest_ways_out(burned, offers, trip.gallons_to(trip.distance_miles))
    floors = []
    for one, (at_mile, _, out), way_out in zip(trip.candidates, burned, nearest, strict=True):
        floor = _rounded_up(hard_floor_gallons + out + way_out - at_mile) if way_out is not None else 0.0
        floors.append(floor if floor <= trip.usable_gallons - trip.smallest_purchase(one) else 0.0)
    return floors


def _nearest_ways_out(
    burned: Sequence[tuple[float, float, float]], offers: Sequence[Offer], at_end: float
) -> Iterator[float | None]:
    """The gallons burned since the start on arriving at the nearest way out of each candidate; None where no other
    station is ahead. Among all candidates ahead the nearest is known from behind; only where that is the same place the
    others are looked at."""
    arriving = [at_mile + into for at_mile, into, _ in burned]
    nearest_from = [*range(len(arriving))]
    for index in range(len(arriving) - 2, -1, -1):
        behind = nearest_from[index + 1]
        nearest_from[index] = index if arriving[index] <= arriving[behind] else behind
    for index, offer in enumerate(offers):
        found, at = math.inf, index + 1
        while at < len(arriving):
            nearest = nearest_from[at]
            if arriving[nearest] >= found:
                break
            if not _are_one_place(offer, offers[nearest]):
                found = arriving[nearest]
                break
            others = (one for one in range(at, nearest) if not _are_one_place(offer, offers[one]))
            found = min([found, *(arriving[one] for one in others)])
            at = nearest + 1
        yield min(found, at_end) if found < math.inf else None


_STEPS = 100
"""Floors are rounded up to hundredths of a gallon."""


def _rounded_up(gallons: float) -> float:
    return math.ceil(gallons * _STEPS - GALLON_TOLERANCE) / _STEPS


def _are_one_place(one: Offer, other: Offer) -> bool:
    here, there = one.station, other.station
    if here.station_id == there.station_id:
        return True
    return (
        abs(one.mile - other.mile) < _SAME_PLACE_MILES
        and abs(here.latitude - there.latitude) < _SAME_PLACE_DEGREES
        and abs(here.longitude - there.longitude) < _SAME_PLACE_DEGREES
    )


def way_out_of(
    trip: Trip, offers: Sequence[Offer], index: int, arriving_gallons: float, hard_floor_gallons: float
) -> WayOut | None:
    """The first station after candidate `index` that a truck reaches above the hard floor if it buys nothing there, or
    else the end of the plan; None where it reaches neither."""
    one = trip.candidates[index]
    leaving = arriving_gallons - trip.gallons_back_to_road(one) - hard_floor_gallons + GALLON_TOLERANCE
    for other in range(index + 1, len(trip.candidates)):
        if leaving < trip.gallons_to(trip.candidates[other].mile) - trip.gallons_to(one.mile):
            return None
        if _reaches(trip, one, trip.candidates[other], leaving) and not _are_one_place(offers[index], offers[other]):
            return WayOut(offers[other].station, trip.candidates[other].mile)
    if trip.gallons_left(from_mile=one.mile, gallons=leaving) >= 0:
        return WayOut(None, trip.distance_miles)
    return None


def _reaches(trip: Trip, one: Candidate, other: Candidate, gallons: float) -> bool:
    return trip.arriving_gallons(other, from_mile=one.mile, gallons=gallons) >= 0


def highest_kept(floors: Sequence[float], attempt: Callable[[float], Solution | Infeasible]) -> float:
    """The highest of these floors that a plan can keep together with all lower ones; 0 where it can keep none.
    `attempt` plans with the floors up to a height; it is infeasible with all of them."""
    heights = [0.0, *sorted({floor for floor in floors if floor})]

    def is_too_high(index: int) -> bool:
        return isinstance(attempt(heights[index]), Infeasible)

    if len(heights) == 1 or is_too_high(0):
        return 0.0
    return heights[bisect_left(range(len(heights) - 1), True, lo=1, key=is_too_high) - 1]
