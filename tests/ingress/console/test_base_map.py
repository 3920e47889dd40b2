"""The base map: tiles hold what lies in them, and the written format is that of vector tiles."""

import gzip
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import shapely

from ingress.console.base_map.tiles import EMPTY, MOST_ZOOM, TILES_FILE, Tiles, tile_at
from ingress.console.base_map.vector_tiles import EXTENT, Feature, encode_tile


class Read(NamedTuple):
    """A feature as a reader of vector tiles sees it. Polygons are lists of rings, each with its area by the surveyor's
    formula: positive for a shell."""

    kind: int
    attributes: dict[str, Any]
    lines: list[list[tuple[int, int]]]


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            number |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if not data[at - 1] & 0x80:
                return number

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = varint()
            at += size
            yield key >> 3, data[at - size : at]


def numbers(data: bytes) -> list[int]:
    """The numbers of a packed field: read as the fields 1 of a message."""
    found, number, shift = [], 0, 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            found.append(number)
            number = shift = 0
    return found


def read(tile: bytes) -> dict[str, list[Read]]:
    layers = {}
    for _, layer in fields(tile):
        parts = list(fields(layer))
        name = next(value for field, value in parts if field == 1).decode()
        keys = [value.decode() for field, value in parts if field == 3]
        stored = [next(fields(value)) for field, value in parts if field == 4]
        values = [value.decode() if field == 1 else value for field, value in stored]
        assert (15, 2) in parts
        assert (5, EXTENT) in parts
        layers[name] = [feature(dict(fields(value)), keys, values) for field, value in parts if field == 2]
    return layers


def feature(parts: dict[int, Any], keys: list[str], values: list[Any]) -> Read:
    tags = numbers(parts.get(2, b""))
    attributes = {keys[key]: values[value] for key, value in zip(tags[::2], tags[1::2], strict=True)}
    lines: list[list[tuple[int, int]]] = []
    commands, x, y = iter(numbers(parts[4])), 0, 0
    for command in commands:
        if command & 7 == 7:
            continue
        for _ in range(command >> 3):
            x, y = (at + ((step >> 1) ^ -(step & 1)) for at, step in ((x, next(commands)), (y, next(commands))))
            if command & 7 == 1:
                lines.append([])
            lines[-1].append((x, y))
    return Read(parts[3], attributes, lines)


def area(ring: list[tuple[int, int]]) -> float:
    return sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(ring, ring[1:] + ring[:1], strict=True)) / 2


def tile_of(latitude: float, longitude: float, zoom: int) -> dict[str, list[Read]]:
    x = (longitude / 360 + 0.5) * 2**zoom
    y = (0.5 - math.asinh(math.tan(math.radians(latitude))) / (2 * math.pi)) * 2**zoom
    return read(gzip.decompress(tile_at(zoom, int(x), int(y))))


def test_what_is_written_is_read_again() -> None:
    square = shapely.box(0, 0, 100, 100).difference(shapely.box(10, 10, 20, 20))
    layers = {
        "land": [Feature(shapely.multipolygons([square, shapely.box(200, 0, 300, 100)]), {})],
        "roads": [Feature(shapely.LineString([(-64, 5), (50.4, 5), (50.3, 5), (4160, 9)]), {"kind": "freeway"})],
        "towns": [
            Feature(shapely.Point(5, 6), {"name": "Québec", "rank": 300}),
            Feature(shapely.Point(7, 8), {"name": "León", "rank": 300}),
        ],
        "lakes": [Feature(shapely.Polygon([(1, 1), (1.1, 1), (1, 1.1)]), {})],
    }
    found = read(encode_tile(layers))
    (land,), (road,), towns = found.pop("land"), found.pop("roads"), found.pop("towns")
    assert [area(ring) for ring in land.lines] == [10_000, -100, 10_000], "a hole runs the other way"
    assert (road.kind, road.attributes, road.lines) == (2, {"kind": "freeway"}, [[(-64, 5), (50, 5), (4160, 9)]])
    assert [(town.attributes["name"], town.lines) for town in towns] == [("Québec", [[(5, 6)]]), ("León", [[(7, 8)]])]
    assert {town.attributes["rank"] for town in towns} == {300}
    assert found == {}, "nothing is left of a lake that is smaller than a step of the grid"


def test_tiles_are_found_by_their_numbers(tmp_path: Any) -> None:
    tiles = Tiles(np.array([3, 70]), np.array([0, 2]), np.array([2, 3]), b"aabbb")
    tiles.save(tmp_path / "tiles.npz")
    found = Tiles.load(tmp_path / "tiles.npz")
    assert (found.at(0, 0, 3), found.at(-1, 0, 0), found.at(0, 0, 0)) == (EMPTY, EMPTY, EMPTY)
    assert Tiles(np.array([0]), np.array([2]), np.array([3]), b"aabbb").at(0, 0, 0) == b"bbb"


def test_the_map_knows_chicago_its_lake_and_its_freeways() -> None:
    tile = tile_of(41.88, -87.63, MOST_ZOOM)
    assert "Chicago" in {town.attributes["name"] for town in tile["towns"]}
    assert {road.attributes["kind"] for road in tile["roads"]} == {"freeway", "highway"}
    assert sum(area(ring) for lake in tile["lakes"] for ring in lake.lines) > 0.1 * EXTENT**2
    assert {border.attributes["kind"] for border in tile["borders"]} == {"state"}


def test_from_afar_the_map_has_large_towns_only_and_freeways_only() -> None:
    tile = tile_of(41.88, -87.63, 3)
    names = {town.attributes["name"] for town in tile["towns"]}
    assert {"Chicago", "New York City", "Toronto"} <= names
    assert len(names) < 40
    assert {road.attributes["kind"] for road in tile["roads"]} == {"freeway"}


@pytest.mark.parametrize(("code", "name"), [("IL", "Illinois"), ("ON", "Ontario"), ("MX", "México")])
def test_states_provinces_and_mexico_have_names(code: str, name: str) -> None:
    named = {
        state.attributes["code"]: state.attributes["name"]
        for x in range(2, 6)
        for y in range(3, 8)
        for state in read(gzip.decompress(tile_at(4, x, y))).get("states", [])
    }
    assert named[code] == name
    assert len(named) >= 48


def test_the_sea_is_empty_and_the_file_is_small() -> None:
    assert tile_of(35.0, -50.0, MOST_ZOOM) == {}
    assert TILES_FILE.stat().st_size < 12_000_000
