"""Ways that trucks are known to take, and distances, on the embedded roads; another revision's beside them.

    python -m tests.benchmarks.truck_ways --before REVISION

`truck_ways.csv` holds 146 pairs of towns, the highways by which trucks drive from one to the other, and towns that the
way must pass within ten miles. They are an engineer's judgement, from the published routes of the interstates and US
highways; no router was asked. Pairs known to have two usual ways were left out.

- `tune`: half of the first 110, drawn by lot, with the three ways that were known to be wrong. The costs were chosen
  with them.
- `judge`: the other half. After a first look at it, newer interstates were added to `listed_highways.csv`.
- `fresh`: 36 pairs written down after that, before anything was measured with them. Nothing was changed since.

Distances are those of `tests/domain/roads/highway_pairs.csv`, every other row for `tune` and for `judge`.
"""

import csv
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from domain.roads import Point, Road
from domain.roads.highways import HighwayRoads
from domain.roads.sphere import miles_of_chords, unit_vectors

NEAR_MILES = 10.0
KM_PER_MILE = 1.609344

WAYS_FILE = Path(__file__).with_name("truck_ways.csv")
REPOSITORY = Path(__file__).parents[2]


class TruckWay(NamedTuple):
    """A pair of towns, and the towns that the way between them passes."""

    name: str
    chosen_for: str
    ends: tuple[Point, Point]
    towns: dict[str, Point]


def read_truck_ways() -> list[TruckWay]:
    """The pairs of the file."""
    with WAYS_FILE.open(encoding="utf-8") as file:
        return [
            TruckWay(
                f"{row['start']} to {row['end']}",
                row["set"],
                (_point(row, "start"), _point(row, "end")),
                dict(map(_town, row["waypoints"].split("; "))),
            )
            for row in csv.DictReader(file)
        ]


def _point(row: dict[str, str], end: str) -> Point:
    return Point(float(row[f"{end}_latitude"]), float(row[f"{end}_longitude"]))


def _town(text: str) -> tuple[str, Point]:
    name, latitude, longitude = text.rsplit(" ", 2)
    return name, Point(float(latitude), float(longitude))


def missed_towns(way: TruckWay, line: np.ndarray[Any, Any]) -> list[str]:
    """The towns that the line does not pass."""
    vectors = unit_vectors(line)
    chords = (np.linalg.norm(vectors - unit_vectors(np.array([town]))[0], axis=1).min() for town in way.towns.values())
    return [name for name, chord in zip(way.towns, chords, strict=True) if miles_of_chords(chord) > NEAR_MILES]


def measured() -> dict[str, Any]:
    """The towns missed by each way, and the errors of distances, on the roads of this checkout."""
    roads = HighwayRoads()
    missed, seconds = {}, {}
    for way in read_truck_ways():
        road = roads.through(way.ends)
        missed[way.name] = missed_towns(way, road.line)
        others = getattr(road, "second_ways", ())  # an earlier revision has none
        seconds[way.name] = [missed_towns(way, Road.of([second.other]).line) for second in others]
    errors = defaultdict(list)
    with (REPOSITORY / "tests" / "domain" / "roads" / "highway_pairs.csv").open(encoding="utf-8") as file:
        for row, chosen_for in zip(csv.DictReader(file), itertools.cycle(("tune", "judge"))):
            miles = roads.through([_point(row, "start"), _point(row, "end")]).distance_miles
            errors[chosen_for].append(miles * KM_PER_MILE / float(row["kilometres"]) - 1)
    return {"missed": missed, "seconds": seconds, "errors": errors}


def main(
    before: Annotated[str | None, typer.Option(help="A revision to compare with.")] = None,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    now = measured()
    if as_json:
        print(json.dumps(now))
        return
    earlier = _measured_at(before) if before is not None else None
    for chosen_for in ("tune", "judge", "fresh"):
        ways = [way for way in read_truck_ways() if way.chosen_for == chosen_for]
        for name, found in (("before", earlier), ("now", now)):
            if found is not None:
                _print_figures(f"{chosen_for:6}{name:7}", ways, found)
        for way in ways:
            if now["missed"][way.name]:
                note = _second_note(now["seconds"][way.name])
                print(f"    {way.name} misses {', '.join(now['missed'][way.name])}{note}")


def _print_figures(name: str, ways: Sequence[TruckWay], found: dict[str, Any]) -> None:
    wrong = [way.name for way in ways if found["missed"][way.name]]
    right = len(ways) - len(wrong)
    print(f"{name} right ways {right} of {len(ways)} ({100 * right / len(ways):.0f} %)")
    doubted = [way.name for way in ways if found["seconds"][way.name]]
    told_wrong, told_right = len(set(doubted) & set(wrong)), len(set(doubted) - set(wrong))
    print(f"{'':13} second way told for {told_wrong} wrong ones, {told_right} right ones")
    if errors := np.abs(found["errors"].get(ways[0].chosen_for, [])).tolist():
        mean, middle = 100 * fmean(errors), 100 * median(errors)
        print(f"{'':13} error of {len(errors)} distances {mean:.2f} % in the mean, {middle:.2f} % in the median")


def _second_note(seconds: list[list[str]]) -> str:
    if not seconds:
        return "; no second way is told"
    return "; the second way is right" if [] in seconds else "; the second way is wrong too"


def _measured_at(revision: str) -> dict[str, Any]:
    """Measure on the roads of a revision, exported into a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        export = subprocess.run(["git", "archive", revision, "domain"], cwd=REPOSITORY, check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", folder], input=export.stdout, check=True)
        there = subprocess.run(
            [sys.executable, __file__, "--json"],
            env={**os.environ, "PYTHONPATH": folder},
            check=True,
            capture_output=True,
            text=True,
            cwd=folder,
        )
    return dict(json.loads(there.stdout))


if __name__ == "__main__":
    typer.run(main)
