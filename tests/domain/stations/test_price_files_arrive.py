"""Files arrive as they do in the world: cut, under other names, with the same name each day, beside markers."""

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from domain.database.connections import Database
from domain.stations.price_sources import SourceAddress
from tests.domain.stations.source_world import HEADER, ROW, World
from tests.factories import Fleet

CASES = Path(__file__).parents[2] / "cases" / "price_files_arrive"


def content(words: str) -> str:
    """The file of a step: a net price, the first half of such a file, or nothing."""
    whole = HEADER + ROW.replace("3.499", words.removeprefix("half ").strip())
    return "" if not words else whole[: len(whole) // 2 + words.endswith(" ")] if words.startswith("half") else whole


@pytest.mark.parametrize("path", sorted(CASES.glob("*.json")), ids=lambda path: path.stem)
def test_a_file_that_arrives_so_is_taken_once_and_whole(
    stored: Database, company: Fleet, folder: Path, path: Path
) -> None:
    case: dict[str, Any] = json.loads(path.read_text())
    world = World(stored, company, "folder", SourceAddress(str(folder), case["pattern"]))
    for step in case["steps"]:
        world.now += timedelta(minutes=step.get("minutes", 0))
        if "rename" in step:
            (folder / step["rename"][0]).rename(folder / step["rename"][1])
        for name, words in step.get("write", {}).items():
            (folder / name).write_text(content(words))
            at = (world.now + timedelta(minutes=case.get("clock_ahead_minutes", 0))).timestamp()
            os.utime(folder / name, (at, at))
        for _ in range(step.get("looks", 0)):
            world.now += timedelta(minutes=1)
            world.poll()

    right = case["right"]
    assert [run[0] for run in reversed(world.runs())] == right["taken"]
    assert world.prices().get("loves-305") == right["price"]
    assert world.source.fault == right["fault"]
