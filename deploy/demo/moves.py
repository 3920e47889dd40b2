"""The moves of a truck of the living fleet: the fixes that its tracker makes. Rules only.

It drives the road of the plan that its driver has, in the time of our clock: at 20x it drives twenty minutes' way in a
minute."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import numpy as np

from domain.contract.shapes import Position
from domain.documents import FuelStopDocument
from domain.roads import Point, Road, great_circle_miles
from domain.sandbox.detours import DETOUR_MILES, away_from
from domain.sandbox.simulated_truck import Refuel, refuel_at

MPH = 60.0
_AT_PUMP = timedelta(minutes=15)
_LEAST_AT_PUMP = timedelta(seconds=40)
"""Shortest time at a pump by our clock: a level has to be seen before and after."""
_ON_ROAD_MILES, _TO_END_MILES = 45.0, 80.0
"""A truck that leaves its road does so after this many miles of it, and not so near to its end."""
_AWAY_MILES = 3.0
"""A truck further from its road than this has left it."""
_OFF_ROAD_FOR = timedelta(minutes=40)
"""A truck off its road comes back after this time, if its driver has got no new plan."""


@dataclass(slots=True, eq=False)
class Way:
    """The road of a plan, and the purchases on it."""

    plan_id: UUID
    road: Road
    fuel_stops: list[Refuel]
    """The fuel stops ahead, in order."""

    @classmethod
    def of(cls, plan_id: UUID, road: Road, stops: Sequence[FuelStopDocument], *, after_mile: float) -> "Way":
        ahead = [refuel_at(stop, stop["milesFromOrigin"]) for stop in stops]
        return cls(plan_id, road, [one for one in ahead if one.mile > after_mile])

    @property
    def end_mile(self) -> float:
        return float(self.road.line_miles[-1])


def mile_of(road: Road, place: Point) -> float:
    """The mile of the vertex of a road that is nearest to a place, or between the two nearest ones."""
    scale = np.array([1.0, np.cos(np.radians(place.latitude))])
    here = (np.array(place) - road.line) * scale
    nearest = int((here**2).sum(axis=1).argmin())
    best, found = np.inf, float(road.line_miles[nearest])
    for first in (nearest - 1, nearest):
        if 0 <= first < len(road.line) - 1:
            along = (road.line[first + 1] - road.line[first]) * scale
            share = float(np.clip((here[first] @ along) / max(float(along @ along), 1e-12), 0, 1))
            away = float(((here[first] - share * along) ** 2).sum())
            if away < best:
                best, (start, end) = away, road.line_miles[first : first + 2]
                found = float(start + share * (end - start))
    return found


@dataclass(slots=True, eq=False)
class MovingTruck:
    """A truck of the fleet, from one turn to the next. What it forgets is told again by its last fix and its plan."""

    vehicle_id: str
    mpg: float
    capacity_gallons: float
    place: Point
    fuel_percent: float
    moved_at: datetime
    leaves_road: bool = False
    way: Way | None = None
    mile: float = 0.0
    began_mile: float = 0.0
    """The mile where it came onto its present way."""
    at_pump_until: datetime | None = None
    gallons: float = 0.0
    """Gallons that it gets at the pump where it stands."""
    off_road_since: datetime | None = None
    off_road_miles: float = 0.0
    left_at: Point | None = field(default=None)

    def take(self, way: Way) -> None:
        """Takes the way of a new plan from where it is."""
        self.way, self.mile = way, mile_of(way.road, self.place)
        way.fuel_stops = [one for one in way.fuel_stops if one.mile >= self.mile]
        self.began_mile = self.mile
        self.off_road_since, self.left_at, self.off_road_miles = None, None, 0.0
        on_road = way.road.place_at(self.mile)
        away_miles = great_circle_miles(self.place, on_road)
        if self.leaves_road and away_miles > _AWAY_MILES:
            self.off_road_since, self.left_at, self.off_road_miles = self.moved_at, on_road, away_miles

    def move(self, now: datetime, speed: int) -> Position:
        """Moves on until now. Returns the fix."""
        miles = MPH * speed * max((now - self.moved_at).total_seconds(), 0.0) / 3600
        self.moved_at = now
        speed_mph = self._move(now, speed, miles) if self.way is not None and speed else 0.0
        return self.fix(now, speed_mph)

    def fix(self, now: datetime, speed_mph: float = 0.0) -> Position:
        return Position(
            latitude=round(self.place.latitude, 6),
            longitude=round(self.place.longitude, 6),
            recorded_at=now,
            vehicle_id=self.vehicle_id,
            speed_mph=speed_mph,
            fuel_percent=round(self.fuel_percent, 1),
            accuracy_meters=8,
        )

    def _move(self, now: datetime, speed: int, miles: float) -> float:
        if self.at_pump_until is not None:
            return self._stand_at_pump(now)
        way = self.way
        if way is None or self.mile >= way.end_mile:
            return 0.0
        if self.leaves_road and self._is_off_road(way, now):
            return self._drive_away(way, miles)
        mile = min(self.mile + miles, way.end_mile)
        place = way.road.place_at(mile)
        if way.fuel_stops and way.fuel_stops[0].mile <= mile:
            mile, self.gallons, place = way.fuel_stops.pop(0)
            self.at_pump_until = now + max(_AT_PUMP / speed, _LEAST_AT_PUMP)
        self._burn(mile - self.mile)
        self.mile, self.place = mile, place
        return 0.0 if self.at_pump_until is not None or mile >= way.end_mile else MPH

    def _stand_at_pump(self, now: datetime) -> float:
        self.fuel_percent = min(self.fuel_percent + 100 * self.gallons / self.capacity_gallons, 100.0)
        self.gallons = 0.0
        if self.at_pump_until is not None and now >= self.at_pump_until:
            self.at_pump_until = None
        return 0.0

    def _is_off_road(self, way: Way, now: datetime) -> bool:
        if self.off_road_since is not None:
            if now - self.off_road_since > _OFF_ROAD_FOR:
                self.off_road_since, self.began_mile, self.place = None, self.mile, way.road.place_at(self.mile)
                return False
            return True
        if self.mile - self.began_mile < _ON_ROAD_MILES or way.end_mile - self.mile < _TO_END_MILES:
            return False
        self.off_road_since, self.left_at = now, self.place
        return True

    def _drive_away(self, way: Way, miles: float) -> float:
        """Drives straight away from its road, and stands at the far end."""
        further = min(self.off_road_miles + miles, DETOUR_MILES)
        self._burn(further - self.off_road_miles)
        is_moving = further > self.off_road_miles
        self.off_road_miles = further
        if self.left_at is not None:
            (self.place,) = away_from(way.road, self.left_at, [further])
        return MPH if is_moving else 0.0

    def _burn(self, miles: float) -> None:
        self.fuel_percent = max(self.fuel_percent - 100 * miles / self.mpg / self.capacity_gallons, 1.0)
