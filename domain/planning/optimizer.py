"""The cheapest purchases of a trip: its exact least cost, by a forward dynamic program.

**The problem.** Candidate i is passed after b_i gallons of road, a number that does not fall along the road, and sells
at p_i dollars a gallon; its detour burns d_i = d_in + d_out gallons. The fuel in the tank stays between the reserve R
and the usable U; a truck that stops at i arrives there with at least F_i, the candidate's floor, where that is more
than R; a stop costs c dollars and buys x >= Q_i gallons, the smallest purchase (and at least d_i); at the destination,
after b_end gallons, at least E is wanted, and what is left above E is worth v dollars a gallon. Wanted: the least sum
of c + p_i x over the stops, less the worth of what is left.

**The state** is the level g: gallons in the tank plus gallons burned on the road since mile 0. Driving leaves it as it
is and only raises the lowest one allowed. V_i(g) is the least cost of passing candidate i at level g:

    V_0(g) = 0 at the level of the start, infinite elsewhere
    V_i    = min(drive on, stop)
      drive on: V_{i-1}(g) where g >= R + b_i
      stop: x takes g to h = g + x - d_i, so with x >= Q_i and W(g) = V_{i-1}(g) - p_i g
        S_i(h) = c + p_i (h + d_i) + min { W(g) : max(R, F_i) + b_i + d_in <= g <= h + d_i - Q_i }
                 where h <= U + b_i - d_out
    answer = min { V_n(g) - v (g - b_end - E) : g >= max(R, E) + b_end }

Every V_i is piecewise linear and kept exactly, piece by piece, without a grid. The inner minimum is the running
(prefix) minimum of W, shifted up by Q_i - d_i: where it falls, S_i has the slope of V and exactly Q_i is bought; where
it stays, S_i has the slope p_i and one arrival level is the best for a whole range of h. V_i is the lower envelope of
the two. A limit of K stops makes it K + 1 functions, one for each number of stops made. Where the first stop is
restricted to some candidates, the level of the start leads to a stop at these alone, and never to the destination.

Before the first stop R + M takes the place of R. M is positive in old plans, which kept a margin, and negative where
the truck may use some of its reserve until it reaches fuel; then it has no floor at its first stop either. So the level
of the start stands apart, and only V of a truck that has stopped is a function with pieces.

**Floors need no state of their own.** A floor is a limit on the level at which a stop at i is made, and that level is
the state. So it only raises the lowest g in S_i; driving past i is as free as before. The destination has no floor but
E.

**No dominance.** Without a smallest purchase Q, more fuel at no more cost is never worse. It is enough to look at
trucks that arrive empty or leave full: greedy rules do, or O(n) levels at each candidate. With Q a fuller tank can be
worse, because it may leave no room to buy where fuel is cheap. So V is neither convex nor monotone, and every level
that can be reached is kept.

**Levels that cannot win are dropped.** A station that is dearer and further off the road than its neighbour cannot
simply be left out: with the smallest purchase, its longer detour may make just the room that a later purchase needs.
Costs can be compared, though. A level that suffices for the rest of the way is a finished plan, and a level below it
costs at least one stop more and the cheapest price ahead for each gallon that is missing. Levels that then cost more
than a finished plan are dropped. On an hour's drive past a thousand stations few are left. Floors change nothing here:
they forbid stops and allow none, so what is at least to be paid stays, and a finished plan has no stop ahead whose
floor it could miss. The cost of any plan that is known before does the same from the first candidate on. A station at
which the smallest purchase alone makes every level cost more than that is driven past without making a stop there.

**Complexity.** A candidate takes time linear in the pieces of V. We know no useful bound on their number. On truck
trips V has about 8 pieces with 100 candidates, and 14 with 2,000; many stations at one price, all on the road itself,
make hundreds.

**Sources.** Without Q and c: S. Khuller, A. Malekian, J. Mestre, "To fill or not to fill: the gas station problem", ESA
2007 and ACM Transactions on Algorithms 7, 2011; S. H. Lin, N. Gertsch, J. R. Russell, "A linear-time algorithm for
finding optimal vehicle refueling policies", Operations Research Letters 35, 2007. What carriers ask for, as integer
programs: Y. Suzuki, "A generic model of motor-carrier fuel optimization", Naval Research Logistics 55, 2008; with the
choice of the road, "A decision support system of vehicle routing and refueling for motor carriers with time-sensitive
demands", Decision Support Systems 54, 2012.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from domain.planning.least_cost import (
    CostFunction,
    CostSegment,
    StationInGallons,
    after_stops,
    at_least,
    cheaper,
    each_station,
    purchases_of,
)
from domain.planning.trips import (
    DOLLAR_TOLERANCE,
    GALLON_TOLERANCE,
    BrokenPlan,
    Infeasible,
    Purchase,
    Solution,
    Trip,
    drive_trip,
    objective_of,
)

TIE_BREAK_DOLLARS = 1e-8
"""Dollars added to the cost of each stop, so that of two plans with equal costs the one with fewer stops is cheaper."""


_MANY, _FEW = 150, 12
"""From this many candidates on, a plan past one of each few is worth the time that it takes to find."""

_KNOWN_SLACK_DOLLARS = 0.01
"""Known purchases may break a limit by the error of floating-point sums, so their cost counts with this slack."""


@dataclass
class NearStops:
    """The stops with which a trip may cost up to `slack_dollars` more than at least, as a search has met them: each
    station, and S of a stop there. Where stops are counted up to `max_stops`, S has one function for each number of
    stops made. Stops that cost more may be among them."""

    slack_dollars: float
    max_stops: int | None = None
    met: list[tuple[StationInGallons, list[CostFunction]]] = field(default_factory=list)


def solve(
    trip: Trip,
    known: Sequence[Purchase] | None = None,
    near: NearStops | None = None,
    *,
    stops_without_limit: int = 0,
) -> Solution | Infeasible:
    """The cheapest purchases. Of two solutions that cost the same, the one with fewer stops wins, then the one that
    stops earlier, and at one mile the one at the first candidate, which has the lesser id. `near` gets the stops of
    plans that cost hardly more.

    `known` are purchases that may be a plan of this trip. Where they keep its limits, levels that cost more are dropped
    from the start; past many stations also those that cost more than a plan with a few of these. The solution is the
    same. `stops_without_limit` are those of the cheapest purchases without a limit on stops, as far as they are known:
    more than the limit save the attempt without one.
    """
    is_limited = trip.max_stops is not None and stops_without_limit > trip.max_stops
    at_most = min(_cost_of_known(trip, known), _cost_of_known(trip, _plan_of_few(trip)))
    if math.isfinite(at_most):
        solution = _within_stops(trip, at_most, near, is_limited=is_limited)
        if isinstance(solution, Solution):
            return solution
    return _within_stops(trip, math.inf, near, is_limited=is_limited)


def _plan_of_few(trip: Trip) -> Sequence[Purchase] | None:
    """A plan that stops at the cheapest of each `_FEW` stations alone; None where there is none, or few stations."""
    if len(trip.candidates) < _MANY or trip.first_stops is not None:
        return None
    prices = [one.price for one in trip.candidates]
    groups = [range(first, min(first + _FEW, len(prices))) for first in range(0, len(prices), _FEW)]
    few = [min(group, key=prices.__getitem__) for group in groups]
    found = _within_stops(replace(trip, candidates=tuple(trip.candidates[index] for index in few)), math.inf)
    if isinstance(found, Infeasible):
        return None
    return [Purchase(few[index], gallons) for index, gallons in found.purchases]


def _cost_of_known(trip: Trip, known: Sequence[Purchase] | None) -> float:
    """The most that the cheapest purchases cost; infinite where that is not known."""
    if known is None:
        return math.inf
    try:
        drive_trip(trip, known)
    except BrokenPlan:
        return math.inf
    return objective_of(trip, known) + _KNOWN_SLACK_DOLLARS


def _within_stops(
    trip: Trip, at_most: float, near: NearStops | None = None, *, is_limited: bool = False
) -> Solution | Infeasible:
    """The cheapest purchases. A limit on stops multiplies the work, so the first attempt has none, unless it is known
    that it would make too many (`is_limited`)."""
    if is_limited:
        return solve_within(trip, trip.max_stops, at_most, near)
    solution = solve_within(trip, None, at_most, near)
    if trip.max_stops is not None and isinstance(solution, Solution) and len(solution.purchases) > trip.max_stops:
        solution = solve_within(trip, trip.max_stops, at_most, near)
    return solution


def solve_within(
    trip: Trip, max_stops: int | None, at_most: float, near: NearStops | None = None
) -> Solution | Infeasible:
    """The cheapest purchases that cost no more than `at_most`, if there are any, with this limit of stops."""
    reserve, usable = trip.reserve_gallons - GALLON_TOLERANCE, trip.usable_gallons + GALLON_TOLERANCE
    burned = trip.gallons_to(trip.distance_miles)
    slack_dollars = near.slack_dollars if near is not None else DOLLAR_TOLERANCE
    finish = _Finish(max(reserve, trip.end_gallons - GALLON_TOLERANCE) + burned, trip, at_most, slack_dollars)
    if near is not None:
        near.max_stops, near.met = max_stops, []

    # One V for each number of stops made, where stops are limited; else one V for all. Below its lowest level, the
    # stops that are left cannot bring what is wanted at the destination, for each of them buys at most a tank.
    start: CostFunction = [(trip.start_usable_gallons, trip.start_usable_gallons, CostSegment(0.0, 0.0))]
    wanted_without_stop = max(reserve + trip.margin_gallons, trip.end_gallons - GALLON_TOLERANCE) + burned
    if trip.first_stops is not None:
        wanted_without_stop = math.inf
    has_to_stop = finish.wanted <= trip.start_usable_gallons < wanted_without_stop
    lowest = [-math.inf]
    if max_stops is not None:
        tank = usable - min(reserve, reserve + trip.margin_gallons)
        lowest = [finish.wanted - (max_stops - made) * tank for made in range(max_stops + 1)]
    layers: list[CostFunction] = [[] for _ in lowest]

    last_stop_mile, counted = 0.0, max_stops is not None
    cheapest_ahead = [*accumulate((one.price for one in reversed(trip.candidates)), min)][::-1]
    finish.reached([at_least(start, wanted_without_stop)], wanted_without_stop)
    finish.weigh([start], cheapest_ahead[0] if cheapest_ahead else 0.0)
    for station, price in zip(each_station(trip), cheapest_ahead, strict=True):
        if finish.is_too_dear(station):
            continue
        mile = trip.candidates[station.candidate_index].mile
        start = at_least(start, max(lowest[0], station.lowest_passing + trip.margin_gallons))
        layers = [at_least(V, max(low, station.lowest_passing)) for V, low in zip(layers, lowest, strict=True)]
        begins = start if trip.may_begin_at(station.candidate_index) else []
        if not begins and not any(layers):
            if start:  # the first stop is further on
                finish.weigh([start], price)
                continue
            if finish.line is not None:
                break
            return _why_infeasible(trip, max_stops, last_stop_mile, mile)
        stopped = after_stops(layers, station, trip.stop_cost + TIE_BREAK_DOLLARS, counted=counted, start=begins)
        if any(stopped):
            last_stop_mile = mile
            if near is not None:
                near.met.append((station, stopped))
        if finish.reached(stopped, finish.wanted):
            start = start if has_to_stop else finish.cheaper_from(start, price)
            layers = [finish.cheaper_from(V, price) for V in layers]
        layers = [cheaper(V, finish.cheaper_from(S, price)) for V, S in zip(layers, stopped, strict=True)]
        finish.weigh([start, *layers], price)
    if finish.line is None:
        arrives = any(at_least(V, reserve + burned) for V in [start, *layers])
        return _why_infeasible(trip, max_stops, last_stop_mile, trip.distance_miles, arrives=arrives)
    purchases = tuple(purchases_of(finish.line, finish.level))[::-1]
    return Solution(purchases, objective_of(trip, purchases))


class _Finish:
    """The cheapest of the levels so far with which the truck can drive to the destination without another stop, if it
    costs no more than `at_most`, the cost of a plan that is known.

    Levels that lead to none that costs less, or up to `slack_dollars` more, are dropped. With the level h below the one
    wanted, at least `wanted - h` gallons are still to be bought, in one stop or more, and none costs less than the
    cheapest price ahead:

        cost to the end >= V(h) + c + (wanted - h) * price

    That holds where no price ahead is below what a gallon left at the end is worth.
    """

    def __init__(self, wanted: float, trip: Trip, at_most: float, slack_dollars: float) -> None:
        self.wanted, self._slack = wanted, slack_dollars
        self.line: CostSegment | None = None
        self.level = math.nan
        self._least, self._price = -math.inf, 0.0
        self._stop_cost = trip.stop_cost
        self._worth = trip.leftover_value_per_gallon
        self._cost = at_most - self._worth * (trip.gallons_to(trip.distance_miles) + trip.end_gallons)

    def reached(self, layers: Sequence[CostFunction], wanted: float) -> bool:
        """Note the cheapest of these levels from the wanted one on. Return whether it is cheaper than the cheapest
        before."""
        before = self.line
        for low, high, line in (piece for V in layers if V and V[-1][1] >= wanted for piece in V):
            if high >= wanted:
                slope = line.slope - self._worth
                level = max(low, wanted) if slope >= 0 else high
                if line.base + slope * level < self._cost - DOLLAR_TOLERANCE:
                    self.line, self.level, self._cost = line, level, line.base + slope * level
        return self.line is not before

    def weigh(self, levels: Sequence[CostFunction], price: float) -> None:
        """Note the least cost to the end of all these levels, where `price` is the lowest ahead. It holds for all
        stations from here on until a stop brings a level more: those that pass fewer levels, or a higher price."""
        if self._cost == math.inf or price < self._worth:
            self._least = -math.inf
            return
        self._price, least = price, math.inf
        for V in levels:
            for low, high, (base, slope, *_) in V:
                least = min(least, base + (slope - price) * low, base + (slope - price) * high)
        self._least = least + self._stop_cost + self.wanted * price

    def is_too_dear(self, station: StationInGallons) -> bool:
        """True if no stop at this station leads to a cheaper finish: its smallest purchase costs so much more than the
        same gallons at the lowest price ahead."""
        beyond = station.smallest * (station.price - self._price)
        return self._least + beyond > self._cost + self.wanted * self._worth + self._slack

    def cheaper_from(self, V: CostFunction, price: float) -> CostFunction:
        """The part of V that can lead to a cheaper finish, where `price` is the lowest ahead."""
        if self._cost == math.inf or price < self._worth:
            return V
        kept, most = [], self._cost + self.wanted * self._worth + self._slack
        for low, high, line in V:
            if low >= self.wanted:
                break
            high = min(high, self.wanted)
            base, slope = line.base + self._stop_cost + self.wanted * price, line.slope - price
            if base + slope * low <= most or base + slope * high <= most:
                kept.append((low, high, line))
        return kept


def _why_infeasible(
    trip: Trip, max_stops: int | None, from_mile: float, to_mile: float, *, arrives: bool = False
) -> Infeasible:
    """The reason why there is no solution, in words that a dispatcher can act on.

    Fuel could last be bought at `from_mile`. `to_mile` is the first candidate that cannot be reached, or the
    destination. `arrives`: the truck reaches the destination, but with too little fuel.
    """
    if max_stops is not None:  # it is feasible without that limit
        return Infeasible(0.0, trip.distance_miles, f"the trip takes more than {max_stops} fuel stops")
    if trip.start_usable_gallons < trip.lowest_gallons(0) - GALLON_TOLERANCE:
        margin = f" and the margin of {trip.margin_gallons:.1f} gal" if trip.margin_gallons > 0 else ""
        reason = (
            f"the truck starts with {trip.start_gallons:.1f} gal, "
            f"less than the reserve of {trip.reserve_gallons:.1f} gal{margin}"
        )
    elif trip.end_gallons > trip.usable_gallons + GALLON_TOLERANCE:
        reason = (
            f"{trip.end_gallons:.1f} gal are wanted at the destination, the tank holds {trip.usable_gallons:.1f} gal"
        )
    elif arrives:
        reason = (
            f"the destination cannot be reached with {trip.end_gallons:.1f} gal left, "
            f"fuel can last be bought at mile {from_mile:.1f}"
        )
    else:
        fuel = "without touching its reserve" if trip.reserve_gallons > 0 else "with the fuel in its tank"
        reason = (
            f"the truck cannot get from mile {from_mile:.1f} to mile {to_mile:.1f} {fuel}, "
            f"and no station between them can be used{_floor_in_the_way(trip, from_mile, to_mile)}"
        )
    return Infeasible(from_mile, to_mile, reason)


def _floor_in_the_way(trip: Trip, from_mile: float, to_mile: float) -> str:
    """The lowest floor of the stations between two miles that a truck reaches with its reserve, but not with their
    floor. It leaves the first mile with what it has at the start, or else with a full tank at most."""
    leaving = trip.usable_gallons if from_mile > 0 else trip.start_usable_gallons
    floors = [
        one.floor_gallons
        for one in trip.candidates
        if from_mile <= one.mile <= to_mile
        and trip.reserve_gallons
        <= trip.arriving_gallons(one, from_mile=from_mile, gallons=leaving)
        < one.floor_gallons - GALLON_TOLERANCE
    ]
    return f" by a truck that arrives with less than {min(floors):.1f} gal" if floors else ""
