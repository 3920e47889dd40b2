"""A drive: the truck burns what the world says, and its driver does what his newest orders say."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from domain.stations.offers import Offer
from tests.benchmarks.truth.world import Trip
from tests.domain.planning.plans import usual_policy

FIX_MILES = 5.0
MPH = 60.0
FUEL_STOP_TIME = timedelta(minutes=30)
REST = timedelta(hours=12)
SAME_PERCENT = 1.0
"""A level in whole percents tells a driver no more than the gallons beside it where they differ by less than this."""
LOW_PERCENT = 12.0
"""The driver is to be told before his tank is below this."""
USUAL_DETOUR_MILES = 5.0
SKIPPED_MILES = 20.0
"""A driver who skips a stop likes another one better, at least this far ahead."""

HALF_UP = 1e-9
"""A price of a purchase that ends on half a cent is rounded up, as plans round it."""

START = datetime(2026, 12, 1, 14, tzinfo=UTC)


class Fix(NamedTuple):
    """The truck's place and what its gauge shows."""

    at: datetime
    mile: float
    percent: float


class Order(NamedTuple):
    """A purchase that the driver is told. `fill_percent` is the level that the message names before the gallons, and
    `way_out` the station that it names for a closed pump."""

    offer: Offer
    gallons: float
    fill_percent: float | None = None
    way_out: Offer | None = None


class Dispatch(Protocol):
    """Tells the driver where to fuel."""

    def begin(self, trip: Trip, fix: Fix) -> Sequence[Order]:
        """The first orders."""

    def see(self, fix: Fix) -> Sequence[Order] | None:
        """New orders after a fix; None where nothing is new."""

    def end(self, fix: Fix) -> None:
        """The truck has arrived, or is out of fuel."""


@dataclass
class Outcome:
    """A drive's figures. `told_percent` is the true level at the driver's second message; `low_told` tells if that
    message came before the tank was below 12 %, and is None where it never was. `passed_when_low` counts the open
    stations that a truck passed below 12 % before it ran dry. `hindered`: a stop was skipped or closed."""

    seed: int
    miles: float = 0.0
    dollars: float = 0.0
    bought_gallons: float = 0.0
    stops: int = 0
    left_gallons: float = 0.0
    lowest_percent: float = 100.0
    dry_mile: float | None = None
    passed_when_low: int = 0
    hindered: bool = False
    messages: int = 0
    told_percent: float | None = None
    low_told: bool | None = None
    optimum_dollars: float | None = None
    optimum_left_gallons: float = 0.0
    fuel_price: float = 0.0
    mean_price: float = 0.0
    notes: list[str] = field(default_factory=list)


class Drive:
    """One trip from its start to its end, or to the place where the tank is empty."""

    fix_miles = FIX_MILES

    def __init__(
        self, trip: Trip, dispatch: Dispatch, *, start: datetime = START, counts_messages: bool = True
    ) -> None:
        self.trip, self.dispatch = trip, dispatch
        self.mile, self.gallons, self.now = 0.0, trip.start_gallons, start
        self.orders: list[Order] = []
        self.stop_cost = usual_policy().stop_cost
        self.outcome = Outcome(trip.seed, miles=trip.road.distance_miles)
        self._counts = counts_messages
        self._low_mile: float | None = None

    @property
    def percent(self) -> float:
        return 100 * self.gallons / self.trip.truck.capacity_gallons

    @property
    def next_start(self) -> datetime:
        """The truck goes on after a rest."""
        return self.now + REST

    def run(self) -> Outcome:
        for _ in self.steps():
            pass
        return self.outcome

    def steps(self) -> Iterator[Fix]:
        """Each fix on the way. Between two of them the driver may be told something new."""
        end, next_fix = self.trip.road.distance_miles, self.fix_miles
        self._follow(self.dispatch.begin(self.trip, self._fix()))
        while self.mile < end and self.outcome.dry_mile is None:
            stop = self.orders[0] if self.orders else None
            target = min(next_fix, end, stop.offer.mile if stop else end)
            self._drive_to(target)
            if stop is not None and self.mile >= stop.offer.mile:
                del self.orders[0]
                self._visit(stop)
            elif self.mile >= next_fix:
                next_fix += self.fix_miles
                fix = self._fix()
                yield fix
                self._follow(self.dispatch.see(fix))
        self.outcome.left_gallons = max(self.gallons, 0.0)
        self.dispatch.end(self._fix())

    def _fix(self) -> Fix:
        return Fix(self.now, self.mile, self.trip.shown_percent(self.gallons, "fix", round(self.mile, 3)))

    def _note(self, text: str) -> None:
        self.outcome.notes.append(f"mile {self.mile:.0f}, {self.percent:.1f} %: {text}")

    def _follow(self, orders: Sequence[Order] | None) -> None:
        """The driver does what the newest message says, and forgets the one before."""
        if orders is None or self.outcome.dry_mile is not None:
            return
        self.orders = [one for one in orders if one.offer.mile >= self.mile]
        self.outcome.messages += self._counts
        if self.outcome.messages == 2:
            self.outcome.told_percent = self.percent
        shown = ", ".join(f"{one.gallons:.0f} gal at {one.offer.mile:.0f}" for one in self.orders)
        self._note(f"told {shown or 'no stop'}")

    def _drive_to(self, mile: float) -> None:
        before, start = self.gallons, self.mile
        self.now += timedelta(hours=(mile - start) / MPH)
        self._burn(self.trip.burned(mile) - self.trip.burned(start))
        if self.outcome.dry_mile is not None:
            self.outcome.dry_mile = start + (mile - start) * before / (before - self.gallons)
        self.mile = mile

    def _detour(self, offer: Offer) -> None:
        self.now += timedelta(hours=offer.detour_miles / MPH)
        self._burn(offer.detour_miles * self.trip.gallons_a_mile(offer.mile))

    def _burn(self, gallons: float) -> None:
        self.gallons -= gallons
        outcome = self.outcome
        outcome.lowest_percent = min(outcome.lowest_percent, self.percent)
        if self.percent < LOW_PERCENT and outcome.low_told is None:
            outcome.low_told, self._low_mile = outcome.messages > 1, self.mile
        if self.gallons <= 0 and outcome.dry_mile is None:
            outcome.dry_mile = self.mile
            outcome.passed_when_low = len(self._open_between(self._low_mile or 0.0, self.mile))
            self._note("dry")

    def _open_between(self, first: float, last: float) -> list[Offer]:
        return [
            one
            for one in self.trip.offers
            if first <= one.mile <= last and one.detour_miles <= USUAL_DETOUR_MILES and not self.trip.is_closed(one)
        ]

    def _visit(self, stop: Order) -> None:
        if self.trip.is_skipped(stop.offer):
            self._note("skips the stop")
            self.outcome.hindered = True
            if self.trip.world.makes_up_for_skips:
                self._go_to(self._next_station(stop.offer, self.mile + SKIPPED_MILES), stop)
            return
        self._detour(stop.offer)
        if self.outcome.dry_mile is not None:
            return
        if self.trip.is_closed(stop.offer):
            self._note("finds it closed")
            self.outcome.hindered = True
            self._go_to(stop.way_out or self._next_station(stop.offer, self.mile), stop)
        else:
            self._buy(stop)
        self._detour(stop.offer)

    def _go_to(self, offer: Offer | None, stop: Order) -> None:
        """The driver buys here what he was to buy at the stop."""
        if offer is not None:
            elsewhere = stop._replace(offer=offer, way_out=None)
            self.orders = sorted([elsewhere, *self.orders], key=lambda one: one.offer.mile)

    def _next_station(self, offer: Offer, mile: float) -> Offer | None:
        return next(
            (
                one
                for one in self.trip.offers
                if one.mile >= mile and one.detour_miles <= USUAL_DETOUR_MILES and one.station != offer.station
            ),
            None,
        )

    def _buy(self, stop: Order) -> None:
        trip, offer = self.trip, stop.offer
        room = max(trip.truck.usable_gallons - self.gallons, 0.0)
        gallons = room if trip.is_filled(offer) else min(trip.pumped(self._wanted(stop)), room)
        if gallons <= 0:
            return
        self._note(f"buys {gallons:.1f} gal")
        self.now += FUEL_STOP_TIME
        self.gallons += gallons
        self.outcome.stops += 1
        self.outcome.bought_gallons += gallons
        self.outcome.dollars += round(gallons * trip.true_price(offer) + HALF_UP, 2) + self.stop_cost

    def _wanted(self, stop: Order) -> float:
        """The gallons up to the level that the message names, by the truck's gauge; the message's gallons where it
        names none."""
        if stop.fill_percent is None:
            return stop.gallons
        capacity = self.trip.truck.capacity_gallons
        shown = self.trip.shown_percent(self.gallons, "pump", stop.offer.station.station_id)
        gallons = (stop.fill_percent - shown) * capacity / 100
        return stop.gallons if abs(gallons - stop.gallons) <= SAME_PERCENT * capacity / 100 else max(gallons, 0.0)
