"""The stations and the roads of the judge's world: the demo's stations, and made ones at the exits of freeways."""

import csv
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from domain.planning.relaxation import FURTHEST_DETOUR_MILES
from domain.roads import Point, Road
from domain.roads.highway_graph import FREEWAY, HighwayGraph
from domain.roads.highways import HIGHWAYS_FILE, HighwayRoads
from domain.roads.sphere import MILES_PER_DEGREE, miles_of_chords, unit_vectors
from domain.stations.corridor import StationIndex
from domain.stations.offers import Offer, Station
from domain.stations.prices import Deal, net_price
from tests.benchmarks.plan import interchanges
from tests.benchmarks.truth.chances import draws

AT_FREEWAYS, AT_OTHER_ROADS = 5_000, 1_500
"""Made stations at exits of freeways, and along the other highways, where a truck finds one every hour or two."""
MADE_OFF_ROAD_MILES = 2.0
MADE_PRICE_SPREAD = 0.12
"""Dollars: a made station's retail price differs this much from the price of the demo's nearest one."""

LEAST_MILES, MOST_MILES = 421.0, 2_014.0

SOUTHERNMOST, NORTHERNMOST = 25.0, 49.0
"""The embedded roads reach into Mexico and Canada, where the demo has no stations."""

DEMO = Path(__file__).parents[3] / "deploy" / "demo"


@dataclass(frozen=True, eq=False)
class Network:
    stations: list[Station]
    net_prices: list[float]
    index: StationIndex

    def offers_along(self, road: Road) -> list[Offer]:
        """All offers that a plan may come to look at, in driving order."""
        return [
            Offer(self.stations[at], mile, detour_miles, self.net_prices[at])
            for at, mile, detour_miles in self.index.passes(road, FURTHEST_DETOUR_MILES)
        ]


@cache
def network() -> Network:
    """The demo's stations with its deals, and the made ones. The same for every seed."""
    rows, deals = _rows("stations.csv"), _deals()
    stations = [
        Station(
            row["station_id"],
            row["name"],
            row["brand"],
            row["address"],
            row["city"],
            row["state"],
            float(row["latitude"]),
            float(row["longitude"]),
        )
        for row in rows
    ]
    retail = [float(row["retail_price"]) for row in rows]
    for station, price in _made(stations, retail):
        stations.append(station)
        retail.append(price)
    prices = [
        net_price(price, [*deals.get(station.station_id, []), *deals.get(station.brand or "", [])]) or price
        for station, price in zip(stations, retail, strict=True)
    ]
    places = [(one.latitude, one.longitude) for one in stations]
    return Network(stations, prices, StationIndex.build([one.station_id for one in stations], places))


def _rows(name: str) -> list[dict[str, str]]:
    with (DEMO / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _deals() -> dict[str, list[Deal]]:
    """The demo's deals, by station or brand."""
    deals: dict[str, list[Deal]] = {}
    for row in _rows("deals.csv"):
        discount, fixed = (float(row[name]) if row[name] else None for name in ("discount_per_gallon", "net_price"))
        deals.setdefault(row["station_id"] or row["brand"], []).append(Deal(discount, fixed))
    return deals


def _made(near: list[Station], retail: list[float]) -> Iterator[tuple[Station, float]]:
    """Made stations, each with a retail price near that of the demo's nearest station."""
    rng = draws(0, "stations")
    exits, others = (list(filter(_is_in_the_states, places)) for places in (interchanges(), _along_other_roads()))
    brands = sorted({one.brand for one in near if one.brand})
    demo = unit_vectors(np.array([(one.latitude, one.longitude) for one in near]))
    for number in range(AT_FREEWAYS + AT_OTHER_ROADS):
        spread = MADE_OFF_ROAD_MILES / MILES_PER_DEGREE
        place = rng.choice(exits if number < AT_FREEWAYS else others)
        latitude, longitude = (one + rng.uniform(-spread, spread) for one in place)
        chords = np.linalg.norm(demo - unit_vectors(np.array([(latitude, longitude)])), axis=1)
        nearest = int(chords.argmin())
        brand, town = rng.choice(brands), near[nearest]
        price = round(retail[nearest] + rng.gauss(0, MADE_PRICE_SPREAD), 3)
        name = f"{brand} {town.city} {miles_of_chords(chords)[nearest]:.0f}-{number}"
        yield Station(f"M-{number:05}", name, brand, None, town.city, town.state, latitude, longitude), price


def _along_other_roads() -> list[Point]:
    graph = HighwayGraph.load(HIGHWAYS_FILE)
    tails = np.repeat(np.arange(len(graph.nodes)), np.diff(graph.first))
    other = graph.through != FREEWAY
    nodes = np.setdiff1d(np.union1d(tails[other], graph.head[other]), graph.head[~other])
    return [Point(*place) for place in graph.nodes[nodes].tolist()]


def _is_in_the_states(place: Point) -> bool:
    return SOUTHERNMOST < place.latitude < NORTHERNMOST


def draw_road(rng: random.Random) -> Road:
    """A road of 421 to 2,014 miles between two of the demo's stations."""
    demo, roads = network().stations[: -(AT_FREEWAYS + AT_OTHER_ROADS)], HighwayRoads()
    while True:
        start, end = (Point(one.latitude, one.longitude) for one in rng.sample(demo, 2))
        road = roads.through([start, end])
        if LEAST_MILES <= road.distance_miles <= MOST_MILES and road.fallback_reason is None:
            return road


def rest_of(road: Road, mile: float) -> Road:
    """The road from this mile on, as a plan that is made there sees it."""
    place = [float(np.interp(mile, road.line_miles, column)) for column in road.line.T]
    after = int(np.searchsorted(road.line_miles, mile, side="right"))
    hours = float(np.interp(mile, road.stop_miles, road.stop_hours))
    return Road(
        road.distance_miles - mile,
        np.concatenate([[place], road.line[after:]]),
        np.concatenate([[0.0], road.line_miles[after:] - mile]),
        (0.0, road.distance_miles - mile),
        (0.0, road.stop_hours[-1] - hours),
        road.source,
    )
