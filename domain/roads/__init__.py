"""The road through some points: its length, its line, its driving time.

There is one interface, `Roads`. Behind it are Valhalla where its address is set (`valhalla.py`), and the embedded main
roads of North America (`highways.py`), which are an estimate and need nothing else. Roads always answer: no valid point
makes them fail.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from domain.roads.sphere import Array, Point, densified, great_circle_miles, places_at
from domain.roads.truck_dimensions import ANY_TRUCK, TruckDimensions

__all__ = [
    "CIRCUITY",
    "LINE_STEP_MILES",
    "Leg",
    "Point",
    "Road",
    "Roads",
    "SecondWay",
    "great_circle_miles",
]

CIRCUITY = 1.20
"""Road miles for one straight mile. Mean of 18 driving routes of 580 to 2,781 miles: 1.196. R. H. Ballou and others,
Transportation Research A 36 (2002), find 1.20 for the United States."""

LINE_STEP_MILES = 10.0
"""Longest distance between neighbouring vertices of a road's line. Over 10 miles a great circle and a line straight in
degrees are 5 m apart at 40 degrees north, so a reader may connect them either way."""


@dataclass(frozen=True, slots=True, eq=False)
class Leg:
    """The road from one point to the next: `line` is (n, 2) in degrees, `line_miles` the road mile at each vertex."""

    line: Array
    line_miles: Array
    hours: float
    source: str
    second_way: "tuple[Leg, float] | None" = None
    """Another road that takes little longer, and the share of its miles that lie on this one; None where none is
    known."""

    @property
    def miles(self) -> float:
        return float(self.line_miles[-1])


@dataclass(frozen=True, slots=True, eq=False)
class SecondWay:
    """A road that takes little longer than one leg. `leg` counts from 0; `mile` is where the leg begins on the whole
    road. `shared_share` is the share of its miles that both have in common."""

    leg: int
    mile: float
    best: Leg
    other: Leg
    shared_share: float


@dataclass(frozen=True, slots=True, eq=False)
class Road:
    """The way through all points.

    `line` is (n, 2), latitude and longitude in degrees; `line_miles` (n,) is the road mile at each vertex, from 0,
    never falling, to `distance_miles`. Road miles are longer than the line where the line only approximates the road.
    `stop_miles` and `stop_hours` are the road mile and the hours of driving at which each given point is reached. Where
    the road was cut (`up_to`), `beyond_miles` lie beyond the end of the line, and the points there keep their miles and
    hours. `source` names the sources of the road, joined by `+`. `fallback_reason` tells people why the preferred roads
    did not answer, where others or a straight line had to.
    """

    distance_miles: float
    line: Array
    line_miles: Array
    stop_miles: tuple[float, ...]
    stop_hours: tuple[float, ...]
    source: str
    fallback_reason: str | None = None
    beyond_miles: float = 0.0
    second_ways: tuple["SecondWay", ...] = ()

    @property
    def whole_miles(self) -> float:
        """The miles to the last point, also where the road was cut."""
        return self.distance_miles + self.beyond_miles

    @classmethod
    def of_line(cls, line: Array, line_miles: Array) -> "Road":
        """A road of which only its line is known, such as that of a stored plan."""
        return cls(float(line_miles[-1]), line, line_miles, stop_miles=(), stop_hours=(), source="")

    def place_at(self, mile: float) -> Point:
        return Point(*places_at(self.line, self.line_miles, np.array([mile]))[0].tolist())

    def up_to(self, miles: float) -> "Road":
        """Cut the road at this mile. A shorter road stays as it is."""
        if self.distance_miles <= miles:
            return self
        after = int(np.searchsorted(self.line_miles, miles, side="right"))  # the first vertex beyond the cut
        (start, end), (left, right) = self.line[after - 1 : after + 1], self.line_miles[after - 1 : after + 1]
        step = end - start
        step[1] = (step[1] + 180) % 360 - 180  # over the antimeridian
        place = start + step * (miles - left) / (right - left)
        place[1] = (place[1] + 180) % 360 - 180
        return replace(
            self,
            distance_miles=miles,
            line=np.concatenate([self.line[:after], [place]]),
            line_miles=np.append(self.line_miles[:after], miles),
            beyond_miles=self.whole_miles - miles,
        )

    @classmethod
    def of(cls, legs: Sequence[Leg]) -> "Road":
        """Join legs end to end. A leg may start a little off the place where the last one ended."""
        starts = np.cumsum([0.0, *(leg.miles for leg in legs)])
        hours = np.cumsum([0.0, *(leg.hours for leg in legs)])
        line, line_miles = densified(
            np.concatenate([leg.line for leg in legs]),
            np.concatenate([start + leg.line_miles for start, leg in zip(starts, legs, strict=False)]),
            LINE_STEP_MILES,
        )
        sources = {leg.source for leg in legs if leg.miles > 0} or {legs[0].source}
        return cls(
            distance_miles=float(starts[-1]),
            line=line,
            line_miles=line_miles,
            stop_miles=tuple(starts.tolist()),
            stop_hours=tuple(hours.tolist()),
            source="+".join(sorted(sources)),
            second_ways=tuple(
                SecondWay(number, float(start), leg, *leg.second_way)
                for number, (start, leg) in enumerate(zip(starts, legs, strict=False))
                if leg.second_way is not None
            ),
        )


class Roads(Protocol):
    """Finds roads. Implementations never raise for two or more points on earth. Implementations that know closed roads
    keep the truck off them."""

    def through(self, points: Sequence[Point], truck: TruckDimensions = ANY_TRUCK) -> Road: ...
