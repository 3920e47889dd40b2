"""Contraction hierarchies: arcs added to a road graph so that a search from both ends meets after few steps.

Nodes are taken out of the graph one by one, the least important first. Where the shortest way between two neighbours
led through the node, a new arc, a shortcut, replaces that way. Then two searches that only go from less important to
more important nodes find every shortest way, and each shortcut unfolds into the two arcs it stands for.

R. Geisberger and others, "Contraction Hierarchies", WEA 2008."""

import heapq
from collections.abc import Sequence

MAX_SETTLED = 60
"""Most nodes that the search for another way settles. Stopping early may add a needless shortcut, never a wrong way."""

Neighbours = dict[int, tuple[int, int]]
"""The arcs of one node by the node at their other end: the cost, and the node that was taken out between the two (-1:
an arc of the roads)."""


def contracted(neighbours: list[Neighbours]) -> list[Neighbours]:
    """The arcs and shortcuts of each node to more important ones. Uses up `neighbours`, which must be symmetric.

    Costs are whole numbers above 0. The same graph gives the same result, whatever machine computes it.
    """
    depth = [0] * len(neighbours)
    upward: list[Neighbours] = [{} for _ in neighbours]
    queue = [(_importance(node, neighbours, depth), node) for node in range(len(neighbours))]
    heapq.heapify(queue)
    while queue:
        _, node = heapq.heappop(queue)
        shortcuts = _shortcuts(node, neighbours)
        importance = _weighed(node, shortcuts, neighbours, depth)
        if queue and importance > queue[0][0]:  # its neighbours changed since it was weighed
            heapq.heappush(queue, (importance, node))
            continue
        upward[node], neighbours[node] = neighbours[node], {}
        for near in upward[node]:
            del neighbours[near][node]
            depth[near] = max(depth[near], depth[node] + 1)
        for start, end, cost in shortcuts:
            neighbours[start][end] = neighbours[end][start] = (cost, node)
    return upward


def contracted_one_way(
    outward: list[Neighbours], inward: list[Neighbours]
) -> tuple[list[Neighbours], list[Neighbours]]:
    """The arcs and shortcuts between each node and more important ones: those that leave the node, and those that reach
    it. Uses up both lists, in which each arc stands at both of its ends."""
    size = len(outward)
    depth = [0] * size
    up: tuple[list[Neighbours], list[Neighbours]] = ([{} for _ in range(size)], [{} for _ in range(size)])

    def weighed(node: int, shortcuts: list[tuple[int, int, int]]) -> int:
        return 2 * len(shortcuts) - 2 * len(outward[node]) - 2 * len(inward[node]) + 2 * depth[node]

    queue = [(weighed(node, _one_way_shortcuts(node, outward, inward)), node) for node in range(size)]
    heapq.heapify(queue)
    while queue:
        _, node = heapq.heappop(queue)
        shortcuts = _one_way_shortcuts(node, outward, inward)
        importance = weighed(node, shortcuts)
        if queue and importance > queue[0][0]:
            heapq.heappush(queue, (importance, node))
            continue
        up[0][node], outward[node] = outward[node], {}
        up[1][node], inward[node] = inward[node], {}
        for near in up[0][node]:
            del inward[near][node]
        for near in up[1][node]:
            del outward[near][node]
        for near in up[0][node].keys() | up[1][node].keys():
            depth[near] = max(depth[near], depth[node] + 1)
        for start, end, cost in shortcuts:
            outward[start][end] = inward[end][start] = (cost, node)
    return up


def _one_way_shortcuts(
    node: int, outward: Sequence[Neighbours], inward: Sequence[Neighbours]
) -> list[tuple[int, int, int]]:
    """Start, end and cost of each way over `node` that would be longer without it."""
    found = []
    for start, (start_cost, _) in inward[node].items():
        rest = [(end, start_cost + end_cost) for end, (end_cost, _) in outward[node].items() if end != start]
        if rest:
            reached = _costs_without(node, start, max(cost for _, cost in rest), outward)
            found += [(start, end, cost) for end, cost in rest if reached.get(end, cost + 1) > cost]
    return found


def _importance(node: int, neighbours: Sequence[Neighbours], depth: Sequence[int]) -> int:
    return _weighed(node, _shortcuts(node, neighbours), neighbours, depth)


def _weighed(
    node: int, shortcuts: list[tuple[int, int, int]], neighbours: Sequence[Neighbours], depth: Sequence[int]
) -> int:
    """The importance of a node. Nodes with few new arcs and a flat hierarchy below them are taken out first, so the
    hierarchy grows evenly everywhere."""
    return 2 * (len(shortcuts) - len(neighbours[node])) + depth[node]


def _shortcuts(node: int, neighbours: Sequence[Neighbours]) -> list[tuple[int, int, int]]:
    """Start, end and cost of each way between two neighbours that would be longer without `node`."""
    found = []
    around = [(near, cost) for near, (cost, _) in neighbours[node].items()]
    for place, (start, start_cost) in enumerate(around[:-1]):
        rest = [(end, start_cost + end_cost) for end, end_cost in around[place + 1 :]]
        reached = _costs_without(node, start, max(cost for _, cost in rest), neighbours)
        found += [(start, end, cost) for end, cost in rest if reached.get(end, cost + 1) > cost]
    return found


def _costs_without(node: int, start: int, maximum: int, neighbours: Sequence[Neighbours]) -> dict[int, int]:
    """Upper bounds of the costs from `start` to nearby nodes when `node` is avoided."""
    costs = {start: 0}
    queue = [(0, start)]
    settled = 0
    while queue and settled < MAX_SETTLED:
        cost, at = heapq.heappop(queue)
        if cost > costs[at]:
            continue
        settled += 1
        for near, (step, _) in neighbours[at].items():
            total = cost + step
            if near != node and total <= maximum and total < costs.get(near, maximum + 1):
                costs[near] = total
                heapq.heappush(queue, (total, near))
    return costs
