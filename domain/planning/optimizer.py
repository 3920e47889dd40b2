"""Where to buy how much fuel: the exact least cost of a trip, by a forward dynamic program.

The state is the fuel in the tank. Its least-cost function is piecewise linear and kept exactly, as pieces, without a
grid. It is neither convex nor monotone: with a smallest purchase a fuller tank can be the worse one, for there may be
no room left to buy where fuel is cheap. So every reachable level is kept, dominated or not.

The pieces are written over the *level*: gallons in the tank plus gallons burned on the road since mile 0. Driving
leaves the level as it is and only raises the lowest one allowed; buying raises it, the detour to a station lowers it.

The problem is the "gas station problem" (S. Khuller, A. Malekian, J. Mestre, "To fill or not to fill", ACM Transactions
on Algorithms 7, 2011) with a smallest purchase and a cost for each stop, which rule out its greedy solutions.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

DOLLARS = 1e-9
"""Costs nearer than this are equal. Pieces are told apart by this deviation, never by slope: over 200 gallons a
difference in slope too small to see is a difference in dollars."""

GALLONS = 1e-9
"""Fuel may fall short of a limit by this much: the error of floating-point sums."""

STEPS_GALLONS = (0.1, 0.01, 0.001)
"""Purchases are rounded to tenths of a gallon, or to the first of these that does."""

MOST_LOST_TO_ROUNDING = 0.50
"""Dollars. Tenths lose less than a tenth of the last price, and of each change of price from stop to stop: more than
this only on trips of many stops at very different prices."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One pass of the road by a station. The detour runs from the road to the station and back to the same mile."""

    station_id: str
    mile: float
    detour_miles_in: float
    detour_miles_out: float
    net_price: float


@dataclass(frozen=True, slots=True)
class Trip:
    """What is given: `reserve <= fuel <= usable` always, `end_gallons` at the destination, each purchase at least
    `min_purchase_gallons`, `stop_cost` dollars for each stop. Candidates in driving order.
    """

    distance_miles: float
    start_gallons: float
    end_gallons: float
    reserve_gallons: float
    usable_gallons: float
    min_purchase_gallons: float
    stop_cost: float
    mpg: float
    max_stops: int | None
    candidates: tuple[Candidate, ...]


class Purchase(NamedTuple):
    candidate_index: int
    gallons: float


@dataclass(frozen=True, slots=True)
class Solution:
    """Purchases in driving order, and their cost with that of the stops."""

    purchases: tuple[Purchase, ...]
    objective: float


@dataclass(frozen=True, slots=True)
class Infeasible:
    """No way to make the trip, and the first part of it that cannot be driven."""

    from_mile: float
    to_mile: float
    reason: str


class BrokenPlan(Exception):
    """A plan that does not keep to its own limits: a bug, or numbers that were changed after it was made."""


class _Station(NamedTuple):
    """A candidate in gallons: the level on arriving at its mile is `burned` plus what is in the tank.

    Nobody leaves the road for less fuel than the detour takes, so the smallest purchase is at least that. It rules out
    nothing sensible, and without it the levels that pointless detours lead to would multiply from station to station.
    """

    candidate_index: int
    price: float
    burned: float
    detour_in: float
    detour_out: float
    smallest: float

    @property
    def detour(self) -> float:
        return self.detour_in + self.detour_out


class _Stop(NamedTuple):
    """How a piece came about: by a stop at `station` on the way of `before`, arriving with the level `arrival`, or
    with whatever level the smallest purchase leads on from (None).
    """

    station: _Station
    before: "_Piece"
    arrival: float | None


class _Piece(NamedTuple):
    """Levels from `low` to `high` cost `base + slope * level` after `stops` stops, the last of which is `stop`."""

    low: float
    high: float
    base: float
    slope: float
    stops: int
    stop: _Stop | None

    def cost(self, level: float) -> float:
        return self.base + self.slope * level


_Function = list[_Piece]
"""A least-cost function: pieces in order of level; neighbours may share an end, where the lower one holds."""


def solve(trip: Trip) -> Solution | Infeasible:
    """The cheapest purchases. Ties go to fewer stops, then to the ones made earlier."""
    if trip.max_stops is not None:  # a limit that does not bind need not be paid for
        unlimited = solve(replace(trip, max_stops=None))
        if isinstance(unlimited, Infeasible) or len(unlimited.purchases) <= trip.max_stops:
            return unlimited

    start = min(trip.start_gallons, trip.usable_gallons)
    # One function for each number of stops made, where that number is limited; else one for all.
    layers: list[_Function] = [[_Piece(start, start, 0.0, 0.0, 0, None)]]
    layers += [[] for _ in range(trip.max_stops or 0)]
    last_stop_mile = 0.0
    for station in (_station(trip, index) for index in range(len(trip.candidates))):
        mile = trip.candidates[station.candidate_index].mile
        layers = [_with_at_least(layer, trip.reserve_gallons + station.burned) for layer in layers]
        if not any(layers):
            return _explained(trip, last_stop_mile, mile)
        stopped = [_after_stop(layer, station, trip) for layer in layers]
        if any(stopped):
            last_stop_mile = mile
        if trip.max_stops is None:
            layers = [_cheaper(layers[0], stopped[0])]
        else:
            layers = [layers[0], *map(_cheaper, layers[1:], stopped)]

    burned = trip.distance_miles / trip.mpg
    arrived = [piece for layer in layers for piece in _with_at_least(layer, trip.reserve_gallons + burned)]
    finished = _with_at_least(arrived, trip.end_gallons + burned)
    if not finished:
        return _explained(trip, last_stop_mile, trip.distance_miles, arrives=bool(arrived))
    cheapest, level, cost = finished[0], math.nan, math.inf
    for piece in finished:
        best = piece.low if piece.slope >= 0 else piece.high
        cheaper_by = cost - piece.cost(best)
        if cheaper_by > DOLLARS or (cheaper_by >= -DOLLARS and piece.stops < cheapest.stops):
            cheapest, level, cost = piece, best, piece.cost(best)
    purchases = tuple(reversed(list(_purchases(cheapest, level))))
    return Solution(purchases, _objective(trip, purchases))


def _station(trip: Trip, index: int) -> _Station:
    candidate = trip.candidates[index]
    into, out = candidate.detour_miles_in / trip.mpg, candidate.detour_miles_out / trip.mpg
    smallest = max(trip.min_purchase_gallons, into + out)
    return _Station(index, candidate.net_price, candidate.mile / trip.mpg, into, out, smallest)


def _objective(trip: Trip, purchases: Sequence[Purchase]) -> float:
    fuel = math.fsum(trip.candidates[index].net_price * gallons for index, gallons in purchases)
    return fuel + trip.stop_cost * len(purchases)


def _with_at_least(function: _Function, level: float) -> _Function:
    """Only what has this level or more."""
    return [
        piece if piece.low >= level else piece._replace(low=min(level, piece.high))
        for piece in function
        if piece.high >= level - GALLONS
    ]


def _after_stop(function: _Function, station: _Station, trip: Trip) -> _Function:
    """The least cost of each level on rejoining the road from a stop at `station`.

    Buying x >= Q at price p takes level g to g + x - detour, so the cost of reaching h is p * (h + detour) plus the
    least of V(g) - p * g over all g up to h + detour - Q: a running minimum. Where it falls, exactly Q is bought; where
    it stays, one level g is the best to arrive with for a whole range of h.
    """
    price = station.price
    lowest = station.burned + trip.reserve_gallons + station.detour_out
    highest = station.burned + trip.usable_gallons - station.detour_out
    shift = station.smallest - station.detour  # from the level before the smallest purchase to the one after it
    result: _Function = []

    def add(low: float, high: float, base: float, slope: float, before: _Piece, arrival: float | None) -> None:
        low, high = max(low + shift, lowest), min(high + shift, highest)
        if low <= high + GALLONS:
            stop = _Stop(station, before, arrival)
            result.append(_Piece(min(low, high), high, base, slope, before.stops + 1, stop))

    best: _Piece | None = None  # where the running minimum was last attained, at which level, and its value
    best_level = best_value = math.inf

    def hold_until(level: float) -> None:
        if best is not None:
            base = best_value + price * station.detour + trip.stop_cost
            add(best_level, level, base, price, best, best_level)

    for piece in _with_at_least(function, station.burned + trip.reserve_gallons + station.detour_in):
        value = piece.base + (piece.slope - price) * piece.low
        falls_to = piece.base + (piece.slope - price) * piece.high
        if min(value, falls_to) >= best_value - DOLLARS:
            continue
        start = piece.low
        if value > best_value:  # it starts above the minimum so far and crosses it
            start = min(start + (best_value - value) / (piece.slope - price), piece.high)
        hold_until(start)
        if piece.slope < price and start < piece.high:
            base = piece.base + price * station.smallest - piece.slope * shift + trip.stop_cost
            add(start, piece.high, base, piece.slope, piece, None)
            best, best_level, best_value = piece, piece.high, falls_to
        else:
            best, best_level, best_value = piece, start, value
    hold_until(math.inf)
    return result


def _cheaper(first: _Function, second: _Function) -> _Function:
    """The lower envelope of two functions; where they are equal fewer stops win, then `first`."""
    result: _Function = []

    def emit(piece: _Piece, low: float, high: float) -> None:
        if result and result[-1].stop is piece.stop and result[-1].high == low and result[-1].base == piece.base:
            result[-1] = result[-1]._replace(high=high)
        else:
            result.append(piece._replace(low=low, high=high))

    a_pieces, b_pieces = iter(first), iter(second)
    a, b = next(a_pieces, None), next(b_pieces, None)
    while a is not None and b is not None:
        if a.low != b.low:  # alone up to where the other one starts
            lower, until = (a, min(a.high, b.low)) if a.low < b.low else (b, min(b.high, a.low))
            emit(lower, lower.low, until)
            rest = lower._replace(low=until) if lower.high >= max(a.low, b.low) else None
            if lower is a:
                a = rest or next(a_pieces, None)
            else:
                b = rest or next(b_pieces, None)
            continue
        low, high = a.low, min(a.high, b.high)
        at_low, at_high = a.cost(low) - b.cost(low), a.cost(high) - b.cost(high)
        if abs(at_low) <= DOLLARS and abs(at_high) <= DOLLARS:
            emit(b if b.stops < a.stops else a, low, high)
        elif at_low <= DOLLARS and at_high <= DOLLARS:
            emit(a, low, high)
        elif at_low >= -DOLLARS and at_high >= -DOLLARS:
            emit(b, low, high)
        else:
            crossing = min(max(low + (high - low) * at_low / (at_low - at_high), low), high)
            left, right = (a, b) if at_low < 0 else (b, a)
            emit(left, low, crossing)
            emit(right, crossing, high)
        a = a._replace(low=high) if a.high > high else next(a_pieces, None)
        b = b._replace(low=high) if b.high > high else next(b_pieces, None)
    for piece, others in ((a, a_pieces), (b, b_pieces)):
        if piece is not None:
            emit(piece, piece.low, piece.high)
            result.extend(others)
    return result


def _purchases(piece: _Piece, level: float) -> Iterator[Purchase]:
    """The purchases that lead to a level, from the last to the first."""
    while piece.stop is not None:
        station, before, arrival = piece.stop
        if arrival is None:
            arrival = level + station.detour - station.smallest
        yield Purchase(station.candidate_index, level + station.detour - arrival)
        piece, level = before, arrival


def _explained(trip: Trip, from_mile: float, to_mile: float, *, arrives: bool = False) -> Infeasible:
    """Why there is no solution, in words a dispatcher can act on.

    Fuel could last be bought at `from_mile`, and `to_mile` is the first that cannot be reached, or the destination.
    """
    if min(trip.start_gallons, trip.usable_gallons) < trip.reserve_gallons - GALLONS:
        reason = (
            f"the truck starts with {trip.start_gallons:.1f} gal, "
            f"less than the reserve of {trip.reserve_gallons:.1f} gal"
        )
    elif trip.end_gallons > trip.usable_gallons + GALLONS:
        reason = (
            f"{trip.end_gallons:.1f} gal are wanted at the destination, the tank holds {trip.usable_gallons:.1f} gal"
        )
    elif trip.max_stops is not None:  # it is feasible without that limit
        reason = f"the trip takes more than {trip.max_stops} fuel stops"
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


def replay(trip: Trip, purchases: Sequence[Purchase], *, tolerance_gallons: float = 1e-6) -> tuple[float, ...]:
    """Drive the trip with these purchases: the fuel on arriving at each station, and last at the destination.

    Raises `BrokenPlan` where a limit is not kept.
    """

    def check(kept: bool, what: str) -> None:
        if not kept:
            raise BrokenPlan(what)

    arrivals = []
    mile, fuel = 0.0, min(trip.start_gallons, trip.usable_gallons)
    check(trip.max_stops is None or len(purchases) <= trip.max_stops, "more stops than allowed")
    check(fuel >= trip.reserve_gallons - tolerance_gallons, "the start is below the reserve")
    for index, gallons in purchases:
        candidate = trip.candidates[index]
        check(candidate.mile >= mile, f"station {candidate.station_id} is behind the truck")
        fuel -= (candidate.mile - mile + candidate.detour_miles_in) / trip.mpg
        arrivals.append(fuel)
        check(fuel >= trip.reserve_gallons - tolerance_gallons, f"below the reserve at {candidate.station_id}")
        check(gallons >= trip.min_purchase_gallons - tolerance_gallons, f"too little at {candidate.station_id}")
        fuel += gallons
        check(fuel <= trip.usable_gallons + tolerance_gallons, f"too much at {candidate.station_id}")
        fuel -= candidate.detour_miles_out / trip.mpg
        mile = candidate.mile
        check(fuel >= trip.reserve_gallons - tolerance_gallons, f"below the reserve after {candidate.station_id}")
    fuel -= (trip.distance_miles - mile) / trip.mpg
    needed = max(trip.reserve_gallons, trip.end_gallons)
    check(fuel >= needed - tolerance_gallons, "too little at the destination")
    return (*arrivals, fuel)


def round_and_replay(trip: Trip, solution: Solution) -> Solution | Infeasible:
    """The solution in gallons as a pump shows them, still feasible: replayed from the rounded numbers.

    Steps of tenths, or finer ones where tenths have no room or would cost more than `MOST_LOST_TO_ROUNDING`.
    """
    for step in STEPS_GALLONS:
        gallons = _rounded(trip, solution.purchases, step)
        if gallons is None:
            continue
        purchases = tuple(
            Purchase(purchase.candidate_index, amount)
            for purchase, amount in zip(solution.purchases, gallons, strict=True)
        )
        objective = _objective(trip, purchases)
        if objective <= solution.objective + MOST_LOST_TO_ROUNDING:
            replay(trip, purchases)
            return Solution(purchases, objective)
    return Infeasible(0.0, trip.distance_miles, "the trip takes every last thousandth of a gallon in the tank")


def _rounded(trip: Trip, purchases: Sequence[Purchase], step: float) -> list[float] | None:
    """Gallons in whole steps, each running total less than a step from that of `purchases` wherever possible; None
    when no whole steps at all keep the limits at these stops.

    The limits bind the running totals: from below (reserve, end), from above (usable), and by their differences
    (smallest purchase). Totals rounded up keep all but the tank, so they are lowered to where it binds, and those
    before them as far as the smallest purchase asks. That is the greatest solution not above the rounded-up one:
    where it undercuts a lower limit, no other could keep it.
    """
    per_gallon = round(1 / step)

    def up(gallons: float) -> int:
        return math.ceil(gallons * per_gallon - 1e-6)

    def down(gallons: float) -> int:
        return math.floor(gallons * per_gallon + 1e-6)

    arriving = []  # at each station and at the destination, what would be in the tank without any purchase
    unbought, mile = min(trip.start_gallons, trip.usable_gallons), 0.0
    for index, _ in purchases:
        candidate = trip.candidates[index]
        arriving.append(unbought - (candidate.mile - mile + candidate.detour_miles_in) / trip.mpg)
        unbought = arriving[-1] - candidate.detour_miles_out / trip.mpg
        mile = candidate.mile
    arriving.append(unbought - (trip.distance_miles - mile) / trip.mpg)

    smallest = up(trip.min_purchase_gallons)
    wanted: list[int] = []
    for total in accumulate(gallons for _, gallons in purchases):
        wanted.append(max(up(total), wanted[-1] + smallest if wanted else smallest))
    most = [down(trip.usable_gallons - gallons) for gallons in arriving[:-1]]
    least = [up(trip.reserve_gallons - gallons) for gallons in arriving[1:-1]]
    least.append(up(max(trip.reserve_gallons, trip.end_gallons) - arriving[-1]))

    totals: list[int] = []  # from the last to the first
    for want, room, need in zip(reversed(wanted), reversed(most), reversed(least), strict=False):
        lowered = min(want, room, totals[-1] - smallest if totals else want)
        if lowered < max(need, smallest):
            return None
        totals.append(lowered)
    return [(after - before) / per_gallon for before, after in pairwise([0, *reversed(totals)])]
