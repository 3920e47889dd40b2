"""Writes vector tiles: Mapbox Vector Tile, version 2.1, as far as the base map needs it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

EXTENT = 4096
"""Steps of a tile's own grid, in each direction."""

Attributes = Mapping[str, str | int]


class Feature(NamedTuple):
    """A shape on the tile's grid, with y downwards."""

    shape: shapely.Geometry
    attributes: Attributes


def encode_tile(layers: Mapping[str, Sequence[Feature]]) -> bytes:
    encoded = (_layer(name, features) for name, features in layers.items())
    return b"".join(_field(3, layer) for layer in encoded if layer)


def _layer(name: str, features: Iterable[Feature]) -> bytes:
    keys: dict[str, int] = {}
    values: dict[str | int, int] = {}
    body = []
    for shape, attributes in features:
        commands, kind = _commands(shape)
        if not commands:
            continue
        tags = [
            number
            for key, value in attributes.items()
            for number in (keys.setdefault(key, len(keys)), values.setdefault(value, len(values)))
        ]
        body.append(_field(2, _field(2, _packed(tags)) + _number(3, kind) + _field(4, _packed(commands))))
    if not body:
        return b""
    named = [_field(3, key.encode()) for key in keys]
    stored = [_field(4, _number(5, one) if isinstance(one, int) else _field(1, one.encode())) for one in values]
    return b"".join([_number(15, 2), _field(1, name.encode()), *body, *named, *stored, _number(5, EXTENT)])


_POINT, _LINE, _POLYGON = 1, 2, 3
_MOVE_TO, _LINE_TO, _CLOSE = 1, 2, 7


def _commands(shape: shapely.Geometry) -> tuple[list[int], int]:
    """The commands that draw a shape, and the kind of the shape."""
    commands: list[int] = []
    at = np.zeros(2, dtype=np.int64)

    def draw(places: NDArray[np.int64], *, closed: bool) -> None:
        nonlocal at
        steps = np.diff(places, axis=0, prepend=at[None])
        moved = np.ravel((steps << 1) ^ (steps >> 63)).tolist()
        commands.extend([_MOVE_TO | 1 << 3, *moved[:2], _LINE_TO | (len(places) - 1) << 3, *moved[2:]])
        if closed:
            commands.append(_CLOSE | 1 << 3)
        at = places[-1]

    for part in shapely.get_parts(shape):
        if part.geom_type == "Point":
            x, y = _on_grid(part)[0].tolist()
            return [_MOVE_TO | 1 << 3, (x << 1) ^ (x >> 63), (y << 1) ^ (y >> 63)], _POINT
        if part.geom_type == "LineString":
            if len(line := _on_grid(part)) > 1:
                draw(line, closed=False)
        elif part.geom_type == "Polygon":
            for number, ring in enumerate(_rings(part)):
                if len(places := _on_grid(ring)[:-1]) > 2:
                    draw(places, closed=True)
                elif number == 0:
                    break
    is_polygon = shape.geom_type.endswith("Polygon")
    return commands, _POLYGON if is_polygon else _LINE


def _rings(polygon: shapely.Geometry) -> Iterator[shapely.Geometry]:
    """The shell and the holes, each in the direction that tells them apart."""
    turned = shapely.orient_polygons(polygon, exterior_cw=False)
    yield turned.exterior
    yield from turned.interiors


def _on_grid(shape: shapely.Geometry) -> NDArray[np.int64]:
    """The places of a shape on the grid, without repeats."""
    places = np.rint(shapely.get_coordinates(shape)).astype(np.int64)
    is_new = np.any(np.diff(places, axis=0, prepend=places[:1] - 1), axis=1)
    return np.asarray(places[is_new])


# --- Protocol Buffers --------------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def _packed(numbers: Iterable[int]) -> bytes:
    return b"".join(map(_varint, numbers))


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _field(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(body)) + body
