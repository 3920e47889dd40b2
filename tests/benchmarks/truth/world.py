"""The differences of the world from a plan's inputs: each error is a function with its figure."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from domain.planning.plan_inputs import USABLE_SHARE
from domain.roads import Point, Road
from domain.roads.sphere import Array
from domain.stations.offers import Offer
from tests.benchmarks.truth.chances import draws, happens, normal
from tests.benchmarks.truth.network import draw_road, network

MPG_OFF, MPG_OFF_SPREAD = -0.03, 0.08
"""A trip's mileage is off the truck's by N(-3 %, 8 %)."""
MPG_ALONG_SPREAD, STRETCH_MILES = 0.08, 50.0
"""Wind, hills and traffic: the mileage of each stretch is off the trip's by N(0, 8 %)."""
GAUGE_BIAS_SPREAD, GAUGE_NOISE = 3.0, 1.5
"""Percent of capacity: the gauge of a trip is off by N(0, 3), and each reading by N(0, 1.5) more."""
PRICE_SPREAD = 0.03
"""Dollars a gallon: the price at the pump is off the price that we know by N(0, 0.03)."""
CLOSED_SHARE = 0.03
SKIPPED_SHARE, FILLED_SHARE, PUMP_GALLONS = 0.08, 0.15, 5.0
"""A driver skips 8 % of his stops, fills up at 15 % of them, and stops the pump at the nearest 5 gallons."""

REFUSED_SHARE, CHOSEN_DOLLARS = 0.15, 5.0
"""A driver who cannot go where he is told, and takes a choice of his menu that costs at most $5 more."""

LEAST_MPG, MOST_MPG = 5.6, 8.2
TANKS_GALLONS = (150.0, 200.0)
LEAST_START_PERCENT, MOST_START_PERCENT = 25.0, 50.0


@dataclass(frozen=True, kw_only=True)
class World:
    """A kind of world. `burns_more`: trucks burn this share more than they declare. `has_errors`: mileage, gauges,
    prices, stations and drivers are off. `gauge_is_off`: the gauge is, by the same for the whole trip.
    `makes_up_for_skips`: a driver who skips a stop fuels at another.
    `driver`: what the driver goes by. `chooses_within`: a driver who will skip his next stop says so beforehand, and
    takes a choice for these dollars or gets a plan without the stop; None: he says nothing."""

    title: str
    declares_mpg: bool = True
    has_errors: bool = True
    gauge_is_off: bool = False
    makes_up_for_skips: bool = True
    burns_more: float = 0.0
    trips_before: int = 0
    driver: str = "plan"
    skipped_share: float = SKIPPED_SHARE
    chooses_within: float | None = None


WORLDS = {
    "declared": World(title="mpg declared"),
    "skips": World(title="mpg declared, skips are not made up for", makes_up_for_skips=False),
    "refuses": World(title="mpg declared, 15 % of stops refused", skipped_share=REFUSED_SHARE),
    "chooses": World(
        title="mpg declared, 15 % refused, choices within $5",
        skipped_share=REFUSED_SHARE,
        chooses_within=CHOSEN_DOLLARS,
    ),
    "not-declared": World(title="mpg not declared", declares_mpg=False),
    "learned": World(title="not declared, after three trips", declares_mpg=False, trips_before=3),
    "burns-15": World(title="burns 15 % more, else exact", has_errors=False, burns_more=0.15),
    "burns-20": World(title="burns 20 % more, else exact", has_errors=False, burns_more=0.20),
    "burns-15-errors": World(title="burns 15 % more, and all errors", burns_more=0.15),
    "exact": World(title="no errors at all", has_errors=False),
    "gauge-off": World(title="the gauge is off, else exact", has_errors=False, gauge_is_off=True),
    "fills-up": World(title="no plan: fills up below 30 %", driver="below 30 %"),
    "cheapest": World(title="no plan: the cheapest pump in range", driver="cheapest"),
}


class Truck(NamedTuple):
    """A truck with its true mileage over many trips. `declared_mpg` is None where the company declared none."""

    capacity_gallons: float
    declared_mpg: float | None
    mpg: float

    @property
    def usable_gallons(self) -> float:
        return self.capacity_gallons * USABLE_SHARE


def draw_truck(world: World, seed: int) -> Truck:
    rng = draws(seed, "truck")
    capacity, mpg = rng.choice(TANKS_GALLONS), round(rng.uniform(LEAST_MPG, MOST_MPG), 1)
    return Truck(capacity, mpg if world.declares_mpg else None, mpg / (1 + world.burns_more))


@dataclass(frozen=True, eq=False)
class Trip:
    """One trip as it truly is. `offers` have the prices that are known; `seed` decides everything else."""

    world: World
    seed: int
    truck: Truck
    road: Road
    offers: list[Offer]
    start_gallons: float
    miles: Array = field(repr=False)
    burned_gallons: Array = field(repr=False)

    def place_at(self, mile: float) -> Point:
        latitude, longitude = (float(np.interp(mile, self.road.line_miles, column)) for column in self.road.line.T)
        return Point(latitude, longitude)

    def burned(self, mile: float) -> float:
        """The gallons that the road burns up to this mile."""
        return float(np.interp(mile, self.miles, self.burned_gallons))

    def gallons_a_mile(self, mile: float) -> float:
        """The burn of a detour that leaves the road here."""
        before, after = max(mile - 1, 0.0), min(mile + 1, self.road.distance_miles)
        return (self.burned(after) - self.burned(before)) / (after - before)

    def shown_percent(self, gallons: float, *reading: object) -> float:
        """The level that the gauge shows."""
        percent = 100 * gallons / self.truck.capacity_gallons
        if not self.world.has_errors:
            return percent + (self.gauge_bias if self.world.gauge_is_off else 0.0)
        noise = normal(0, GAUGE_NOISE, self.seed, "noise", *reading)
        return float(min(max(round(percent + self.gauge_bias + noise), 0), 100))

    @cached_property
    def gauge_bias(self) -> float:
        return normal(0, GAUGE_BIAS_SPREAD, self.seed, "bias")

    def true_price(self, offer: Offer) -> float:
        if not self.world.has_errors:
            return offer.net_price
        return offer.net_price + normal(0, PRICE_SPREAD, self.seed, "price", offer.station.station_id)

    def is_closed(self, offer: Offer) -> bool:
        return self.world.has_errors and happens(CLOSED_SHARE, self.seed, "closed", offer.station.station_id)

    def is_skipped(self, offer: Offer) -> bool:
        return self.world.has_errors and happens(
            self.world.skipped_share, self.seed, "skipped", offer.station.station_id
        )

    def is_filled(self, offer: Offer) -> bool:
        return self.world.has_errors and happens(FILLED_SHARE, self.seed, "filled", offer.station.station_id)

    def pumped(self, gallons: float) -> float:
        """The gallons that the driver pumps where he wants so many."""
        return round(gallons / PUMP_GALLONS) * PUMP_GALLONS if self.world.has_errors else gallons


def draw_trip(world: World, truck: Truck, seed: int) -> Trip:
    rng = draws(seed, "trip")
    road = draw_road(rng)
    start = truck.capacity_gallons * rng.uniform(LEAST_START_PERCENT, MOST_START_PERCENT) / 100
    miles, burned = _burn(world, truck, road.distance_miles, seed)
    return Trip(world, seed, truck, road, network().offers_along(road), start, miles, burned)


def _burn(world: World, truck: Truck, distance_miles: float, seed: int) -> tuple[Array, Array]:
    """The gallons burned up to the end of each stretch of the road."""
    miles = np.append(np.arange(0.0, distance_miles, STRETCH_MILES), distance_miles)
    if not world.has_errors:
        return miles, miles / truck.mpg
    of_trip = truck.mpg * (1 + normal(MPG_OFF, MPG_OFF_SPREAD, seed, "mpg"))
    mpg = [of_trip * (1 + normal(0, MPG_ALONG_SPREAD, seed, "stretch", number)) for number in range(len(miles) - 1)]
    return miles, np.concatenate([[0.0], np.cumsum(np.diff(miles) / mpg)])
