"""The embedded roads are built right: shortcuts change no distance, and the file returns what was stored."""

import random
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from domain.roads import Point
from domain.roads.build_highways import Ids, RoadNetwork, graph_of, kinds_of
from domain.roads.highway_graph import (
    BORDER,
    BORDER_COST,
    COSTS,
    DIVIDED,
    FREEWAY,
    HIGHWAY,
    OPEN,
    PER_MILE,
    HighwayGraph,
    costs_of,
)
from domain.roads.highways import HighwayFinder

pytestmark = pytest.mark.slow

SIZE = 15


def grid(seed: int) -> tuple[RoadNetwork, Ids]:
    """A network of towns every 0.2 degrees, most of them joined to their neighbours by roads of any length and kind."""
    rng = random.Random(seed)
    towns = [(30 + 0.2 * row, -100 + 0.2 * column) for row in range(SIZE) for column in range(SIZE)]
    pairs = [
        (town, town + step)
        for town in range(len(towns))
        for step in (1, SIZE)
        if town + step < len(towns) and (step == SIZE or town % SIZE < SIZE - 1) and rng.random() < 0.8
    ]
    starts, ends = np.array(pairs).T
    miles = np.array([rng.uniform(12, 30) for _ in pairs])
    kinds = np.array([rng.choice((HIGHWAY, FREEWAY, DIVIDED, OPEN, BORDER)) for _ in pairs])
    return RoadNetwork(np.array(towns), starts, ends, miles, kinds == FREEWAY), kinds


@pytest.mark.parametrize("seed", range(5))
def test_ways_over_shortcuts_are_the_cheapest(seed: int) -> None:
    network, kinds = grid(seed)
    finder = HighwayFinder(graph_of(network, kinds))
    costs = costs_of(np.rint(network.miles * PER_MILE).astype(np.int64), kinds)
    size = len(network.nodes)
    cheapest = dijkstra(csr_array((costs, (network.starts, network.ends)), shape=(size, size)), directed=False)
    rng = random.Random(seed)
    for _ in range(60):
        a, b = rng.sample(range(size), 2)
        number = {tuple(place): node for node, place in enumerate(finder.graph.nodes.round(3).tolist())}
        start, end = (number[tuple(network.nodes[node].round(3).tolist())] for node in (a, b))
        way = finder.way({start: 0}, {end: 0})
        if np.isinf(cheapest[a, b]):
            assert way is None
            continue
        assert way is not None
        nodes, arcs = way
        assert (nodes[0], nodes[-1], len(arcs)) == (start, end, len(nodes) - 1)
        assert finder.graph.cost[arcs].sum() == cheapest[a, b]
        assert np.all(finder.graph.through[arcs] < 0)


def test_a_leg_has_the_miles_of_its_roads() -> None:
    towns = np.array([[40.0, -100.0], [40.0, -99.0], [40.0, -98.0], [40.0, -97.0]])
    roads = RoadNetwork(
        towns, np.arange(3), np.arange(1, 4), np.array([60.0, 55.0, 56.0]), np.array([True, False, False])
    )
    leg = HighwayFinder(graph_of(roads, np.array([FREEWAY, HIGHWAY, BORDER]))).leg(
        Point(40.0, -100.0), Point(40.0, -97.0)
    )
    assert leg is not None
    assert leg.line_miles.tolist() == pytest.approx([0, 0, 60, 115, 171, 171])
    assert leg.hours == pytest.approx((6000 * COSTS[-FREEWAY] + 11_100 * COSTS[-HIGHWAY] + BORDER_COST) / 360_000)


def test_a_graph_survives_its_file_and_the_same_graph_gives_the_same_file(tmp_path: Path) -> None:
    files = [tmp_path / "one.npz", tmp_path / "two.npz"]
    for file in files:
        graph = graph_of(*grid(7))
        graph.save(file)
    assert files[0].read_bytes() == files[1].read_bytes()
    loaded = HighwayGraph.load(files[0])
    for name in ("nodes", "first", "head", "cost", "through"):
        assert np.array_equal(getattr(loaded, name), getattr(graph, name)), name


def test_kinds_are_told_by_the_freeways_the_list_the_states_and_the_border() -> None:
    """US 287 from Childress to Amarillo is in the list; other roads of Texas are open, others of Ohio are not."""
    childress, amarillo = [34.426, -100.204], [35.222, -101.831]
    texas, ohio = [[31.0, -100.0], [31.5, -100.5]], [[40.0, -82.0], [40.2, -82.5]]
    places = [childress, amarillo, *texas, *ohio, [49.5, -97.1], [48.5, -97.1]]
    starts, ends = np.array([0, 2, 4, 6, 4]), np.array([1, 3, 5, 7, 5])
    miles = np.array([118.0, 50.0, 33.0, 70.0, 35.0])
    network = RoadNetwork(np.array(places), starts, ends, miles, np.array([False, False, False, False, True]))
    assert kinds_of(network).tolist() == [DIVIDED, OPEN, HIGHWAY, BORDER, FREEWAY]


def test_a_second_way_is_little_longer_and_really_another() -> None:
    """Two roads round a lake: the southern one takes 2 % longer, or 5 %."""
    places = np.array([[40.0, -100.0], [40.6, -99.0], [39.4, -99.0], [40.0, -98.0]])
    starts, ends = np.array([0, 1, 0, 2]), np.array([1, 3, 2, 3])
    for longer, found in ((1.02, True), (1.05, False)):
        miles = np.array([70.0, 70.0, 70.0 * longer, 70.0 * longer])
        network = RoadNetwork(places, starts, ends, miles, np.zeros(4, dtype=np.bool_))
        finder = HighwayFinder(graph_of(network, np.full(4, OPEN)))
        leg = finder.leg(Point(40.0, -100.0), Point(40.0, -98.0))
        assert leg is not None
        assert leg.miles == pytest.approx(140)
        assert (leg.second_way is not None) == found
        if leg.second_way is not None:
            other, shared = leg.second_way
            assert other.hours == pytest.approx(longer * leg.hours)
            assert other.miles == pytest.approx(longer * leg.miles)
            assert [39.4, -99.0] in other.line.tolist()
            assert shared < 0.2
