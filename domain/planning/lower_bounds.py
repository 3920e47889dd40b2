"""Finds a bound for the plans of a trip: cost functions that the rest of no plan undercuts.

They are the functions T of `each_stop`, found backward from the destination, in numbers of few decimals.

**Rounded, and still a bound.** The program counts exactly, and the optimizer does not. A function that is lower than
need be is still a bound. So each new piece is lowered by some millionths of a dollar and rounded to few decimals,
before the functions ahead of it are made from it, and limits are wider by a millionth of a gallon. That lowers the
bound by some millionths of a dollar for each stop of a plan.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from domain.planning.least_cost import (
    CostFunction,
    CostSegment,
    StationInGallons,
    after_stop,
    after_stops,
    at_least,
    cheaper,
    least_sum,
    stations_of,
)
from domain.planning.pump_steps import Behind
from domain.planning.trips import DOLLAR_TOLERANCE, Trip

ROOM_GALLONS = 1.01e-6
"""Limits are wider by this much, a little more than in the checker."""

GALLON_PARTS, DOLLAR_PARTS = 10_000_000, 1_000_000
"""Levels and costs are rounded to parts of this size."""

MOVED_GALLONS = 3e-7
"""The end of a piece moves by less than this when it is rounded."""


@dataclass(frozen=True, slots=True)
class LowerBound:
    """Cost functions, each with the candidate before which it begins to count, the stops that are left where these
    count, and its rows; and those `behind` each candidate. They hold for plans that leave so much room at each
    limit. The least cost is that of plans in any fractions of gallons."""

    counts_stops: bool
    spare_gallons: float
    functions: Sequence[tuple[int, int, list[list[float]]]]
    behind: Sequence[Behind]
    least_cost: float


def find_bound(trip: Trip, *, counts_stops: bool, spare_gallons: float = 0.0) -> LowerBound:
    """The bound for a trip whose numbers have at most 12 decimals. Other plans leave `spare_gallons` of room at
    each limit. Where stops do not count, the bound holds for any number of them."""
    room = ROOM_GALLONS - spare_gallons
    stations = [_with_room(one, room) for one in stations_of(trip)]
    grid = _Grid.of(trip)
    layers = [grid.rounded(_at_end(trip, room), [])] * (min(trip.max_stops or 0, len(stations)) if counts_stops else 1)
    functions = [(len(stations), left, _rows(T)) for left, T in enumerate(layers) if T]
    behind = list[Behind]()
    least = _without_stop(trip, room)
    for position, station in reversed(list(enumerate(stations))):
        behind.append((station, [*layers]))
        for T in layers[-1:]:
            least = min(least, _first_stop(trip, station, T))
        if position and layers:
            ahead = [*_ahead(layers, station.backward(), trip.stop_cost, counts_stops)]
            for left, (T, new) in enumerate(zip(layers, ahead, strict=True)):
                if _lines(new) - _lines(T):
                    layers[left] = grid.rounded(new, T)
                    functions.append((position, left, _rows(layers[left])))
    return LowerBound(counts_stops, spare_gallons, functions, behind[::-1], least)


def _with_room(one: StationInGallons, room: float) -> StationInGallons:
    return one._replace(
        lowest=one.lowest - room,
        lowest_first=one.lowest_first - room,
        highest=one.highest + room,
        smallest=one.smallest - room,
        lowest_passing=one.lowest_passing - room,
        highest_passing=one.highest_passing + room,
    )


def _at_end(trip: Trip, room: float) -> CostFunction:
    """The worth of what is left at the destination, by negative level."""
    burned, worth = trip.gallons_to(trip.distance_miles), trip.leftover_value_per_gallon
    wanted, most = max(trip.reserve_gallons, trip.end_gallons) - room, trip.usable_gallons + room
    line = CostSegment(worth * (burned + trip.end_gallons), worth)
    return [(-most - burned, -wanted - burned, line)] if wanted < most else []


def _without_stop(trip: Trip, room: float) -> float:
    left = trip.start_usable_gallons - trip.gallons_to(trip.distance_miles)
    if left < max(trip.lowest_gallons(0), trip.end_gallons) - room:
        return math.inf
    return trip.leftover_value_per_gallon * (trip.end_gallons - left)


def _first_stop(trip: Trip, station: StationInGallons, behind: CostFunction) -> float:
    """The least cost of the trip with its first stop at a station."""
    start = trip.start_usable_gallons
    if start < station.lowest_first:
        return math.inf
    stopped = after_stop([(start, start, CostSegment(0.0, 0.0))], station, trip.stop_cost)
    cost, *_ = least_sum(stopped, behind)
    return cost


def _ahead(
    layers: Sequence[CostFunction], backward: StationInGallons, stop_cost: float, counts_stops: bool
) -> Iterator[CostFunction]:
    """The functions before a station, from those behind it."""
    kept = [at_least(T, backward.lowest_passing) for T in layers]
    for T, S in zip(kept, after_stops(kept, backward, stop_cost, counted=counts_stops), strict=True):
        # Where both cost the same, `cheaper` may take the dearer by its tolerance. A stop is a little cheaper, so that
        # it may not.
        stop = [(low, high, line._replace(base=line.base - 2 * DOLLAR_TOLERANCE)) for low, high, line in S]
        merged = cheaper(T, stop)
        yield [
            (low, min(high, backward.highest_passing), line)
            for low, high, line in merged
            if low < backward.highest_passing
        ]


def _lines(T: CostFunction) -> set[int]:
    return {id(line) for _, _, line in T}


class _Piece(NamedTuple):
    """A piece of a function of the level, from its lowest level to its highest."""

    low: float
    high: float
    line: CostSegment
    is_new: bool

    def cost(self, level: float) -> float:
        return self.line.base - self.line.slope * level


class _Grid(NamedTuple):
    """Rounds functions to few decimals, so that they are nowhere higher than before. `tolerance_dollars` is more than
    two lines can differ by within `MOVED_GALLONS` of the level where they cross."""

    tolerance_dollars: float

    @classmethod
    def of(cls, trip: Trip) -> "_Grid":
        slopes = [0.0, trip.leftover_value_per_gallon, *(one.price for one in trip.candidates)]
        return cls((max(slopes) - min(slopes)) * MOVED_GALLONS)

    def rounded(self, new: CostFunction, old: CostFunction) -> CostFunction:
        """A function on the grid. Pieces with lines of the old function, which is on the grid, keep their lines."""
        known = _lines(old)
        pieces = [_Piece(-high, -low, line, id(line) not in known) for low, high, line in reversed(new)]
        lines = {id(one.line): self._lowered(one.line) if one.is_new else one.line for one in pieces}
        kept: list[_Piece] = []
        for piece, (low, high) in zip(pieces, self._ends(pieces), strict=True):
            piece = _Piece(low, high, lines[id(piece.line)], piece.is_new)
            while kept and kept[-1].high > piece.low:  # pieces shorter than what their ends move by
                other = kept.pop()
                if other.cost(piece.low) <= piece.cost(piece.low):
                    piece = piece._replace(low=other.high)
                else:
                    other = other._replace(high=piece.low)
                if other.low < other.high:
                    kept.append(other)
            if piece.low < piece.high:
                kept.append(piece)
        return [(-one.high, -one.low, one.line) for one in reversed(kept)]

    def _ends(self, pieces: Sequence[_Piece]) -> list[list[float]]:
        """The ends of the pieces on the grid: where two meet, the cheaper one reaches further, and a new one where they
        cost about the same. Each reaches further where there is a gap."""
        ends = [[_down(one.low, one), _up(one.high, one)] for one in pieces]
        for i, (one, other) in enumerate(pairwise(pieces)):
            if other.low - one.high < MOVED_GALLONS and (one.is_new or other.is_new):
                dearer = one.cost(one.high) - other.cost(one.high)
                reaches = one.is_new if abs(dearer) <= self.tolerance_dollars else dearer < 0
                meets = _up(one.high) if reaches else _down(other.low)
                ends[i][1] = ends[i + 1][0] = meets
        return ends

    def _lowered(self, line: CostSegment) -> CostSegment:
        parts = math.floor((line.base - 3 * self.tolerance_dollars) * DOLLAR_PARTS - 1)
        return CostSegment(parts / DOLLAR_PARTS, line.slope)


def _up(level: float, old: _Piece | None = None) -> float:
    parts = level * GALLON_PARTS
    if old is not None and not old.is_new and abs(parts - round(parts)) < 1e-3:
        return round(parts) / GALLON_PARTS  # an end that is on the grid already
    return (math.floor(parts) + 2) / GALLON_PARTS


def _down(level: float, old: _Piece | None = None) -> float:
    return -_up(-level, old)


def _rows(T: CostFunction) -> list[list[float]]:
    """A function as the checker reads it."""
    rows: list[list[float]] = []
    for low, high, line in reversed(T):
        if rows and rows[-1][0] == -high:
            rows.pop()
        rows += [[-high, line.base, -line.slope], [-low]]
    return rows
