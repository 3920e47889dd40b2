"""A trip of the demo's history as it was driven: where the truck was at each moment, and the fuel in its tank."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

import numpy as np

from domain.burn.figures import DEFAULT_CAPACITY_GALLONS, DEFAULT_MPG
from domain.burn.trip_levels import LevelFix
from domain.contract.shapes import Position
from domain.planning.fuel_plan import ComputedPlan
from domain.roads import Point, Road
from domain.roads.sphere import Array

FUELED_AFTER = timedelta(minutes=12)
"""Time from the arrival at a truck stop to the receipt."""
_AT_TRUCK_STOP = timedelta(minutes=25)
_TO_PUMP = timedelta(minutes=5)
"""Time between the road and a pump. This way burns nothing."""
_STANDS_FOR = timedelta(minutes=6)
"""Time at the first and the last stop of which there are fixes."""
_STANDING_STEP = timedelta(seconds=30)


def _aside(seconds: Array, bought_at: float) -> Array:
    """The share of the way from the road to the pump of a purchase that the truck has driven at each second."""
    stands_for = _AT_TRUCK_STOP.total_seconds()
    middle = bought_at - FUELED_AFTER.total_seconds() + stands_for / 2
    seconds_away = np.abs(seconds - middle) - stands_for / 2
    return np.asarray(1 - seconds_away / _TO_PUMP.total_seconds()).clip(0, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Drive:
    """The truck leaves the first stop at `departure`. `seconds` and `miles` are the corners of its way in time."""

    road: Road
    departure: datetime
    seconds: Array
    miles: Array
    purchases: Sequence[tuple[float, float, Point]]
    """Second and gallons of each purchase, and the place of the pump."""
    start_percent: float
    mpg: float
    capacity_gallons: float

    @classmethod
    def of(
        cls,
        plan: ComputedPlan,
        departure: datetime,
        *,
        lateness: float,
        start_percent: float,
        mpg: float,
        capacity_gallons: float,
    ) -> Self:
        """The drive of a plan whose driver buys what it says. Driving takes `lateness` times as long as planned."""

        def late(moment: datetime) -> float:
            return (moment - departure).total_seconds() * lateness

        seconds, miles, purchases = [0.0], [0.0], list[tuple[float, float, Point]]()
        for stop in plan.stops:
            if stop.estimated_arrival is None:
                continue
            comes_at = late(stop.estimated_arrival)
            seconds += [comes_at, comes_at + _AT_TRUCK_STOP.total_seconds()]
            miles += [stop.miles_from_origin] * 2
            pump = Point(stop.station.latitude, stop.station.longitude)
            purchases.append((comes_at + FUELED_AFTER.total_seconds(), stop.gallons_to_fill, pump))
        last = plan.points[-1]
        if last.arrival is None:
            raise ValueError("a plan of the demo ends before the year 9999")
        seconds.append(max(late(last.arrival), seconds[-1] + 60))
        miles.append(last.mile)
        return cls(
            plan.inputs.road,
            departure,
            np.array(seconds),
            np.array(miles),
            purchases,
            start_percent,
            mpg,
            capacity_gallons,
        )

    @classmethod
    def standing(cls, road: Road, departure: datetime, *, start_percent: float) -> Self:
        """A truck at its first stop, which nobody knows to drive."""
        return cls(road, departure, np.zeros(1), np.zeros(1), (), start_percent, DEFAULT_MPG, DEFAULT_CAPACITY_GALLONS)

    @property
    def arrival(self) -> datetime:
        """When the truck comes to the last stop."""
        return self.departure + timedelta(seconds=float(self.seconds[-1]))

    def bought_at(self, purchase: int) -> datetime:
        return self.departure + timedelta(seconds=self.purchases[purchase][0])

    def halt_at(self, purchase: int) -> tuple[datetime, datetime]:
        """When the truck comes to the truck stop of a purchase, and when it leaves."""
        came = self.bought_at(purchase) - FUELED_AFTER
        return came, came + _AT_TRUCK_STOP

    def fixes_at(self, seconds: Array) -> list[tuple[Point, float]]:
        """Place and level in percent of the tank at these seconds."""
        miles, bought = self._mile(seconds), np.zeros(len(seconds))
        places = np.stack([np.interp(miles, self.road.line_miles, degrees) for degrees in self.road.line.T], axis=1)
        for at, gallons, pump in self.purchases:
            bought += gallons * (seconds >= at)
            places += _aside(seconds, at)[:, None] * (np.array(pump) - places)
        levels = self.start_percent + 100 * (bought - miles / self.mpg) / self.capacity_gallons
        found = zip(places.round(6).tolist(), levels.clip(1, 100).round(1).tolist(), strict=True)
        return [(Point(*place), level) for place, level in found]

    def level_fixes(self, step: timedelta) -> list[LevelFix]:
        """The levels on the way, one every `step`."""
        seconds = np.arange(0.0, float(self.seconds[-1]), step.total_seconds())
        return [
            LevelFix(place, self.departure + timedelta(seconds=second), level)
            for second, (place, level) in zip(seconds.tolist(), self.fixes_at(seconds), strict=True)
        ]

    def positions(self, vehicle_id: str, step: timedelta, *, until: datetime | None = None) -> list[Position]:
        """The fixes of the whole trip: standing at the first stop, on the way, standing at the last stop; those after
        `until` are left out."""
        ends = float(self.seconds[-1])
        driving = np.arange(45.0, ends, step.total_seconds())
        whole = [
            *self.standing_first(vehicle_id),
            *self._fixes(vehicle_id, driving, self._speeds(driving)),
            *self._standing(vehicle_id, ends),
        ]
        return [fix for fix in whole if until is None or fix.recorded_at <= until]

    def standing_first(self, vehicle_id: str) -> list[Position]:
        """The fixes at the first stop."""
        return self._standing(vehicle_id, -_STANDS_FOR.total_seconds())

    def _standing(self, vehicle_id: str, first: float) -> list[Position]:
        seconds = first + np.arange(0.0, _STANDS_FOR.total_seconds(), _STANDING_STEP.total_seconds())
        return self._fixes(vehicle_id, seconds, np.zeros(len(seconds)))

    def _speeds(self, seconds: Array) -> Array:
        """Miles an hour, as driven in the minute around each second."""
        return np.asarray((self._mile(seconds + 30) - self._mile(seconds - 30)) * 60).clip(0, 68).round(1)

    def _mile(self, seconds: Array) -> Array:
        return np.asarray(np.interp(seconds, self.seconds, self.miles))

    def _fixes(self, vehicle_id: str, seconds: Array, speeds_mph: Array) -> list[Position]:
        return [
            Position(
                latitude=place.latitude,
                longitude=place.longitude,
                recorded_at=self.departure + timedelta(seconds=second),
                vehicle_id=vehicle_id,
                speed_mph=speed,
                fuel_percent=level,
                accuracy_meters=8,
            )
            for second, speed, (place, level) in zip(
                seconds.tolist(), speeds_mph.tolist(), self.fixes_at(seconds), strict=True
            )
        ]
