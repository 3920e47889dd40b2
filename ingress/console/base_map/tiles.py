"""The tiles of the base map in `tiles.npz`: vector tiles packed by gzip, each kept once."""

import functools
import gzip
import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

TILES_FILE = Path(__file__).with_name("tiles.npz")

MOST_ZOOM = 8
"""Largest zoom with tiles. Browsers enlarge these further, because the data has no finer lines."""

EMPTY = gzip.compress(b"", mtime=0)
"""The tile of a place where nothing is drawn."""


class Tiles(NamedTuple):
    """The packed tiles. `places` are their numbers in rising order; tile `places[n]` is the part of `packed` that
    begins at `begins[n]` and has `sizes[n]` bytes."""

    places: NDArray[np.int32]
    begins: NDArray[np.int32]
    sizes: NDArray[np.int32]
    packed: bytes

    def at(self, z: int, x: int, y: int) -> bytes:
        place = number_of(z, x, y)
        found = int(np.searchsorted(self.places, place))
        if found == len(self.places) or self.places[found] != place:
            return EMPTY
        begin = int(self.begins[found])
        return self.packed[begin : begin + int(self.sizes[found])]

    def save(self, path: Path) -> None:
        packed = np.frombuffer(self.packed, dtype=np.uint8)
        np.savez(path, places=self.places, begins=self.begins, sizes=self.sizes, packed=packed)

    @classmethod
    def load(cls, path: Path) -> "Tiles":
        with np.load(path) as file:
            return cls(file["places"], file["begins"], file["sizes"], file["packed"].tobytes())


def number_of(z: int, x: int, y: int) -> int:
    """The number of a tile; -1 if there is no such tile."""
    is_tile = 0 <= z <= MOST_ZOOM and 0 <= x < 1 << z and 0 <= y < 1 << z
    return z << 2 * MOST_ZOOM | x << MOST_ZOOM | y if is_tile else -1


@functools.cache
def _tiles() -> Tiles:
    return Tiles.load(TILES_FILE)


def tile_at(z: int, x: int, y: int) -> bytes:
    """A tile of the base map, packed by gzip; the empty tile where there is none."""
    return _tiles().at(z, x, y)


@functools.cache
def tile_address() -> str:
    """The address of a tile, with `{z}`, `{x}` and `{y}` in the place of its numbers. It changes with the file, so
    browsers may keep tiles for ever."""
    version = hashlib.sha256(TILES_FILE.read_bytes()).hexdigest()[:12]
    return f"/static/base-map/{{z}}/{{x}}/{{y}}?v={version}"
