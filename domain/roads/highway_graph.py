"""The graph of main roads as a contraction hierarchy (`contraction.py`), and its file.

The package's file is of version 1: every arc can be driven both ways, and nothing is known of signs. `fuelroute roads
build --from` writes version 2 from an extract of OpenStreetMap: one-way roads, and the names of roads and exits."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from domain.errors import FuelrouteError
from domain.roads.packing import PER_DEGREE, Ints, pack_integers, unpack_integers
from domain.roads.sphere import Array

PER_MILE = 100
"""The file keeps lengths as whole hundredths of a mile."""

HIGHWAY, FREEWAY, DIVIDED, OPEN, BORDER = -1, -2, -3, -4, -5
"""The kind of an arc of the roads. A shortcut has the node that it goes through in its place. DIVIDED highways have
four lanes. OPEN ones have two, in states where trucks drive 60 to 75 mph on them. Any other two-lane road is a HIGHWAY.
BORDER is a highway into or out of the United States."""

COSTS = np.array([0, 86, 65, 70, 74, 86], dtype=np.int64)
BORDER_COST = 360_000
"""COSTS[-kind] is the cost of a hundredth of a mile in hundredths of a second; a border adds an hour. The speeds are 55
mph on freeways, within the 50 to 60 mph of most corridors in FHWA's Freight Facts and Figures; 51 mph on divided and 49
mph on open highways; 42 mph on the others. Their ratios were chosen with half of the known truck ways
(`tests/benchmarks/truck_ways.py`) and judged with the other half."""

VERSION = 2
FINE_PER_DEGREE = 100_000
"""Version 2 keeps coordinates as whole hundred-thousandths of a degree, 1.1 m."""


class UnusableRoadsFile(FuelrouteError):
    """The file holds no roads that this version can read."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} holds no roads of `fuelroute roads build`, or those of a later version: build it again"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Signs:
    """The signs along the roads of an extract. `names` are those of roads, such as `I-80 E`; `name_of` is the number of
    an arc's name, -1 for none. `exits` has the number of the exit that leaves at a node. `can_join` tells at which
    nodes a truck gets onto the roads and off them, anywhere but in the middle of a freeway."""

    names: Sequence[str]
    name_of: Ints
    exits: Mapping[int, str]
    can_join: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class HighwayGraph:
    """The road graph. Nodes are (n, 2) degrees. The arcs from a node to more important ones are those from
    `first[node]` to `first[node + 1]`, in the order of `head`: the other end, the cost, and the node that a shortcut
    goes through. Without `first_inward` every arc can be driven both ways. Otherwise those arcs lead away from the
    node, and the arcs from `first_inward[node]` to `first_inward[node + 1]` lead to it."""

    nodes: Array
    first: Ints
    head: Ints
    cost: Ints
    through: Ints
    first_inward: Ints | None = None
    signs: Signs | None = None

    def arcs_at(self, node: int) -> NDArray[np.intp]:
        """The arcs between a node and more important ones."""
        sides = [self.first] if self.first_inward is None else [self.first, self.first_inward]
        return np.concatenate([np.arange(side[node], side[node + 1]) for side in sides])

    def lengths(self, arcs: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """The lengths of arcs that are no shortcuts, in hundredths of a mile."""
        kinds = self.through[arcs]
        return np.asarray((self.cost[arcs] - np.where(kinds == BORDER, BORDER_COST, 0)) // COSTS[-kinds])

    def save(self, path: Path) -> None:
        per_degree = PER_DEGREE if self.signs is None else FINE_PER_DEGREE
        places = np.rint(self.nodes.T * per_degree).astype(np.int64)
        degrees = [np.diff(first) for first in (self.first, self.first_inward) if first is not None]
        tail = _tails(degrees)
        shortcut = self.through >= 0
        columns: dict[str, Any] = {
            "places": pack_integers(np.asarray(np.diff(places, prepend=0), dtype=np.int64)),
            "degree": degrees[0].astype(np.uint8 if self.signs is None else np.uint16),
            "head": pack_integers(self.head - tail),
            "kind": np.minimum(self.through, 0).astype(np.int8),
            "length": pack_integers(self.lengths(np.flatnonzero(~shortcut))),
            "cost": pack_integers(self.cost[shortcut]),
            "through": pack_integers((self.through - tail)[shortcut]),
        }
        if self.signs is not None:
            columns |= _signs_in_file(self.signs, degrees[1])
        np.savez_compressed(path, **columns)

    @classmethod
    def load(cls, path: Path) -> "HighwayGraph":
        """The graph in a file of either version. Raises UnusableRoadsFile."""
        try:
            with path.open("rb") as opened, np.load(opened) as file:
                return cls._of_file({name: file[name] for name in file.files})
        except (OSError, ValueError, LookupError, EOFError, RuntimeError, BadZipFile, zlib.error):
            raise UnusableRoadsFile(path) from None

    @classmethod
    def _of_file(cls, file: Mapping[str, NDArray[Any]]) -> "HighwayGraph":
        version = int(file.get("version", np.array(1)))
        if version > VERSION:
            raise ValueError("of a later version")
        degrees = [file[name].astype(np.int32) for name in ("degree", "degree_inward")[:version]]
        tail, kind = _tails(degrees), file["kind"]
        through = kind.astype(np.int32)
        cost = np.empty(len(through), dtype=np.int32)
        shortcut = through == 0
        through[shortcut] = unpack_integers(file["through"]) + tail[shortcut]
        cost[shortcut] = unpack_integers(file["cost"])
        cost[~shortcut] = costs_of(unpack_integers(file["length"]), through[~shortcut])
        per_degree = PER_DEGREE if version == 1 else FINE_PER_DEGREE
        nodes = np.cumsum(unpack_integers(file["places"]).reshape(2, -1), axis=1).T / per_degree
        firsts = [np.concatenate([[0], np.cumsum(degree)]).astype(np.int32) for degree in degrees]
        arcs = unpack_integers(file["head"]) + tail, cost, through
        if version == 1:
            return cls(nodes, firsts[0], *arcs)
        return cls(nodes, firsts[0], *arcs, firsts[1] + firsts[0][-1], _signs_of_file(file, len(nodes)))


def _tails(degrees: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    """The node of each arc."""
    return np.concatenate([np.repeat(np.arange(len(each), dtype=np.int32), each) for each in degrees])


def _signs_in_file(signs: Signs, degree_inward: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
    return {
        "version": np.array(VERSION),
        "degree_inward": degree_inward.astype(np.uint16),
        "names": np.array(signs.names, dtype=np.str_),
        "name_of": pack_integers(signs.name_of),
        "exit_nodes": np.array([*signs.exits], dtype=np.int32),
        "exit_numbers": np.array([*signs.exits.values()], dtype=np.str_),
        "can_join": np.packbits(signs.can_join),
    }


def _signs_of_file(file: Mapping[str, NDArray[Any]], nodes: int) -> Signs:
    return Signs(
        names=file["names"].tolist(),
        name_of=unpack_integers(file["name_of"]),
        exits=dict(zip(file["exit_nodes"].tolist(), file["exit_numbers"].tolist(), strict=True)),
        can_join=np.unpackbits(file["can_join"], count=nodes).astype(np.bool_),
    )


def costs_of(lengths: NDArray[np.int64] | Ints, kinds: NDArray[np.int64] | Ints) -> NDArray[np.int64]:
    """The costs of arcs by their lengths in hundredths of a mile."""
    return np.asarray(lengths * COSTS[-kinds] + np.where(kinds == BORDER, BORDER_COST, 0))
