"""Where to buy how much fuel: the exact least cost of a trip, by a forward dynamic program.

**The problem.** Candidate i is passed after b_i gallons of road and sells at p_i dollars a gallon; its detour burns
d_i = d_in + d_out gallons. The fuel in the tank stays between the reserve R and the usable U; a stop costs c dollars
and buys x >= Q_i gallons, the smallest purchase (and at least d_i); at the destination, after b_end gallons, at least E
is wanted, and what is left above E is worth v dollars a gallon. Wanted: the least sum of c + p_i x over the stops, less
the worth of what is left.

**The state** is the level g: gallons in the tank plus gallons burned on the road since mile 0. Driving leaves it as it
is and only raises the lowest one allowed. V_i(g) is the least cost of passing candidate i at level g:

    V_0(g) = 0 at the level of the start, infinite elsewhere
    V_i    = min(drive on, stop)
      drive on: V_{i-1}(g) where g >= R + b_i
      stop: x takes g to h = g + x - d_i, so with x >= Q_i and W(g) = V_{i-1}(g) - p_i g
        S_i(h) = c + p_i (h + d_i) + min { W(g) : R + b_i + d_in <= g <= h + d_i - Q_i } where h <= U + b_i - d_out
    answer = min { V_n(g) - v (g - b_end - E) : g >= max(R, E) + b_end }

Every V_i is piecewise linear and kept exactly, piece by piece, without a grid. The inner minimum is the running
(prefix) minimum of W, shifted up by Q_i - d_i: where it falls, S_i has the slope of V and exactly Q_i is bought; where
it stays, S_i has the slope p_i and one arrival level is the best for a whole range of h. V_i is the lower envelope of
the two. A limit of K stops makes it K + 1 functions, one for each number of stops made.

**No dominance.** Without a smallest purchase Q, more fuel at no more cost is never worse. It is enough to look at
trucks that arrive empty or leave full: greedy rules do, or O(n) levels at each candidate. With Q a fuller tank can be
worse, because it may leave no room to buy where fuel is cheap. So V is neither convex nor monotone, and every level
that can be reached is kept.

**Pieces are merged by cost, never by slope:** two lines are taken as equal where their costs differ by less than 1e-9
dollars at both ends of a range. Over 200 gallons even a tiny difference in slope is a difference in dollars.

**Complexity.** A candidate takes time linear in the pieces of V. We know no useful bound on their number. On truck
trips V has about 8 pieces with 100 candidates, and 13 with 400.

**Sources.** Without Q and c: S. Khuller, A. Malekian, J. Mestre, "To fill or not to fill: the gas station problem", ESA
2007 and ACM Transactions on Algorithms 7, 2011; S. H. Lin, N. Gertsch, J. R. Russell, "A linear-time algorithm for
finding optimal vehicle refueling policies", Operations Research Letters 35, 2007. What carriers ask for, as integer
programs: Y. Suzuki, "A generic model of motor-carrier fuel optimization", Naval Research Logistics 55, 2008; with the
choice of the road, "A decision support system of vehicle routing and refueling for motor carriers with time-sensitive
demands", Decision Support Systems 54, 2012.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from domain.planning.trips import DOLLARS, GALLONS, Infeasible, Purchase, Solution, Trip, objective_of

TIE = 1e-8
"""Dollars added to the cost of each stop, so that of two plans with equal costs the one with fewer stops is cheaper."""


class _Station(NamedTuple):
    """A candidate in gallons: b of road before it, d for its detour, and Q, the least that is bought there."""

    candidate_index: int
    price: float
    burned: float
    detour_in: float
    detour_out: float
    detour: float
    smallest: float


class _Line(NamedTuple):
    """Costs of `base + slope * level`, and how a truck comes to have them.

    The last stop was at `station`, and the line `before` held on arriving there. `arrival` is the level on arriving,
    the same for every level of this line. None: exactly the smallest purchase was bought, so the level on arriving
    follows from the level after it.
    """

    base: float
    slope: float
    before: "_Line | None" = None
    station: _Station | None = None
    arrival: float | None = None


_Function = list[tuple[float, float, _Line]]
"""A least-cost function: pieces in order of level, each with its lowest level, its highest, and its line. Where two
pieces meet at a level, the cheaper one counts. Levels without a piece cannot be reached.
"""

_END = math.inf, math.inf, _Line(math.inf, 0.0)
"""What follows the last piece."""


def solve(trip: Trip, *, must_stop_at: int | None = None) -> Solution | Infeasible:
    """The cheapest purchases; with `must_stop_at` the cheapest with a purchase at that candidate.

    Of two that cost the same, the one with fewer stops is taken, then the one that stops earlier.
    """
    solution = _solve(trip, None, must_stop_at)
    # A limit on stops multiplies the work, so it is tried without first.
    if trip.max_stops is not None and isinstance(solution, Solution) and len(solution.purchases) > trip.max_stops:
        solution = _solve(trip, trip.max_stops, must_stop_at)
    if must_stop_at is None or isinstance(solution, Solution):
        return solution
    anyway = solve(trip)
    if isinstance(anyway, Infeasible):
        return anyway
    mile = trip.candidates[must_stop_at].mile
    return Infeasible(mile, mile, f"no plan with a stop at mile {mile:.1f} keeps every limit")


def _solve(trip: Trip, max_stops: int | None, must_stop_at: int | None) -> Solution | Infeasible:
    reserve, usable = trip.reserve_gallons - GALLONS, trip.usable_gallons + GALLONS
    burned = trip.distance_miles / trip.mpg
    wanted = max(reserve, trip.end_gallons - GALLONS) + burned

    # One V for each number of stops made, where stops are limited; else one V for all. Below its floor, the stops that
    # are left cannot bring what is wanted at the destination, for each of them buys at most a tank.
    layers: list[_Function] = [[(trip.start_usable_gallons, trip.start_usable_gallons, _Line(0.0, 0.0))]]
    floors = [-math.inf]
    if max_stops is not None:
        layers += [[]] * max_stops
        floors = [wanted - (max_stops - made) * (usable - reserve) for made in range(max_stops + 1)]

    last_stop_mile = 0.0
    for index, candidate in enumerate(trip.candidates):
        station = _station(trip, index)
        layers = [_at_least(V, max(floor, reserve + station.burned)) for V, floor in zip(layers, floors, strict=True)]
        if not any(layers):
            return _explained(trip, max_stops, last_stop_mile, candidate.mile)
        stopping = layers if max_stops is None else [[], *layers[:-1]]
        stopped = [_after_stop(V, station, reserve, usable, trip.stop_cost + TIE) for V in stopping]
        if any(stopped):
            last_stop_mile = candidate.mile
        layers = stopped if index == must_stop_at else [*map(_cheaper, layers, stopped)]

    cheapest, level, least = None, math.nan, math.inf
    for low, high, line in (piece for V in layers for piece in _at_least(V, wanted)):
        slope = line.slope - trip.leftover_value_per_gallon
        best = low if slope >= 0 else high
        if line.base + slope * best < least - DOLLARS:
            cheapest, level, least = line, best, line.base + slope * best
    if cheapest is None:
        arrives = any(_at_least(V, reserve + burned) for V in layers)
        return _explained(trip, max_stops, last_stop_mile, trip.distance_miles, arrives=arrives)
    purchases = tuple(reversed(list(_purchases(cheapest, level))))
    return Solution(purchases, objective_of(trip, purchases))


def _station(trip: Trip, index: int) -> _Station:
    candidate = trip.candidates[index]
    into, out = candidate.detour_miles_in / trip.mpg, candidate.detour_miles_out / trip.mpg
    burned, smallest = candidate.mile / trip.mpg, trip.smallest_purchase(candidate)
    return _Station(index, candidate.price, burned, into, out, into + out, smallest)


def _at_least(V: _Function, level: float) -> _Function:
    """The part of a function with this level or more."""
    for i, (low, high, line) in enumerate(V):
        if high >= level:
            return V if i == 0 and low >= level else [(max(low, level), high, line), *V[i + 1 :]]
    return []


def _after_stop(V: _Function, station: _Station, reserve: float, usable: float, stop_cost: float) -> _Function:
    """S: the least cost of each level on coming back to the road from a stop at `station`.

    W, the cost of arriving less the price of the fuel on board, is walked from left to right, and only its running
    minimum counts. Where W falls to a new minimum, the truck buys exactly the smallest purchase. Where W is above the
    minimum so far, it is cheaper to arrive with the level of that minimum and to buy more. For example, at 3 dollars a
    gallon, arriving with 40 gallons for 100 dollars and with 60 gallons for 130 dollars:

        W(40) = 100 - 3 * 40 = -20        W(60) = 130 - 3 * 60 = -50, the minimum from here on

    So whoever leaves with 150 gallons arrived with 60 and bought 90, for 130 + 270 dollars and the cost of the stop.
    """
    price = station.price
    shift = station.smallest - station.detour  # from the level before the smallest purchase to the one after it
    highest = station.burned + usable - station.detour_out - shift
    where_it_stays = stop_cost + price * station.detour  # + price * h + the minimum of W
    where_it_falls = stop_cost + price * station.smallest  # + V(h - shift)
    S: _Function = []
    least, arrival, attained = math.inf, math.inf, None  # the running minimum of W, and where it was last attained
    for low, high, line in _at_least(V, station.burned + reserve + station.detour_in):
        if low > highest:
            break
        if high > highest:
            high = highest
        slope = line.slope - price
        at_low, at_high = line.base + slope * low, line.base + slope * high
        if at_low >= least - DOLLARS and at_high >= least - DOLLARS:
            continue
        if at_low > least:  # this piece starts above the minimum so far: skip to where it crosses that
            low, at_low = min(low + (least - at_low) / slope, high), least
        if arrival < low:
            S.append((arrival + shift, low + shift, _Line(where_it_stays + least, price, attained, station, arrival)))
        least, arrival, attained = at_low, low, line
        if slope < 0 and low < high:
            falling = _Line(where_it_falls + line.base - line.slope * shift, line.slope, line, station)
            S.append((low + shift, high + shift, falling))
            least, arrival = at_high, high
    if attained is not None:
        S.append((arrival + shift, highest + shift, _Line(where_it_stays + least, price, attained, station, arrival)))
    return S


def _cheaper(first: _Function, second: _Function) -> _Function:
    """The lower envelope of two functions: for each level the cheaper of the two; where both cost the same, `first`.

    Both are walked together from left to right, range by range. A range ends wherever a piece of either function starts
    or ends. So in a range there is one line of `first` (a), or one of `second` (b), or one of each, which cross at most
    once. For example, a costs 5 from level 10 to 30, and b costs 6 at level 20 and falls to 2 at level 40:

        range 10 to 20: only a            range 20 to 30: a, then b, for they cross at 25
        range 30 to 40: only b            envelope: a from 10 to 25, b from 25 to 40
    """
    if not first or not second:
        return first or second
    envelope: _Function = []
    rest_a, rest_b = iter(first), iter(second)
    (a_low, a_high, a), (b_low, b_high, b) = next(rest_a), next(rest_b)
    line, since, until = None, math.nan, math.nan  # the line at the end of the ranges so far: not yet in the envelope
    while a is not b:  # both are `_END` in the end
        # The range from `low` to `high`: its line is `left` up to the level `crossing`, and `right` from there on.
        if a_low < b_low:
            low, high = a_low, a_high if a_high < b_low else b_low
            left, crossing, right = a, high, a
        elif b_low < a_low:
            low, high = b_low, b_high if b_high < a_low else a_low
            left, crossing, right = b, high, b
        else:
            low, high = a_low, a_high if a_high < b_high else b_high
            left, crossing, right = _lower(a, b, low, high)
        # What the last range ended with either goes on here or is a finished piece.
        if left is not line:
            if line is not None:
                envelope.append((since, until, line))
            since = low
        if right is not left:
            envelope.append((since, crossing, left))
            since = crossing
        line, until = right, high
        # Each function goes on behind the range: with the rest of its piece, or with the next one.
        if a_low == low:
            a_low, a_high, a = (high, a_high, a) if a_high > high else next(rest_a, _END)
        if b_low == low:
            b_low, b_high, b = (high, b_high, b) if b_high > high else next(rest_b, _END)
    envelope.append((since, until, right))
    return envelope


def _lower(a: _Line, b: _Line, low: float, high: float) -> tuple[_Line, float, _Line]:
    """Of two lines from `low` to `high`: the cheaper one at first, the level where they cross, and the cheaper one from
    there on. Where they do not cross that is the same line twice, and `high`.
    """
    base, slope = a.base - b.base, a.slope - b.slope
    at_low, at_high = base + slope * low, base + slope * high
    if at_low <= DOLLARS and at_high <= DOLLARS:
        return a, high, a
    if at_low >= -DOLLARS and at_high >= -DOLLARS:
        return b, high, b
    return (a, -base / slope, b) if at_low < 0 else (b, -base / slope, a)


def _purchases(line: _Line, level: float) -> Iterator[Purchase]:
    """The purchases that lead to a level of a line, from the last to the first."""
    while line.station is not None and line.before is not None:
        station = line.station
        arrival = level + station.detour - station.smallest if line.arrival is None else line.arrival
        yield Purchase(station.candidate_index, level + station.detour - arrival)
        line, level = line.before, arrival


def _explained(
    trip: Trip, max_stops: int | None, from_mile: float, to_mile: float, *, arrives: bool = False
) -> Infeasible:
    """Why there is no solution, in words that a dispatcher can act on.

    Fuel could last be bought at `from_mile`. `to_mile` is the first candidate that cannot be reached, or the
    destination. `arrives`: the truck reaches the destination, but with too little fuel.
    """
    if max_stops is not None:  # it is feasible without that limit
        return Infeasible(0.0, trip.distance_miles, f"the trip takes more than {max_stops} fuel stops")
    if trip.start_usable_gallons < trip.reserve_gallons - GALLONS:
        reason = (
            f"the truck starts with {trip.start_gallons:.1f} gal, "
            f"less than the reserve of {trip.reserve_gallons:.1f} gal"
        )
    elif trip.end_gallons > trip.usable_gallons + GALLONS:
        reason = (
            f"{trip.end_gallons:.1f} gal are wanted at the destination, the tank holds {trip.usable_gallons:.1f} gal"
        )
    elif arrives:
        reason = (
            f"the destination cannot be reached with {trip.end_gallons:.1f} gal left, "
            f"fuel can last be bought at mile {from_mile:.1f}"
        )
    else:
        reason = (
            f"the truck cannot get from mile {from_mile:.1f} to mile {to_mile:.1f} without touching its reserve, "
            "and no station between them can be used"
        )
    return Infeasible(from_mile, to_mile, reason)
