"""Tells which places of the fleet lie outside of an extract: plans there take the embedded roads.

An extract is as large as its tiles: squares of a quarter of a degree, some 13 to 17 miles wide, that hold a road."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import psycopg
from numpy.typing import NDArray

from domain.database.connections import DatabaseProblem, connected
from domain.operations.fleet_area import FleetArea, fleet_area
from domain.roads.states import default_states
from domain.settings import MissingServer, Settings
from domain.wording import counted

LOCAL_LEVEL = 2
TILES_PER_DEGREE, TILES_AROUND = 4, 1440
"""Tiles of Valhalla's lowest level: their number goes from west to east, then from south to north.
https://valhalla.github.io/valhalla/tiles/"""

MOST_NAMED = 5
"""Most states and stops that are named."""

_NOT_CHECKED = "whether the roads reach the fleet's stops and stations was not checked"

Placed = TypeVar("Placed", bound=Any)


def tell_coverage(settings: Settings, tiles: Path, say: Callable[[str], object]) -> None:
    """Say what of the fleet the tiles do not cover. Nothing is known of it without a database, or where that fails."""
    try:
        with connected(settings.require_direct_url()) as connection:
            area = fleet_area(connection)
    except (DatabaseProblem, MissingServer):
        say(f"no database is known here: {_NOT_CHECKED}")
        return
    except psycopg.Error as error:
        reason = str(error).partition("\n")[0]
        say(f"the database cannot be read ({reason}): {_NOT_CHECKED}")
        return
    for sentence in coverage_in_words(tiles, area):
        say(sentence)


def coverage_in_words(tiles: Path, area: FleetArea) -> list[str]:
    """The sentences about stations and stops outside of the tiles; one sentence where all lie inside."""
    numbers = tile_numbers(tiles)
    stations, stops = _outside(numbers, area.stations), _outside(numbers, area.stops)
    if not stations and not stops:
        return [
            f"the extract covers all {counted(len(area.stations), 'station')} and"
            f" {counted(len(area.stops), 'stop')} of live routes"
        ]
    told = []
    if stations:
        told.append(
            f"{len(stations):,} of {counted(len(area.stations), 'station')} lie outside of the extract:"
            f" {_by_state(stations)}"
        )
    if stops:
        named = ", ".join(f"{stop.name} ({stop.external_id})" for stop in stops[:MOST_NAMED])
        more = f" and {len(stops) - MOST_NAMED:,} more" if len(stops) > MOST_NAMED else ""
        told.append(
            f"{len(stops):,} of {counted(len(area.stops), 'stop')} of live routes lie outside of the extract:"
            f" {named}{more}"
        )
    return [*told, "routes that leave the extract take the embedded roads, and their plans say so"]


def tile_numbers(tiles: Path) -> NDArray[np.int64]:
    """The numbers of the local tiles, from their files: `2/000/750/652.gph` is tile 750652."""
    level = tiles / str(LOCAL_LEVEL)
    names = ("".join(file.relative_to(level).with_suffix("").parts) for file in level.rglob("*.gph"))
    return np.array(sorted(int(name) for name in names), dtype=np.int64)


def _outside(numbers: NDArray[np.int64], placed: Sequence[Placed]) -> list[Placed]:
    """The things that lie in none of the tiles."""
    places = np.array([(one.latitude, one.longitude) for one in placed], dtype=np.float64).reshape(-1, 2)
    rows, columns = np.floor((places + np.array([90, 180])) * TILES_PER_DEGREE).astype(np.int64).T
    inside = np.isin(rows * TILES_AROUND + columns, numbers)
    return [one for one, is_inside in zip(placed, inside.tolist(), strict=True) if not is_inside]


def _by_state(stations: Sequence[Placed]) -> str:
    """The states with most of the stations, such as `412 in TX, 90 in OK`."""
    states = default_states()
    positions = states.positions(np.array([(one.latitude, one.longitude) for one in stations]))
    counts = Counter(states.names[position] for position in positions.tolist()).most_common()
    named = [f"{count:,} in {name}" for name, count in counts[:MOST_NAMED]]
    rest = sum(count for _, count in counts[MOST_NAMED:])
    return ", ".join([*named, *([f"{rest:,} elsewhere"] if rest else [])])
