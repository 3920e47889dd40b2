"""A truck that is only simulated: its position, its fuel, and the fixes that it posts."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from domain.roads import Point, Road

FIX_SECONDS = 30
DWELL_FIXES = 10
"""Five minutes at each stop: longer than any rule of arrivals needs."""
POSTED_AT_ONCE = 200


@dataclass(slots=True)
class Truck:
    """A truck's clock and fuel, and the fixes that it has posted or will post."""

    vehicle_id: str
    post: Callable[[list[dict[str, Any]]], None]
    now: datetime
    fuel_percent: float
    fixes: int = 0
    unsent: list[dict[str, Any]] = field(default_factory=list)

    def fix(self, latitude: float, longitude: float, speed_mph: float) -> None:
        self.unsent.append(
            {
                "vehicleId": self.vehicle_id,
                "latitude": round(latitude, 6),
                "longitude": round(longitude, 6),
                "recordedAt": self.now.isoformat(),
                "speedMph": speed_mph,
                "fuelPercent": round(max(self.fuel_percent, 0), 1),
                "accuracyMeters": 8,
            }
        )
        if len(self.unsent) >= POSTED_AT_ONCE:
            self.send()

    def send(self) -> None:
        if self.unsent:
            self.post(self.unsent)
            self.fixes += len(self.unsent)
            self.unsent = []


@dataclass(slots=True)
class Trip:
    """A truck on its road: burns fuel by the mile, and fills up where its plan says."""

    truck: Truck
    road: Road
    speed_mph: float
    mpg: float
    capacity_gallons: float
    real_time: bool
    refuels: list[tuple[float, float]] = field(default_factory=list)
    """Mile and gallons of the fuel stops ahead."""

    def stand_at(self, stop: Point) -> None:
        for _ in range(DWELL_FIXES):
            self._fix(*stop, speed_mph=0)
        self.truck.send()

    def drive(self, start_mile: float, end_mile: float, show: Callable[[float], None]) -> None:
        """Drives from one mile until just before another."""
        miles_a_fix = self.speed_mph * FIX_SECONDS / 3600
        mile = start_mile + miles_a_fix
        while mile < end_mile:
            self.truck.fuel_percent -= self._percent_of_tank(miles_a_fix / self.mpg)
            self._refuel_until(mile)
            self._fix(*self._place_at(mile), speed_mph=self.speed_mph)
            show(mile)
            mile += miles_a_fix

    def _refuel_until(self, mile: float) -> None:
        """Stands at the pump of each fuel stop passed: a tank that fills on the road is not believed."""
        while self.refuels and self.refuels[0][0] <= mile:
            at, gallons = self.refuels.pop(0)
            self._fix(*self._place_at(at), speed_mph=0)
            self.truck.fuel_percent += self._percent_of_tank(gallons)
            self.stand_at(Point(*self._place_at(at)))

    def _percent_of_tank(self, gallons: float) -> float:
        return 100 * gallons / self.capacity_gallons

    def _place_at(self, mile: float) -> tuple[float, float]:
        """Latitude and longitude."""
        latitudes, longitudes = self.road.line.T
        return (
            float(np.interp(mile, self.road.line_miles, latitudes)),
            float(np.interp(mile, self.road.line_miles, longitudes)),
        )

    def _fix(self, latitude: float, longitude: float, *, speed_mph: float) -> None:
        """Makes one fix, and waits for the next in real time."""
        self.truck.fix(latitude, longitude, speed_mph)
        if self.real_time:
            self.truck.send()
            time.sleep(FIX_SECONDS)
        self.truck.now += timedelta(seconds=FIX_SECONDS)
