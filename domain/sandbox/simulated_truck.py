"""A simulated truck: its place, its fuel, and the fixes that its tracker makes.

It has no clock and no chance: a truck on a road always makes the same fixes. Noise is drawn from the truck's seed and
the time of the fix."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import NamedTuple

import numpy as np

from domain.contract.shapes import Position
from domain.documents import FuelStopDocument
from domain.roads import Point, Road, great_circle_miles
from domain.roads.sphere import MILES_PER_DEGREE, stop_point
from domain.stations.corridor import StationIndex

FIX_SECONDS = 30
DWELL_FIXES = 10
"""Fixes at each stop, five minutes of them: more than any rule of arrivals needs."""
DRIVING_MPH = 60.0

_PASSES_MILES = 10.0
_SPREAD_METERS = 6.0
_FURTHEST_METERS = 25.0
_SPREAD_MPH = 2.0
_METERS_PER_DEGREE = MILES_PER_DEGREE * 1609.344
_LATE_SHARE = 0.02
_DOUBLED_SHARE = 0.03


@dataclass(slots=True)
class Truck:
    """A truck with its own time and fuel. With a `seed` of None its fixes are exact."""

    vehicle_id: str
    now: datetime
    fuel_percent: float
    seed: str | None = None

    def fix(self, place: Point, speed_mph: float) -> Position:
        """The fix that its tracker makes now."""
        speed = speed_mph
        if self.seed is not None:
            noise = Random(f"{self.seed} {self.now.isoformat()}")  # noqa: S311 (no secret)
            place = _near(place, noise)
            speed = max(speed_mph + noise.gauss(0, _SPREAD_MPH), 0) if speed_mph else 0.0
        return Position(
            latitude=round(place.latitude, 6),
            longitude=round(place.longitude, 6),
            recorded_at=self.now,
            vehicle_id=self.vehicle_id,
            speed_mph=round(speed, 1),
            fuel_percent=round(min(max(self.fuel_percent, 0), 100), 1),
            accuracy_meters=8,
        )

    def stand(self, place: Point, fixes: int = DWELL_FIXES) -> list[Position]:
        """Stands at a place for a number of fixes."""
        return [self._next_fix(place, 0) for _ in range(fixes)]

    def _next_fix(self, place: Point, speed_mph: float) -> Position:
        fix = self.fix(place, speed_mph)
        self.now += timedelta(seconds=FIX_SECONDS)
        return fix


class Refuel(NamedTuple):
    """A purchase ahead: where the truck leaves the road for it, what it buys, and the place of the pump."""

    mile: float
    gallons: float
    place: Point


@dataclass(slots=True)
class SimulatedTrip:
    """A truck on its road: burns fuel by the mile, and fills up where its plan says."""

    truck: Truck
    road: Road
    mpg: float
    capacity_gallons: float
    speed_mph: float = DRIVING_MPH
    mile: float = 0.0
    refuels: list[Refuel] = field(default_factory=list)
    """In the order of their miles."""

    def drive_on(self, end_mile: float) -> list[Position]:
        """The fixes of the next 30 seconds of driving, and of a fuel stop on that way. Empty once the truck has reached
        `end_mile`."""
        miles = self.speed_mph * FIX_SECONDS / 3600
        if self.mile + miles >= end_mile:
            self.mile = max(self.mile, end_mile)
            return []
        self.mile += miles
        self.truck.fuel_percent -= self._percent_of_tank(miles / self.mpg)
        fixes = self._refuel()
        return [*fixes, self.truck._next_fix(self.road.place_at(self.mile), self.speed_mph)]

    def _refuel(self) -> list[Position]:
        """Stands at the pump of each fuel stop just passed, because a tank that fills on the move is not believed."""
        fixes: list[Position] = []
        while self.refuels and self.refuels[0].mile <= self.mile:
            mile, gallons, pump = self.refuels.pop(0)
            aside = self._ways_aside(self.road.place_at(mile), pump)
            fixes += [self.truck._next_fix(place, self.speed_mph) for place in aside]
            fixes.append(self.truck._next_fix(pump, 0))
            self.truck.fuel_percent = min(self.truck.fuel_percent + self._percent_of_tank(gallons), 100)
            fixes += self.truck.stand(pump)
            fixes += [self.truck._next_fix(place, self.speed_mph) for place in reversed(aside)]
        return fixes

    def _ways_aside(self, road: Point, pump: Point) -> list[Point]:
        """The places of the fixes between the road and a pump beside it. This way burns nothing."""
        steps = math.ceil(great_circle_miles(road, pump) / (self.speed_mph * FIX_SECONDS / 3600))
        shares = [step / steps for step in range(1, steps)]
        return [
            Point(
                road.latitude + share * (pump.latitude - road.latitude),
                road.longitude + share * (pump.longitude - road.longitude),
            )
            for share in shares
        ]

    def _percent_of_tank(self, gallons: float) -> float:
        return 100 * gallons / self.capacity_gallons


def refuel_at(stop: FuelStopDocument, mile: float) -> Refuel:
    return Refuel(mile, stop["gallonsToFill"], stop_point(stop))


def refuels_on(road: Road, stops: Sequence[FuelStopDocument], *, after_mile: float) -> list[Refuel]:
    """The fuel stops of a plan that the road passes after a mile. The plan may have been made for another road."""
    index = StationIndex.build([""] * len(stops), [(stop["latitude"], stop["longitude"]) for stop in stops])
    passed: dict[int, float] = {}
    for one in index.passes(road, _PASSES_MILES):
        if one.mile > after_mile:
            passed.setdefault(one.station_index, one.mile)
    return sorted(refuel_at(stops[number], mile) for number, mile in passed.items())


def as_posted(fixes: Sequence[Position], held: Iterable[Position], seed: str) -> tuple[list[Position], list[Position]]:
    """The fixes that a real tracker would post out of `fixes`, and those that it holds back: a few fixes come late,
    with the next ones, and a few come twice. `held` are the fixes held back before."""
    posted, late = [*held], []
    for fix in fixes:
        chance = Random(f"{seed} posts {fix.recorded_at.isoformat()}").random()  # noqa: S311 (no secret)
        if fix.speed_mph and chance < _LATE_SHARE:
            late.append(fix)
        else:
            posted += [fix, fix] if chance > 1 - _DOUBLED_SHARE else [fix]
    return posted, late


def _near(place: Point, noise: Random) -> Point:
    """A place some meters away, as GPS would measure it."""
    north, east = (
        max(min(noise.gauss(0, _SPREAD_METERS), _FURTHEST_METERS), -_FURTHEST_METERS) / _METERS_PER_DEGREE
        for _ in range(2)
    )
    east /= max(np.cos(np.radians(place.latitude)), 0.01)
    return Point(max(min(place.latitude + north, 90.0), -90.0), float((place.longitude + east + 180) % 360 - 180))
