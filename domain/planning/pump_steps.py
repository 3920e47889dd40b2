"""The cheapest purchases in whole steps of a pump: no others in such steps cost less.

The optimum in any fractions of gallons, rounded, is nearly always the cheapest plan in whole steps too. Sometimes other
stops, or gallons rounded otherwise, are cheaper by some cents, because they lose less to rounding. So each beginning of
the trip in whole steps is tried that may still lead to a plan which costs less than the one that is known:

    least cost of the beginning, in whole steps + T(level) < known cost

T, the least cost of the rest in any fractions, is that of `each_stop`. It leaves one or two beginnings on most trips.
A purchase in whole steps keeps the fraction of a step that is in the tank, and a detour changes it. Beginnings that end
at the same candidate with the same fraction are one cost function of the level, as in `optimizer`.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from domain.planning.each_stop import at_end
from domain.planning.least_cost import (
    CostFunction,
    CostSegment,
    StationInGallons,
    after_stop,
    after_stops,
    at_least,
    cheaper,
    least_sum,
    purchases_of,
)
from domain.planning.optimizer import NearStops, solve_within
from domain.planning.trips import (
    GALLON_TOLERANCE,
    BrokenPlan,
    Purchase,
    Solution,
    Trip,
    drive_trip,
    objective_of,
)

STEPS_GALLONS = (0.1, 0.01, 0.001)
"""The steps in which pumps show gallons, in the order in which they are tried."""

STEP_TOLERANCE = 1e-6
"""Whole steps may miss a limit by this share of a step: the error of floating-point sums."""

CHEAPER_DOLLARS = 1e-5
"""Plans that cost less than another by this much or less count as equal."""

MOST_STOPS_TRIED = 5_000
"""Stops behind a beginning that are tried at most for a plan, some tenths of a second to seconds. Nearly all trips take
less than 200; those past many stations that cost the same, where stops are free and small, take more."""


class TooManyBeginnings(Exception):
    """The cheapest purchases in whole steps are not known: too many beginnings may lead to them."""


def step_of(purchases: Sequence[Purchase]) -> float:
    """The largest step in which a pump shows all these gallons."""
    for step in STEPS_GALLONS:
        if all(abs(gallons / step - round(gallons / step)) < STEP_TOLERANCE for _, gallons in purchases):
            return step
    return STEPS_GALLONS[-1]


def cheapest_in_steps(trip: Trip, known: Solution, near: NearStops) -> Solution:
    """The cheapest purchases in steps like those of known ones, which stay where none cost less, and where that is not
    found out with reasonable work. `near` has the stops with which a plan may cost as much as the known one."""
    cheapest, step = _without_stops(trip, known), step_of(known.purchases)
    try:
        behind, least = _behind(trip, near, known.objective), cheapest.objective - CHEAPER_DOLLARS
        found = cheaper_in_steps(trip, behind, step, least, most_tried=MOST_STOPS_TRIED)
    except TooManyBeginnings:
        if near.max_stops == trip.max_stops:
            return cheapest
        # The limit on stops matters, so they have to be counted.
        solve_within(trip, trip.max_stops, known.objective, near)
        return cheapest_in_steps(trip, cheapest, near)
    return Solution(tuple(found), objective_of(trip, found)) if found and _is_driven(trip, found) else cheapest


def _without_stops(trip: Trip, known: Solution) -> Solution:
    """The trip without a stop, if that costs less."""
    without = Solution((), objective_of(trip, ()))
    return without if without.objective < known.objective - CHEAPER_DOLLARS and _is_driven(trip, ()) else known


def _is_driven(trip: Trip, purchases: Sequence[Purchase]) -> bool:
    try:
        drive_trip(trip, purchases)
    except BrokenPlan:
        return False
    return True


Behind = tuple[StationInGallons, Sequence[CostFunction]]
"""A station and T behind it: one function, or one for each number of stops that may be left after a stop there."""


def _behind(trip: Trip, near: NearStops, at_most: float) -> list[Behind]:
    """T behind each station where a plan may stop that costs less than `at_most`, by such stops alone."""
    counted, behind = near.max_stops is not None, list[Behind]()
    layers = [at_end(trip)] * (1 if near.max_stops is None else near.max_stops + 1)
    for station, stopped in reversed(near.met):
        backward = station.backward()
        here = [at_least(T, backward.lowest_passing) for T in layers]
        if any(least_sum(S, T)[0] < at_most for S, T in zip(stopped, reversed(here), strict=True)):
            behind.append((station, here[:-1] if counted else here))
            layers = [*map(cheaper, here, after_stops(here, backward, trip.stop_cost, counted=counted))]
    return behind[::-1]


def cheaper_in_steps(
    trip: Trip, behind: Iterable[Behind], step: float, at_most: float, *, most_tried: int
) -> Sequence[Purchase] | None:
    """The cheapest purchases in whole steps, with a stop or more, if they cost less than `at_most`. Functions `behind`
    are nowhere above T. Raises TooManyBeginnings where more stops than `most_tried` are left to be tried."""
    search, tried = _Search(trip, step, at_most), 0
    start = trip.start_usable_gallons
    beginnings = [_Beginning(0, 0.0, [(start, start, CostSegment(0.0, 0.0))])]
    for station, layers in behind:
        beginnings = [one for one in beginnings if one.highest >= station.lowest_passing + min(trip.margin_gallons, 0)]
        tried += len(beginnings)
        if tried > most_tried:
            raise TooManyBeginnings
        new: dict[tuple[int, float], _Beginning] = {}
        for one in search.after_stop(beginnings, station, layers):
            key = one.stops, search.fraction(one.burned)
            new[key] = one._replace(costs=cheaper(new[key].costs, one.costs)) if key in new else one
        beginnings += new.values()
    return search.found


class _Beginning(NamedTuple):
    """The beginning of a trip up to a stop: its stops, the gallons that its detours have burned, and its least cost by
    the level behind the stop. Stops are 1 for any number of them where these are not limited."""

    stops: int
    burned: float
    costs: CostFunction

    @property
    def highest(self) -> float:
        return self.costs[-1][1]


class _Search:
    """Finds the cheapest purchases in whole steps that cost less than `at_most`, which falls to the cost of those
    found."""

    def __init__(self, trip: Trip, step: float, at_most: float) -> None:
        self.found: Sequence[Purchase] | None = None
        self._trip, self._step, self._at_most = trip, step, at_most
        burned, self._worth = trip.gallons_to(trip.distance_miles), trip.leftover_value_per_gallon
        self._wanted, self._worth_of_all = (
            max(trip.reserve_gallons, trip.end_gallons) + burned,
            self._worth * (burned + trip.end_gallons),
        )

    def after_stop(
        self, beginnings: Sequence[_Beginning], station: StationInGallons, layers: Sequence[CostFunction]
    ) -> Iterator[_Beginning]:
        """The beginnings that end with a stop here, as far as they may lead to cheaper purchases."""
        most_stops = self._trip.max_stops
        for one in beginnings:
            if one.stops == most_stops or not (one.stops or self._trip.may_begin_at(station.candidate_index)):
                continue
            T = layers[-1 - one.stops] if len(layers) > 1 else layers[0]
            burned = one.burned + station.detour
            costs = after_stop(self._arriving(one, station), self._in_steps(station, burned), self._trip.stop_cost)
            kept = [piece for piece in costs if least_sum([piece], T)[0] < self._at_most]
            if kept:
                self._finish(kept, burned)
                yield _Beginning(one.stops + 1 if most_stops is not None else 1, burned, kept)

    def _arriving(self, one: _Beginning, station: StationInGallons) -> CostFunction:
        lowest = station.lowest if one.stops else station.lowest_first
        return at_least(one.costs, self._up(lowest, one.burned) - GALLON_TOLERANCE)

    def _in_steps(self, station: StationInGallons, burned: float) -> StationInGallons:
        """The station with limits that whole steps can meet."""
        smallest = math.ceil(station.smallest / self._step - STEP_TOLERANCE) * self._step
        highest = -self._up(-station.highest, -burned, -self._trip.start_usable_gallons)
        return station._replace(smallest=smallest, highest=highest + GALLON_TOLERANCE)

    def _up(self, level: float, burned: float, start: float | None = None) -> float:
        """The lowest level from this one on that whole steps lead to."""
        empty = (self._trip.start_usable_gallons if start is None else start) - burned
        return empty + math.ceil((level - empty) / self._step - STEP_TOLERANCE) * self._step

    def fraction(self, burned: float) -> float:
        """The share of a step that is in the tank beside whole steps."""
        return round((self._trip.start_usable_gallons - burned) / self._step % 1, 7) % 1

    def _finish(self, costs: CostFunction, burned: float) -> None:
        """Note the cheapest purchases of a trip that ends without another stop."""
        wanted = self._up(self._wanted, burned)
        for low, high, line in costs:
            if high >= wanted - GALLON_TOLERANCE:
                level = max(low, min(wanted, high)) if line.slope >= self._worth else high
                cost = line.base + (line.slope - self._worth) * level + self._worth_of_all
                if cost < self._at_most:
                    self._at_most, self.found = cost, self._purchases(line, level)

    def _purchases(self, line: CostSegment, level: float) -> list[Purchase]:
        in_a_gallon = round(1 / self._step)
        purchases = reversed([*purchases_of(line, level)])
        return [Purchase(index, round(gallons * in_a_gallon) / in_a_gallon) for index, gallons in purchases]
