"""The embedded roads are built right: shortcuts change no distance, and the file returns what was stored."""

import random
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from domain.roads import Point
from domain.roads.build_highways import RoadNetwork, graph_of
from domain.roads.highways import FREEWAY_COST, OTHER_COST, PER_MILE, HighwayFinder, HighwayGraph

pytestmark = pytest.mark.slow

SIZE = 15


def grid(seed: int) -> RoadNetwork:
    """A network of towns every 0.2 degrees, most of them joined to their neighbours by roads of any length, some by
    freeways."""
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
    return RoadNetwork(np.array(towns), starts, ends, miles, np.array([rng.random() < 0.3 for _ in pairs]))


@pytest.mark.parametrize("seed", range(5))
def test_ways_over_shortcuts_are_the_cheapest(seed: int) -> None:
    network = grid(seed)
    finder = HighwayFinder(graph_of(network))
    costs = np.rint(network.miles * PER_MILE) * np.where(network.freeway, FREEWAY_COST, OTHER_COST)
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
    towns = np.array([[40.0, -100.0], [40.0, -99.0], [40.0, -98.0]])
    roads = RoadNetwork(towns, np.array([0, 1]), np.array([1, 2]), np.array([60.0, 55.0]), np.array([True, False]))
    leg = HighwayFinder(graph_of(roads)).leg(Point(40.0, -100.0), Point(40.0, -98.0))
    assert leg is not None
    assert leg.line_miles.tolist() == pytest.approx([0, 0, 60, 115, 115])
    assert leg.hours == pytest.approx(60 / 55 + 55 / 40)


def test_a_graph_survives_its_file_and_the_same_graph_gives_the_same_file(tmp_path: Path) -> None:
    files = [tmp_path / "one.npz", tmp_path / "two.npz"]
    for file in files:
        graph = graph_of(grid(7))
        graph.save(file)
    assert files[0].read_bytes() == files[1].read_bytes()
    loaded = HighwayGraph.load(files[0])
    for name in ("nodes", "first", "head", "cost", "through"):
        assert np.array_equal(getattr(loaded, name), getattr(graph, name)), name
