"""Least-cost functions of a level: piecewise linear and exact, without a grid. `optimizer` says what a level is.

The functions here make a stop, take the cheaper of two cost functions, add two up, and find the purchases behind a
cost.

**Pieces are merged by cost, never by slope:** two lines count as equal where their costs differ by less than 1e-9
dollars at both ends of a range. Over 200 gallons even a tiny difference in slope is a difference in dollars.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from domain.planning.trips import DOLLAR_TOLERANCE, GALLON_TOLERANCE, Purchase, Trip


class StationInGallons(NamedTuple):
    """A candidate in gallons. A truck that leaves the road at level g and is back on it at level h has bought
    `h - g + detour`, at least `smallest`. g is at least `lowest` (`lowest_first` on the first stop of the trip), h at
    most `highest`. A truck that drives past is between `lowest_passing` and `highest_passing`."""

    candidate_index: int
    price: float
    lowest: float
    lowest_first: float
    highest: float
    detour: float
    smallest: float
    lowest_passing: float
    highest_passing: float

    def backward(self) -> "StationInGallons":
        """The stop of a truck that is followed backward: levels are negative, and the stop leads from -h to -g."""
        return self._replace(
            lowest=-self.highest,
            highest=-self.lowest,
            lowest_passing=-self.highest_passing,
            highest_passing=-self.lowest_passing,
        )


def stations_of(trip: Trip) -> list[StationInGallons]:
    """The candidates in gallons, in driving order."""
    return [*each_station(trip)]


def each_station(trip: Trip) -> Iterator[StationInGallons]:
    """The candidates in gallons, in driving order, each made when it is asked for."""
    reserve, usable = trip.reserve_gallons - GALLON_TOLERANCE, trip.usable_gallons + GALLON_TOLERANCE
    least_bought, reserve_first = trip.smallest_on_road, reserve + trip.margin_gallons
    for index, candidate in enumerate(trip.candidates):
        burned, into, out = trip.burned_at(candidate)
        floor, detour, arriving = candidate.floor_gallons - GALLON_TOLERANCE, into + out, burned + into
        yield StationInGallons(
            index,
            candidate.price,
            (floor if floor > reserve else reserve) + arriving,
            (floor if floor > reserve_first >= reserve else reserve_first) + arriving,
            usable + burned - out,
            detour,
            detour if detour > least_bought else least_bought,
            reserve + burned,
            usable + burned,
        )


class CostSegment(NamedTuple):
    """A line of costs, `base + slope * level`, and the stop that led to it: the last stop was at `station`, reached
    along the line `before`. `arrival` is the level on arriving, equal for all levels of this line. It is None where
    exactly the smallest purchase was bought: the level on arriving then follows from the level after it."""

    base: float
    slope: float
    before: "CostSegment | None" = None
    station: StationInGallons | None = None
    arrival: float | None = None


CostFunction = list[tuple[float, float, CostSegment]]
"""A least-cost function: pieces in order of level, each with its lowest level, its highest, and its line. Where two
pieces meet at a level, the cheaper one counts. Levels without a piece cannot be reached.
"""

_END = math.inf, math.inf, CostSegment(math.inf, 0.0)
"""The piece after the last one."""


def at_least(V: CostFunction, level: float) -> CostFunction:
    """The part of a function at or above this level."""
    for i, (low, high, line) in enumerate(V):
        if high >= level:
            return V if i == 0 and low >= level else [(max(low, level), high, line), *V[i + 1 :]]
    return []


def after_stop(V: CostFunction, station: StationInGallons, stop_cost: float) -> CostFunction:
    """S: the least cost of each level on coming back to the road from a stop at `station`. V has the levels with which
    a truck may arrive.

    W, the cost of arriving less the price of the fuel on board, is walked from left to right, and only its running
    minimum counts. Where W falls to a new minimum, the truck buys exactly the smallest purchase. Where W is above the
    minimum so far, it is cheaper to arrive with the level of that minimum and to buy more. For example, at 3 dollars a
    gallon, arriving with 40 gallons for 100 dollars and with 60 gallons for 130 dollars:

        W(40) = 100 - 3 * 40 = -20        W(60) = 130 - 3 * 60 = -50, the minimum from here on

    So a truck that leaves with 150 gallons arrived with 60 and bought 90, for 130 + 270 dollars and the cost of the
    stop.
    """
    price = station.price
    shift = station.smallest - station.detour  # from the level before the smallest purchase to the one after it
    highest = station.highest - shift
    where_it_stays = stop_cost + price * station.detour  # + price * h + the minimum of W
    where_it_falls = stop_cost + price * station.smallest  # + V(h - shift)
    S: CostFunction = []
    least, arrival, attained = math.inf, math.inf, None  # the running minimum of W, and where it was last attained
    for low, high, line in V:
        if low > highest:
            break
        if high > highest:
            high = highest
        slope = line.slope - price
        at_low, at_high = line.base + slope * low, line.base + slope * high
        if at_low >= least - DOLLAR_TOLERANCE and at_high >= least - DOLLAR_TOLERANCE:
            continue
        if at_low > least:  # this piece starts above the minimum so far: skip to where it crosses that
            low, at_low = min(low + (least - at_low) / slope, high), least
        if arrival < low:
            S.append(
                (arrival + shift, low + shift, CostSegment(where_it_stays + least, price, attained, station, arrival))
            )
        least, arrival, attained = at_low, low, line
        if slope < 0 and low < high:
            falling = CostSegment(where_it_falls + line.base - line.slope * shift, line.slope, line, station)
            S.append((low + shift, high + shift, falling))
            least, arrival = at_high, high
    if attained is not None:
        S.append(
            (arrival + shift, highest + shift, CostSegment(where_it_stays + least, price, attained, station, arrival))
        )
    return S


def cheaper(first: CostFunction, second: CostFunction) -> CostFunction:
    """The lower envelope of two functions: for each level the cheaper of the two; where both cost the same, `first`.

    Both are walked together from left to right, range by range. A range ends wherever a piece of either function starts
    or ends. So in a range there is one line of `first` (a), or one of `second` (b), or one of each, which cross at most
    once. For example, a costs 5 from level 10 to 30, and b costs 6 at level 20 and falls to 2 at level 40:

        range 10 to 20: only a            range 20 to 30: a, then b, for they cross at 25
        range 30 to 40: only b            envelope: a from 10 to 25, b from 25 to 40
    """
    if not first or not second:
        return first or second
    untouched, second = _below(first, second)
    if untouched == len(first) or not second:
        return first + second
    envelope = first[:untouched]
    rest_a, rest_b = iter(first[untouched:]), iter(second)
    (a_low, a_high, a), (b_low, b_high, b) = next(rest_a), next(rest_b)
    line, since, until = None, math.nan, math.nan  # the line at the end of the ranges so far: not yet in the envelope
    while b is not _END[2] or a is line:
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
    if a is not _END[2]:  # `second` ends here
        envelope.append((a_low, a_high, a))
        envelope.extend(rest_a)
    return envelope


def _below(first: CostFunction, second: CostFunction) -> tuple[int, CostFunction]:
    """Count the pieces at the start of `first` that cost no more than anything in `second`, or lie left of it. Return
    the count, and the part of `second` right of them. Most stops change little of a function, so this saves most of the
    time.
    """
    least = min([min(line.base + line.slope * low, line.base + line.slope * high) for low, high, line in second])
    untouched, end = 0, second[0][0]
    for low, high, line in first:
        if high >= end:
            # In a gap of `first` there may be something of `second`.
            if low > end or line.base + line.slope * low > least or line.base + line.slope * high > least:
                break
            end = high
        untouched += 1
    return untouched, [(max(low, end), high, line) for low, high, line in second if high > end]


def _lower(a: CostSegment, b: CostSegment, low: float, high: float) -> tuple[CostSegment, float, CostSegment]:
    """Compare two lines from `low` to `high`. Return the cheaper one at first, the level where they cross, and the
    cheaper one from there on. Where they do not cross that is the same line twice, and `high`.
    """
    base, slope = a.base - b.base, a.slope - b.slope
    at_low, at_high = base + slope * low, base + slope * high
    if at_low <= DOLLAR_TOLERANCE and at_high <= DOLLAR_TOLERANCE:
        return a, high, a
    if at_low >= -DOLLAR_TOLERANCE and at_high >= -DOLLAR_TOLERANCE:
        return b, high, b
    return (a, -base / slope, b) if at_low < 0 else (b, -base / slope, a)


def after_stops(
    layers: Sequence[CostFunction],
    station: StationInGallons,
    stop_cost: float,
    *,
    counted: bool,
    start: CostFunction | None = None,
) -> list[CostFunction]:
    """The functions after a stop at `station`. Where stops are counted, there is one function for each number of stops;
    a stop leads from one to the next, and from the last nowhere. `start` is the level of a truck that has made no stop
    yet: it stops only where it arrives with the reserve and the margin, and with the station's floor."""
    arriving = [at_least(V, station.lowest) for V in layers]
    if start:
        arriving[0] = cheaper(at_least(start, station.lowest_first), arriving[0])
    stopping = [[], *arriving[:-1]] if counted else arriving
    return [after_stop(V, station, stop_cost) for V in stopping]


def least_sum(forward: CostFunction, backward: CostFunction) -> tuple[float, CostSegment, CostSegment]:
    """The least sum of two functions at one level, and their lines there. The second function's levels are negative.
    The cost is infinite where the functions share no level."""
    least, lines = math.inf, (_END[2], _END[2])
    at = len(backward) - 1  # from right to left, which is from low levels to high ones
    for low, high, line in forward:
        while at >= 0 and -backward[at][0] < low:
            at -= 1
        for index in range(at, -1, -1):
            other_low, other_high, other = backward[index]
            if -other_high > high:
                break
            slope = line.slope - other.slope
            level = max(low, -other_high) if slope >= 0 else min(high, -other_low)
            cost = line.base + other.base + slope * level
            if cost < least:
                least, lines = cost, (line, other)
    return least, *lines


def purchases_of(line: CostSegment, level: float) -> Iterator[Purchase]:
    """The purchases that lead to a level of a line, from the last to the first."""
    while line.station is not None and line.before is not None:
        station = line.station
        arrival = level + station.detour - station.smallest if line.arrival is None else line.arrival
        yield Purchase(station.candidate_index, level + station.detour - arrival)
        line, level = line.before, arrival


def stops_before(line: CostSegment) -> int:
    """The number of stops that lead to a line."""
    stops = 0
    while line.before is not None:
        line, stops = line.before, stops + 1
    return stops
