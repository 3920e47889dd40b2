"""The trips of the demo's fleet: which truck drove which lane, when, with what fuel. Values only; nothing is stored.

The same moment gives the same trips."""

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from domain.roads import CIRCUITY, Point, great_circle_miles

TRUCKS = 24
FIRST_UNIT = 5201

QUARTER = timedelta(days=92)
"""The history goes this far back."""
_LATEST_END = timedelta(hours=20)
"""The last completed trip of a truck ended at least this long ago: the trip that it drives now has room."""

_MPH = 56.0
_AT_STOPS = timedelta(hours=2)

MISSED, PARTLY, _ELSEWHERE = 0.05, 0.08, 0.06
"""Shares of the planned fuel stops where the driver buys nothing, less, or at another truck stop."""

Place = dict[str, Any]
"""A stop as it is pushed."""

PLACES: dict[str, Place] = {
    "Joliet": {"name": "Joliet Intermodal Terminal", "address": "Joliet, IL", "latitude": 41.462, "longitude": -88.125},
    "Newark": {"name": "Port Newark", "address": "Newark, NJ", "latitude": 40.695, "longitude": -74.155},
    "Columbus": {"name": "Rickenbacker Rail Yard", "address": "Columbus, OH", "latitude": 39.83, "longitude": -82.94},
    "Memphis": {"name": "Memphis Intermodal", "address": "Memphis, TN", "latitude": 35.022, "longitude": -89.905},
    "Atlanta": {"name": "Fairburn Rail Yard", "address": "Fairburn, GA", "latitude": 33.56, "longitude": -84.6},
    "Jacksonville": {"name": "Port of Jacksonville", "address": "FL", "latitude": 30.39, "longitude": -81.55},
    "Dallas": {"name": "Dallas Intermodal Terminal", "address": "Wilmer, TX", "latitude": 32.6, "longitude": -96.69},
    "Kansas City": {"name": "Logistics Park", "address": "Edgerton, KS", "latitude": 38.77, "longitude": -94.985},
    "Denver": {"name": "Denver Distribution", "address": "Denver, CO", "latitude": 39.78, "longitude": -104.9},
    "Salt Lake": {"name": "Salt Lake Cross-dock", "address": "UT", "latitude": 40.74, "longitude": -111.99},
    "Ontario": {"name": "Ontario Airport Cargo", "address": "Ontario, CA", "latitude": 34.06, "longitude": -117.59},
    "El Paso": {"name": "El Paso Cross-dock", "address": "El Paso, TX", "latitude": 31.785, "longitude": -106.37},
}
"""Real freight places; nothing is claimed of their yards."""

_LANES = (
    ("Joliet", "Newark"),
    ("Joliet", "Kansas City"),
    ("Joliet", "Memphis"),
    ("Columbus", "Newark"),
    ("Columbus", "Atlanta"),
    ("Atlanta", "Jacksonville"),
    ("Memphis", "Atlanta"),
    ("Memphis", "Dallas"),
    ("Dallas", "Kansas City"),
    ("Dallas", "El Paso"),
    ("Kansas City", "Denver"),
    ("Denver", "Salt Lake"),
    ("Salt Lake", "Ontario"),
    ("Ontario", "El Paso"),
)
"""Pairs of places; trucks drive them both ways."""


class Lane(NamedTuple):
    """The way from one of PLACES to another."""

    origin: str
    destination: str

    @property
    def stops(self) -> list[Place]:
        return [PLACES[self.origin], PLACES[self.destination]]

    @property
    def duration(self) -> timedelta:
        """About how long a truck takes, stops included."""
        first, last = (Point(place["latitude"], place["longitude"]) for place in self.stops)
        return timedelta(hours=CIRCUITY * great_circle_miles(first, last) / _MPH) + _AT_STOPS


LANES = tuple(Lane(*pair) for one in _LANES for pair in (one, one[::-1]))


class PastTrip(NamedTuple):
    """A trip that a truck has driven, or drives now."""

    truck: int
    """Position in the fleet, from 0."""
    number: int
    """Counts the truck's trips from 1."""
    lane: Lane
    starts_at: datetime
    fuel_percent: float
    """The level at the first stop."""
    mpg_factor: float
    """The mileage of this trip in parts of the truck's declared one."""
    lateness: float
    """The time of driving in parts of the planned one."""

    @property
    def external_id(self) -> str:
        return external_id(self.truck, self.number)

    def chance_at(self, number: int) -> Random:
        """Chance for the fuel stop of this number in the trip's plan."""
        return chance_of(f"{self.external_id} stop {number}")

    def buys_elsewhere(self, number: int) -> bool:
        """True if the driver goes to another truck stop than to the fuel stop of this number in his plan."""
        luck = self.chance_at(number).random()
        return MISSED + PARTLY <= luck < MISSED + PARTLY + _ELSEWHERE


def chance_of(about: str) -> Random:
    """Chance for one part of the demo, always the same."""
    return Random(f"39 {about}")  # noqa: S311 (no secret)


def external_id(truck: int, number: int) -> str:
    return f"PR-{FIRST_UNIT + truck}-{number:04}"


def past_trips(*, now: datetime, span: timedelta = QUARTER) -> list[list[PastTrip]]:
    """The completed trips of each truck within a span, the oldest first."""
    return [list(_trips_of(truck, span, now=now)) for truck in range(TRUCKS)]


def _trips_of(truck: int, span: timedelta, *, now: datetime) -> Iterator[PastTrip]:
    chance = chance_of(f"truck {truck}")
    place = list(PLACES)[truck % len(PLACES)]
    burns = chance.uniform(0.93, 1.04)
    starts_at = now - span + timedelta(hours=chance.uniform(0, 96))
    number = 1
    while True:
        lane = next_lane(truck, place, chance)
        lateness = 1 + max(chance.gauss(0.01, 0.02), -0.01)
        if starts_at + lane.duration * lateness > now - _LATEST_END:
            return
        fuel = round(chance.uniform(28, 62), 1)
        yield PastTrip(
            truck, number, lane, _to_minutes(starts_at), fuel, burns * chance.uniform(0.985, 1.015), lateness
        )
        place, number = lane.destination, number + 1
        starts_at += lane.duration + timedelta(hours=chance.uniform(44, 130))


OFF_ROAD = 3
"""Position in the fleet of the truck that leaves its road."""
_FAR_FROM_BORDERS = {"Joliet", "Kansas City", "Memphis", "Denver"}


def next_lane(truck: int, place: str, chance: Random) -> Lane:
    """One of the lanes that begin at a place. The truck that leaves its road drives far from borders and coasts."""
    lanes = [lane for lane in LANES if lane.origin == place]
    if truck == OFF_ROAD:
        lanes = [lane for lane in lanes if {place, lane.destination} <= _FAR_FROM_BORDERS]
    return chance.choice(lanes)


def present_trips(past: list[list[PastTrip]], *, now: datetime) -> list[PastTrip]:
    """The trip that each truck drives at the moment. Trucks are all over their roads."""
    trips = []
    for truck, driven in enumerate(past):
        chance = chance_of(f"present {truck}")
        place = driven[-1].lane.destination if driven else list(PLACES)[truck % len(PLACES)]
        lane = next_lane(truck, place, chance)
        driven_share = 0.12 + 0.7 * math.fmod(truck * 0.381966, 1.0)
        ended = max((one.starts_at + one.lane.duration for one in driven), default=now - QUARTER)
        starts_at = max(now - lane.duration * driven_share, ended + timedelta(hours=2))
        number = driven[-1].number + 1 if driven else 1
        trips.append(PastTrip(truck, number, lane, _to_minutes(starts_at), 55.0, 1.0, 1.0))
    return trips


def market_shift(then: datetime, *, now: datetime) -> float:
    """Dollars a gallon by which all prices differed from today's: a walk of some cents a week, which ends at zero."""
    weeks = (now - then).days // 7
    chance = chance_of("market")
    return round(sum(chance.gauss(-0.004, 0.035) for _ in range(max(weeks, 0))), 3)


def _to_minutes(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)
