"""A route as a drawing: road, stops, stations and truck as figures of an SVG, in a frame of fixed width. No map service
is asked, so nobody learns where the trucks are."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from domain.planning.explanation import Explanation
from domain.planning.reasons import CHOSEN
from domain.roads import Point
from domain.routes.history import History

WIDTH = 1000.0
_HEIGHTS = (240.0, 620.0)
"""The least and the most."""
_MARGIN = 34.0
_NEAREST = 1.2
"""Points of the road that are nearer to each other are one."""
_SMALLEST_DEGREES = 0.02
"""About 2 km: what a route within one town is drawn as large as."""


class Mark(NamedTuple):
    x: float
    y: float
    label: str
    """What it says of itself when pointed at."""
    kind: str
    """The class of its look."""
    number: str = ""


class Drawing(NamedTuple):
    height: float
    road: str
    """The points of a polyline."""
    is_road: bool
    """False where the road is not known: then these are straight lines from stop to stop."""
    stations: list[Mark]
    stops: list[Mark]
    truck: Mark | None


def draw(history: History) -> Drawing:
    explanation = history.explanation
    stops = [Point(stop["latitude"], stop["longitude"]) for stop in history.route.stops]
    line = [Point(latitude, longitude) for latitude, longitude in (explanation["line"] if explanation else ())]
    truck = Point(history.truck.latitude, history.truck.longitude) if history.truck is not None else None
    stations = _stations(explanation, line) if explanation and line else _bought_at(history)
    onto = _Projection([*stops, *line, *(place for place, *_ in stations), *([truck] if truck else [])])
    visited = {visit.stop: visit for visit in history.visits}
    return Drawing(
        round(onto.height, 1),
        _polyline(onto, line or stops),
        bool(line),
        [Mark(*onto(place), label, kind) for place, label, kind in stations],
        [
            Mark(*onto(place), stop["name"], "reached" if number in visited else "ahead", str(number + 1))
            for number, (place, stop) in enumerate(zip(stops, history.route.stops, strict=True))
        ],
        Mark(*onto(truck), "The truck", "truck") if truck is not None else None,
    )


_Station = tuple[Point, str, str]


def _stations(explanation: Explanation, line: Sequence[Point]) -> list[_Station]:
    """The candidates, each where the truck would leave the road for it; those that were chosen last, on top."""
    stations = []
    for one in explanation["candidates"]:
        kind = CHOSEN if one["gallons"] else "rejected"
        label = f"{one['name']}, mile {one['mile']:,.1f}, ${one['net_price']:.3f}"
        if one["gallons"]:
            label += f": {one['gallons']:.1f} gal"
        stations.append((_at_mile(line, explanation["line_miles"], one["mile"]), label, kind))
    return sorted(stations, key=lambda station: station[2] == CHOSEN)


def _bought_at(history: History) -> list[_Station]:
    """The fuel stops of the current plan, once its explanation was forgotten."""
    documents = [plan.document for plan in history.plans if plan.id == history.route.plan_id]
    return [
        (Point(stop["latitude"], stop["longitude"]), f"{stop['name']}: {stop['gallonsToFill']:.1f} gal", CHOSEN)
        for document in documents
        if document is not None
        for stop in document["stops"]
    ]


def _at_mile(line: Sequence[Point], miles: Sequence[float], mile: float) -> Point:
    after = min(max(bisect_right(miles, mile), 1), len(line) - 1)
    if after == 0:
        return line[0]
    before = after - 1
    length = miles[after] - miles[before]
    share = min(max((mile - miles[before]) / length, 0.0), 1.0) if length > 0 else 0.0
    one, other = line[before], line[after]
    return Point(
        one.latitude + share * (other.latitude - one.latitude),
        one.longitude + share * _turned(other.longitude - one.longitude),
    )


def _turned(degrees: float) -> float:
    """The same direction, from -180 to 180."""
    return (degrees + 180.0) % 360.0 - 180.0


class _Projection:
    """Degrees to figures: north is up, and a mile is as long in each direction in the middle of the drawing."""

    def __init__(self, places: Sequence[Point]) -> None:
        self._origin = places[0].longitude  # a route over the antimeridian stays in one piece
        latitudes = [place.latitude for place in places]
        longitudes = [_turned(place.longitude - self._origin) for place in places]
        self._middle = ((min(latitudes) + max(latitudes)) / 2, (min(longitudes) + max(longitudes)) / 2)
        self._narrowing = max(math.cos(math.radians(self._middle[0])), 0.05)
        wide = max((max(longitudes) - min(longitudes)) * self._narrowing, _SMALLEST_DEGREES)
        tall = max(max(latitudes) - min(latitudes), _SMALLEST_DEGREES / 2)
        least, most = _HEIGHTS
        self._scale = min((WIDTH - 2 * _MARGIN) / wide, (most - 2 * _MARGIN) / tall)
        self.height = max(tall * self._scale + 2 * _MARGIN, least)

    def __call__(self, place: Point) -> tuple[float, float]:
        latitude, longitude = self._middle
        east = (_turned(place.longitude - self._origin) - longitude) * self._narrowing
        x, y = WIDTH / 2 + east * self._scale, self.height / 2 - (place.latitude - latitude) * self._scale
        return round(x, 1), round(y, 1)


def _polyline(onto: _Projection, line: Iterable[Point]) -> str:
    """Without the points that nobody could tell from the one before."""
    points: list[tuple[float, float]] = []
    last = None
    for place in line:
        last = onto(place)
        if not points or math.dist(points[-1], last) >= _NEAREST:
            points.append(last)
    if last is not None and points[-1] != last:
        points.append(last)
    return " ".join(f"{x:g},{y:g}" for x, y in points)
