"""A truck of the judge's world that sends positions at any times, for those who have many on the road at once."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from domain.contract.shapes import Position
from domain.roads import Point
from domain.stations.offers import Offer
from tests.benchmarks.truth.driver import MPH, Drive, Fix, Order
from tests.benchmarks.truth.orders import orders_of
from tests.benchmarks.truth.world import WORLDS, Trip, draw_trip, draw_truck


class _OffRoad(NamedTuple):
    """The way from the road to a station and back, with the time at its pump."""

    offer: Offer
    begin: datetime
    end: datetime

    def place(self, trip: Trip, moment: datetime) -> Point:
        """The truck's place, which drives straight to the pump and straight back."""
        road, station = trip.place_at(self.offer.mile), self.offer.station
        driven = min(moment - self.begin, self.end - moment) / timedelta(hours=1) * MPH
        share = min(driven / self.offer.detour_miles, 1.0) if self.offer.detour_miles else 1.0
        return Point(
            road.latitude + share * (station.latitude - road.latitude),
            road.longitude + share * (station.longitude - road.longitude),
        )


class _SeenDrive(Drive):
    """A drive that keeps the last way to a station, where drives themselves have no fix."""

    off_road: _OffRoad | None = None

    def _visit(self, stop: Order) -> None:
        begin = self.now
        super()._visit(stop)
        if self.now > begin:
            self.off_road = _OffRoad(stop.offer, begin, self.now)


class ReportingTruck:
    """A truck with a declared mpg and all errors. Its trip begins at a random time, so that in each hour of the
    `measured` ones, which begin at `zero`, trucks are at every part of their trips. The driver reads his messages."""

    def __init__(self, number: int, zero: datetime, *, measured: timedelta) -> None:
        world = WORLDS["declared"]
        self.unit_number = f"{number:05}"
        self.trip = draw_trip(world, draw_truck(world, number), number)
        lasts = timedelta(hours=self.trip.road.distance_miles / MPH)
        self.start = zero + measured - random.Random(number).random() * (lasts + measured)
        self.drive = _SeenDrive(self.trip, self, start=self.start)
        self.fix = Fix(self.start, 0.0, self.trip.shown_percent(self.trip.start_gallons, "fix", 0.0))
        self._steps = self.drive.steps()
        self._next: Fix | None = self.fix
        self._told: Sequence[Order] | None = None

    def begin(self, trip: Trip, fix: Fix) -> Sequence[Order]:
        return self.see(fix) or []

    def see(self, fix: Fix) -> Sequence[Order] | None:
        told, self._told = self._told, None
        return told

    def end(self, fix: Fix) -> None:
        pass

    def tell(self, text: str, plan: Any) -> None:
        """The driver gets a message with its plan, which begins where the truck is."""
        self._told = orders_of(self.trip, text, plan, self.fix.mile)

    def drive_until(self, moment: datetime) -> Position | None:
        """The position that the truck sends then; None before its trip and after it."""
        mile = self.fix.mile
        while self._next is not None and self._next.at <= moment:
            self.fix, self._next = self._next, next(self._steps, None)
        if moment < self.start or self._next is None:
            return None
        return self.position(moment, speed_mph=MPH if self.fix.mile > mile else 0.0)

    def position(self, moment: datetime, *, speed_mph: float = 0.0) -> Position:
        place = self._place(moment)
        return Position(
            place.latitude,
            place.longitude,
            moment,
            unit_number=self.unit_number,
            speed_mph=speed_mph,
            fuel_percent=self.fix.percent,
            accuracy_meters=8,
        )

    def _place(self, moment: datetime) -> Point:
        off_road = self.drive.off_road
        if off_road is not None and off_road.begin < moment < off_road.end:
            return off_road.place(self.trip, moment)
        return self.trip.place_at(self.fix.mile)
