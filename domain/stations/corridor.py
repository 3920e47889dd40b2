"""The stations along a road: all within the furthest detour of its line, and no others.

Distances are great-circle miles from the station to the line. The line is treated as straight chords through the earth,
and distances to them are computed in space. There is no map projection, so the antimeridian and the poles are no
special cases. Chords of `PIECE_MILES` lie at most 5 m under the great circle. That changes a distance of a mile by 5
millionths of a mile, and a distance of zero by those 5 m.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from domain.roads import Road
from domain.roads.sphere import (
    EARTH_RADIUS_MILES,
    MILES_PER_DEGREE,
    Array,
    chord_of_miles,
    densified,
    dots,
    miles_of_chords,
    norms,
    rows_of_vectors,
)

PIECE_MILES = 10.0
"""The line is searched in pieces of this length. Boxes of longer pieces would hold many stations that are too far."""

MOST_PAIRS = 100_000
"""Pairs of a place and a point of the road from which on an index is faster."""

_Ids = NDArray[np.intp]


class StationPass(NamedTuple):
    """One pass of the road by a station: the mile where the road is nearest to it, and the straight distance from
    there."""

    station_index: int
    mile: float
    detour_miles: float


@dataclass(frozen=True, slots=True, eq=False)
class StationIndex:
    """The places of stations with a spatial index. It is made once and shared by all plans. Many threads may use it."""

    station_ids: Sequence[str]
    vectors: Array
    """The places, (3, n)."""
    tree: shapely.STRtree

    @classmethod
    def build(cls, station_ids: Sequence[str], places: Sequence[tuple[float, float]]) -> "StationIndex":
        """Build the index. `places` are latitude and longitude of each station, in degrees."""
        degrees = np.array(places, dtype=np.float64).reshape(-1, 2)
        tree = shapely.STRtree(shapely.points(degrees[:, 1], degrees[:, 0]))
        return cls(station_ids, rows_of_vectors(degrees), tree)

    def passes(self, road: Road, max_detour_miles: float) -> list[StationPass]:
        """Every pass of the road by a station at most `max_detour_miles` away, in driving order.

        A pass is an unbroken stretch of the road within that distance. A road that winds near a station passes it once.
        A road that goes far away and comes back passes it twice.
        """
        line, line_miles = densified(road.line, road.line_miles, PIECE_MILES)
        boxes, box_pieces = _boxes(line, max_detour_miles)
        found, stations = self.tree.query(boxes)
        pairs = np.sort(stations * len(line) + box_pieces[found])  # by station, then along the road
        station, piece = np.divmod(pairs[_begins(pairs)], len(line))
        found = _passes(rows_of_vectors(line), line_miles, self.vectors, station, piece, max_detour_miles)
        return [*starmap(StationPass, found)]


_Places = Sequence[tuple[float, float]]
"""Latitude and longitude of each, in degrees."""


def passes_by(searches: Sequence[tuple[_Places, Road]], max_detour_miles: float) -> list[list[StationPass]]:
    """The passes of each road by places of its own that are asked for once, as `StationIndex.passes` finds them. For a
    few places no index is built: each is compared with each piece of its road, in a third of the time. All roads are
    searched at once, laid end to end, which takes half the time of thirty searches."""
    if any(len(places) * len(road.line) > MOST_PAIRS for places, road in searches):
        return [
            StationIndex.build([""] * len(places), places).passes(road, max_detour_miles) for places, road in searches
        ]
    places = [place for places, _ in searches for place in places]
    vectors = rows_of_vectors(np.array(places, dtype=np.float64).reshape(-1, 2))
    lines, miles = zip(*(densified(road.line, road.line_miles, PIECE_MILES) for _, road in searches), strict=True)
    line_vectors = rows_of_vectors(np.concatenate(lines))
    reach = math.cos(min((max_detour_miles + PIECE_MILES + 1) / EARTH_RADIUS_MILES, math.pi))
    pairs, owners, begin = list[Array](), list[tuple[int, int]](), 0
    for number, ((own, _), line) in enumerate(zip(searches, lines, strict=True)):
        first, end = len(owners), begin + len(line)
        near = vectors[:, first : first + len(own)].T @ line_vectors[:, begin : end - 1] >= reach
        pairs.append(np.add(near.nonzero(), [[first], [begin]]))
        owners += [(number, at) for at in range(len(own))]
        begin = end
    station, piece = np.concatenate(pairs, axis=1)
    found: list[list[StationPass]] = [[] for _ in searches]
    for at, mile, detour_miles in _passes(
        line_vectors, np.concatenate(miles), vectors, station, piece, max_detour_miles
    ):
        number, place = owners[at]
        found[number].append(StationPass(place, mile, detour_miles))
    return found


def _passes(
    line_vectors: Array, line_miles: Array, vectors: Array, station: _Ids, piece: _Ids, max_detour_miles: float
) -> Iterator[tuple[int, float, float]]:
    """The fields of the passes among pairs of a station and a piece of the line, in order, with all that may be near.
    `vectors` are the (3, n) places of the stations."""
    # The nearest point of each piece to each station near it.
    pieces = np.diff(line_vectors)
    length_squared = dots(pieces, pieces)
    start, along, target = line_vectors.take(piece, 1), pieces.take(piece, 1), vectors.take(station, 1)
    share = dots(target - start, along) / np.where(length_squared > 0, length_squared, 1.0).take(piece)
    share = np.clip(share, 0.0, 1.0)
    chords = norms(target - (start + share * along))
    miles = line_miles.take(piece) + share * np.diff(line_miles).take(piece)

    # A stretch goes on from one piece to the next if the point between them is within the limit.
    limit = chord_of_miles(max_detour_miles)
    within = chords <= limit
    starts_within = norms(target - start) <= limit
    goes_on = np.zeros(len(station), dtype=np.bool_)
    goes_on[1:] = (np.diff(station) == 0) & (np.diff(piece) == 1) & starts_within[1:]
    stretch = np.cumsum(~goes_on, dtype=np.intp)[within]

    # The nearest point of each stretch; the first one if several are equally near.
    near = chords[within]
    begins = np.flatnonzero(_begins(stretch))
    least = np.repeat(np.minimum.reduceat(near, begins), np.diff(begins, append=len(near))) if len(near) else near
    nearest = np.flatnonzero(near == least)
    nearest = np.flatnonzero(within)[nearest[_begins(stretch[nearest])]]
    nearest = nearest[np.lexsort((station[nearest], miles[nearest]))]
    detours = np.minimum(miles_of_chords(chords[nearest]), max_detour_miles)
    return zip(station[nearest].tolist(), miles[nearest].tolist(), detours.tolist(), strict=True)


def _begins(ordered: _Ids) -> NDArray[np.bool_]:
    """True for the first of each run of equal numbers, none of which is negative. `numpy.unique` sorts once more."""
    return np.diff(ordered, prepend=-1) > 0


def _boxes(line: Array, margin_miles: float) -> tuple[NDArray[np.object_], NDArray[np.intp]]:
    """Boxes in degrees that together hold everything within the margin of the line, and the piece of each box. A box
    across the antimeridian is repeated on the other side. Near a pole the box is the whole cap."""
    # A great circle may bulge poleward of both its ends, at 89 degrees by nearly a fiftieth of the piece.
    margin = (margin_miles + PIECE_MILES / 50) / MILES_PER_DEGREE
    latitude, longitude = line.T
    south = np.minimum(latitude[:-1], latitude[1:]) - margin
    north = np.maximum(latitude[:-1], latitude[1:]) + margin
    poleward = np.maximum(np.abs(south), np.abs(north))
    cap = poleward > 89
    margin_east = margin / np.cos(np.radians(np.where(cap, 0, poleward)))
    eastward = (np.diff(longitude) + 180) % 360 - 180
    west = np.where(cap, -180, longitude[:-1] + np.minimum(eastward, 0) - margin_east)
    east = np.where(cap, 180, longitude[:-1] + np.maximum(eastward, 0) + margin_east)

    pieces = np.arange(len(south))
    over_east, over_west = np.flatnonzero(east > 180), np.flatnonzero(west < -180)
    shift = np.concatenate([np.zeros(len(pieces)), np.full(len(over_east), -360.0), np.full(len(over_west), 360.0)])
    pieces = np.concatenate([pieces, over_east, over_west])
    return shapely.box(west[pieces] + shift, south[pieces], east[pieces] + shift, north[pieces]), pieces
