"""A route as a drawing: road, stations, stops and truck as figures of an SVG, in a frame of fixed width. No map service
is asked, so none learns where the trucks are.

Road and stations are drawn once, since they can be many figures. Stops and truck lie above them in the same frame, and
are drawn again at each refresh."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from domain.planning.explanation import Explanation, StoredExplanation
from domain.planning.reasons import CHOSEN
from domain.roads import Point
from domain.roads.sphere import stop_point
from domain.routes.reading.history import History

WIDTH = 1000.0
_HEIGHTS = (240.0, 620.0)
"""The lowest and the greatest height of a drawing."""
_MARGIN = 34.0
_NEAREST = 1.2
"""Points of the road nearer to each other than this become one. The distance doubles until the points are few
enough."""
MOST_POINTS = 4_000
MOST_STATIONS = 1_000
"""Most unchosen stations drawn, spread evenly along the road."""
_SMALLEST_DEGREES = 0.02
"""Smallest extent of a drawing, about 2 km: a shorter route is not enlarged further."""


class Symbol(NamedTuple):
    x: float
    y: float
    label: str
    """The text under the pointer."""
    kind: str
    """The class for CSS."""
    number: str = ""


class Frame(NamedTuple):
    """The scale of a drawing: it turns degrees into places. North is up, and in the middle of the drawing a mile is
    equally long in both directions."""

    origin: float
    """A longitude from which others are counted, so that a route over the antimeridian stays in one piece."""
    latitude: float
    longitude: float
    """The middle of the drawing, counted from the origin."""
    scale: float
    height: float
    is_road: bool
    """False if the road is not known, and straight lines go from stop to stop."""

    @classmethod
    def around(cls, places: Sequence[Point], *, is_road: bool) -> "Frame":
        origin = places[0].longitude
        latitudes = [place.latitude for place in places]
        longitudes = [_turned(place.longitude - origin) for place in places]
        latitude, longitude = (min(latitudes) + max(latitudes)) / 2, (min(longitudes) + max(longitudes)) / 2
        wide = max((max(longitudes) - min(longitudes)) * _narrowing(latitude), _SMALLEST_DEGREES)
        tall = max(max(latitudes) - min(latitudes), _SMALLEST_DEGREES / 2)
        least, most = _HEIGHTS
        scale = min((WIDTH - 2 * _MARGIN) / wide, (most - 2 * _MARGIN) / tall)
        height = max(tall * scale + 2 * _MARGIN, least)
        return cls(
            round(origin, 6), round(latitude, 6), round(longitude, 6), round(scale, 6), round(height, 1), is_road
        )

    def text(self) -> str:
        """The frame as the text that `read` reads."""
        return ",".join(f"{one:.10g}" for one in self)

    @classmethod
    def read(cls, text: str) -> "Frame | None":
        """The frame in that text; None for any other text."""
        try:
            origin, latitude, longitude, scale, height, is_road = map(float, text.split(","))
        except ValueError:
            return None
        frame = cls(origin, latitude, longitude, scale, height, is_road == 1)
        is_usable = all(math.isfinite(one) and abs(one) < _LARGEST for one in frame)
        return frame if is_usable and _HEIGHTS[0] <= height <= _HEIGHTS[1] + 1 else None

    def __call__(self, place: Point) -> tuple[float, float]:
        """The drawn place of a point. A point outside of the frame stands at its edge: the truck may have driven on."""
        east = (_turned(place.longitude - self.origin) - self.longitude) * _narrowing(self.latitude)
        x, y = WIDTH / 2 + east * self.scale, self.height / 2 - (place.latitude - self.latitude) * self.scale
        return min(max(round(x, 1), 0.0), WIDTH), min(max(round(y, 1), 0.0), self.height)


def _narrowing(latitude: float) -> float:
    return max(math.cos(math.radians(latitude)), 0.05)


_LARGEST = 1e6


class Ground(NamedTuple):
    """The part of the drawing that does not move."""

    frame: Frame
    road: str
    """The road as points of a polyline."""
    stations: list[Symbol]


class Moving(NamedTuple):
    frame: Frame
    stops: list[Symbol]
    truck: Symbol | None


def drawn_candidates(explanation: StoredExplanation) -> list[int]:
    """The indexes of the candidates to draw: all chosen ones, and a limited number of the others."""
    step = max(1, -(-len(explanation) // MOST_STATIONS))
    return [*range(0, len(explanation), step), *explanation.chosen]


def draw_ground(history: History, explanation: Explanation | None) -> Ground:
    stops, truck = places_of(history)
    line = [Point(latitude, longitude) for latitude, longitude in (explanation["line"] if explanation else ())]
    stations = _stations(explanation, line) if explanation and line else _bought_at(history)
    return _ground([*stops, *([truck] if truck else [])], line, line or stops, stations)


def _ground(
    places: Sequence[Point], line: Sequence[Point], drawn: Sequence[Point], stations: "Sequence[_Station]"
) -> Ground:
    """The ground in a frame around everything: the road, or the straight lines that are `drawn` in its place."""
    frame = Frame.around([*places, *line, *(place for place, *_ in stations)], is_road=bool(line))
    symbols = [Symbol(*frame(place), label, kind) for place, label, kind in stations]
    return Ground(frame, _polyline([frame(place) for place in drawn]), symbols)


def draw_load(explanation: Explanation, stops: Sequence[tuple[Point, str]]) -> tuple[Ground, Moving]:
    """The drawing of a load that nobody drives: its road, its stations, and its stops with their names."""
    line = [Point(latitude, longitude) for latitude, longitude in explanation["line"]]
    ground = _ground([place for place, _ in stops], line, line, _stations(explanation, line))
    symbols = [
        Symbol(*ground.frame(place), name, "ahead", str(number)) for number, (place, name) in enumerate(stops, 1)
    ]
    return ground, Moving(ground.frame, symbols, None)


def draw_moving(history: History, frame: Frame | None) -> Moving:
    """Draw stops and truck in the frame of the ground below. `frame` is None if that frame is not known."""
    stops, truck = places_of(history)
    frame = frame or Frame.around([*stops, *([truck] if truck else [])], is_road=False)
    visited = {visit.stop for visit in history.visits}
    return Moving(
        frame,
        [
            Symbol(*frame(place), stop["name"], "reached" if number in visited else "ahead", str(number + 1))
            for number, (place, stop) in enumerate(zip(stops, history.route.stops, strict=True))
        ],
        Symbol(*frame(truck), "The truck", "truck") if truck is not None else None,
    )


def places_of(history: History) -> tuple[list[Point], Point | None]:
    """The stops, and the truck if its place is known."""
    stops = [stop_point(stop) for stop in history.route.stops]
    return stops, Point(history.truck.latitude, history.truck.longitude) if history.truck is not None else None


_Station = tuple[Point, str, str]


def _stations(explanation: Explanation, line: Sequence[Point]) -> list[_Station]:
    """The candidates, each where the truck would leave the road for it. The chosen ones come last, so that they lie on
    top."""
    stations = []
    for one in explanation["candidates"]:
        kind = CHOSEN if one["gallons"] else "rejected"
        label = f"{one['name']}, mile {one['mile']:,.1f}, ${one['net_price']:.3f}"
        if one["gallons"]:
            label += f": {one['gallons']:.1f} gal"
        stations.append((at_mile(line, explanation["line_miles"], one["mile"]), label, kind))
    return sorted(stations, key=lambda station: station[2] == CHOSEN)


def _bought_at(history: History) -> list[_Station]:
    """The fuel stops of the current plan, for a plan whose explanation was deleted."""
    documents = [plan.document for plan in history.plans if plan.id == history.route.plan_id]
    return [
        (stop_point(stop), f"{stop['name']}: {stop['gallonsToFill']:.1f} gal", CHOSEN)
        for document in documents
        if document is not None
        for stop in document["stops"]
    ]


def at_mile(line: Sequence[Point], miles: Sequence[float], mile: float) -> Point:
    """The place at a mile of the road."""
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
    """The direction in the range from -180 to 180."""
    return (degrees + 180.0) % 360.0 - 180.0


def _polyline(places: Sequence[tuple[float, float]]) -> str:
    """The points of a polyline, without those too near to the point before."""
    nearest = _NEAREST
    while len(points := _thinned(places, nearest)) > MOST_POINTS:
        nearest *= 2
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def _thinned(places: Sequence[tuple[float, float]], nearest: float) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    for place in places:
        if not points or math.dist(points[-1], place) >= nearest:
            points.append(place)
    if places and points[-1] != places[-1]:
        points.append(places[-1])
    return points
