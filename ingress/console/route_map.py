"""A route as the data of its map, which `static/route_map.js` draws over the base map.

Places are pairs of longitude and latitude, as in GeoJSON. Road and stations come with the page. Stops and truck come
with each of its refreshes."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

import numpy as np
import shapely

from domain.languages.words import purchase_in_words
from domain.planning.explanation import Explanation, ReasonedCandidate
from domain.planning.reasons import CHOSEN, with_reasons
from domain.roads import Point
from domain.roads.sphere import Array, great_circle_miles
from domain.routes.reading.history import History
from ingress.console.drawing import MOST_POINTS, at_mile, places_of

Place = tuple[float, float]

_BENDS_DEGREES = 0.0004
"""Furthest distance of the drawn road from the stored one, some 40 m. It doubles until the points are few enough."""
_MOST_TO_SIMPLIFY = 8_000
"""Most points of a line whose bends are searched: the time grows with the square of the points if the line turns all
the time."""
_FARTHEST_MILES = 30.0
"""A station further than this from its place along the road has moved since, so the place along the road is shown."""


class MappedStation(TypedDict):
    """A station along the road. `price` is the net price of a gallon, and `why` a reason for people."""

    place: Place
    name: str
    price: str
    chosen: bool
    about: str
    why: str


class MappedShield(TypedDict):
    """The name of the road at a place, as on its shield: `I-80 E`."""

    place: Place
    name: str


class MappedStop(TypedDict):
    place: Place
    name: str
    reached: bool


class GroundOfMap(TypedDict):
    """The part of the map that does not move. `road` is straight lines unless `is_road`."""

    road: list[Place]
    is_road: bool
    driven: list[Place]
    stations: list[MappedStation]
    shields: list[MappedShield]


class MovingOfMap(TypedDict):
    stops: list[MappedStop]
    truck: Place | None


def map_ground(
    history: History, explanation: Explanation | None, places: Mapping[str, Point], driven: Sequence[Point]
) -> GroundOfMap:
    """The part of the map that does not move. `places` has the stations that are still known, by their ids."""
    stops, _ = places_of(history)
    line = [Point(latitude, longitude) for latitude, longitude in (explanation["line"] if explanation else ())]
    stations = _stations(explanation, line, places) if explanation and line else _bought_at(history)
    return {
        "road": _thinned(line or stops),
        "is_road": bool(line),
        "driven": _thinned(driven),
        "stations": stations,
        "shields": _shields(explanation, line) if explanation and line else [],
    }


def map_ground_of_load(explanation: Explanation, places: Mapping[str, Point]) -> GroundOfMap:
    """The map of a load that nobody drives. `places` has its stations by their ids."""
    line = [Point(latitude, longitude) for latitude, longitude in explanation["line"]]
    return {
        "road": _thinned(line),
        "is_road": True,
        "driven": [],
        "stations": _stations(explanation, line, places),
        "shields": _shields(explanation, line),
    }


def map_stops_of_load(stops: Sequence[tuple[Point, str]]) -> MovingOfMap:
    return {"stops": [{"place": _place(place), "name": name, "reached": False} for place, name in stops], "truck": None}


def map_moving(history: History) -> MovingOfMap:
    stops, truck = places_of(history)
    visited = {visit.stop for visit in history.visits}
    return {
        "stops": [
            {"place": _place(place), "name": stop["name"], "reached": number in visited}
            for number, (place, stop) in enumerate(zip(stops, history.route.stops, strict=True))
        ],
        "truck": _place(truck) if truck is not None else None,
    }


def _stations(explanation: Explanation, line: Sequence[Point], places: Mapping[str, Point]) -> list[MappedStation]:
    """The candidates in the order of the road, each at the station's place."""
    stations: list[MappedStation] = []
    for one in with_reasons(explanation, is_whole=False)["candidates"]:
        on_road = at_mile(line, explanation["line_miles"], one["mile"])
        known = places.get(one["station_id"], on_road)
        place = known if great_circle_miles(known, on_road) <= _FARTHEST_MILES else on_road
        about = ", ".join(filter(None, [one["state"], f"mile {one['mile']:,.1f}", _sign(explanation, one)]))
        stations.append(
            {
                "place": _place(place),
                "name": one["name"],
                "price": f"${one['net_price']:.3f}",
                "chosen": one["why"] == CHOSEN,
                "about": about,
                "why": _why(one),
            }
        )
    return stations


def _sign(explanation: Explanation, one: ReasonedCandidate) -> str | None:
    """The road and the exit to a fuel stop, or the road at another station, where they are known."""
    return one.get("sign") or _road_at(explanation, one["mile"])


def _road_at(explanation: Explanation, mile: float) -> str | None:
    """The name of the road at a mile, where it is known."""
    signs = explanation["sources"]["roads"].get("signs", [])
    begun = [sign["name"] for sign in signs if sign["mile"] <= mile]
    return begun[-1] if begun else None


def _shields(explanation: Explanation, line: Sequence[Point]) -> list[MappedShield]:
    """The names of the roads, each where the road takes it."""
    return [
        {"place": _place(at_mile(line, explanation["line_miles"], sign["mile"])), "name": sign["name"]}
        for sign in explanation["sources"]["roads"].get("signs", [])
    ]


def _why(one: ReasonedCandidate) -> str:
    return f"{'fuel here' if one['why'] == CHOSEN else 'not chosen, ' + one['why']}: {one['detail']}"


def _bought_at(history: History) -> list[MappedStation]:
    """The fuel stops of the current plan, for a plan whose explanation was deleted."""
    return [
        {
            "place": (stop["longitude"], stop["latitude"]),
            "name": stop["name"],
            "price": f"${stop['pricePerGallon']:.3f}",
            "chosen": True,
            "about": f"mile {stop['milesFromOrigin']:,.1f}",
            "why": f"fuel here: {purchase_in_words(stop['gallonsToFill'], stop.get('fillToPercent'))}",
        }
        for plan in history.plans
        if plan.id == history.route.plan_id and plan.document is not None
        for stop in plan.document["stops"]
    ]


def _place(point: Point) -> Place:
    return round(point.longitude, 5), round(point.latitude, 5)


def _thinned(points: Sequence[Point]) -> list[Place]:
    """The points without those nearly on the line between others. A line over the antimeridian stays in one piece: its
    longitudes go on beyond 180."""
    if not points:
        return []
    places = np.array(points)[:, ::-1]
    places[:, 0] = np.unwrap(places[:, 0], period=360)
    places, degrees = _few(places, _BENDS_DEGREES, _MOST_TO_SIMPLIFY)
    if len(places) > 2:
        places = shapely.get_coordinates(shapely.simplify(shapely.LineString(places), degrees))
    places, _ = _few(places, degrees, MOST_POINTS)
    return [(x, y) for x, y in places.round(5).tolist()]


def _few(places: Array, degrees: float, most: int) -> tuple[Array, float]:
    """The first of the places in a row in each square of a grid, and the width of the squares: `degrees`, doubled until
    the places are few enough."""
    while True:
        squares = np.floor(places / degrees)
        is_kept = np.any(np.diff(squares, axis=0, prepend=np.inf), axis=1)
        is_kept[-1] = True
        if is_kept.sum() <= most:
            return places[is_kept], degrees
        degrees *= 2
