"""Tiles are built once for an extract, and a build that ends early leaves none. The builder is a script here."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.processes import StopRequested
from deploy.road_server import tiles as tiles_module
from deploy.road_server.coverage import coverage_in_words
from deploy.road_server.extracts import Extract, UnusableExtract, checked_extract
from deploy.road_server.sizing import needs_of
from deploy.road_server.tiles import LEAST_FREE_BYTES, ORIGIN, BuildFailed, RoadsFolder
from deploy.road_server.valhalla_wheel import ValhallaWheel
from domain.operations.fleet_area import FleetArea, PlannedStopPlace, StationPlace
from tests.deploy.road_server.test_extracts import WHOLE, block

BUILDS = "mkdir -p 2/000/754 && echo tile >2/000/754/894.gph && echo '[INFO] Validating, finishing'"
"""The tile of 41.1 degrees north, 96.4 west."""


class Wheel(ValhallaWheel):
    def __init__(self, folder: Path, script: str = BUILDS, version: str = "pyvalhalla 1") -> None:
        self.builder = folder / "builder"
        self.builder.write_text(f"#!/bin/sh\n{script}\n")
        self.builder.chmod(0o700)
        self._version = version

    @property
    def version(self) -> str:
        return self._version

    def write_build_config(self, file: Path, tiles: Path, *, threads: int) -> None:
        file.write_text("{}")


@pytest.fixture
def extract(tmp_path: Path) -> Extract:
    file = tmp_path / "map.osm.pbf"
    file.write_bytes(WHOLE)
    return checked_extract(file)


@pytest.fixture
def folder(tmp_path: Path) -> RoadsFolder:
    folder = RoadsFolder(tmp_path / "data" / "roads")
    with folder.locked():
        pass
    return folder


def test_tiles_are_built_once_and_again_when_the_content_or_valhalla_changes(
    tmp_path: Path, folder: RoadsFolder, extract: Extract
) -> None:
    wheel, shares = Wheel(tmp_path), list[float]()
    assert folder.tiles_of(extract, wheel) is None
    built = folder.build(extract, wheel, threads=1, progress=shares.append)
    assert (built / "2/000/754/894.gph").exists()
    assert shares[-1] == 1.0
    assert shares == sorted(shares)
    assert folder.tiles_of(extract, wheel) == built

    os.utime(extract.path, (1, 1))  # fetched again, the same
    assert folder.tiles_of(checked_extract(extract.path), wheel) == built
    assert folder.tiles_of(extract, Wheel(tmp_path, version="pyvalhalla 2")) is None

    extract.path.write_bytes(WHOLE[:-1] + b"\x01")
    assert folder.tiles_of(checked_extract(extract.path), wheel) is None
    again = folder.build(checked_extract(extract.path), wheel, threads=1)
    assert [path.name for path in folder.path.glob("tiles-*")] == [again.name]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'std::runtime_error: data error'; exit 3", "cannot be built: std::runtime_error: data error"),
        ("echo '  what():  Detected unsorted input data'; kill -6 $$", "osmium sort"),
        ("kill -9 $$", "it was killed, most likely for want of memory"),
        ("kill -7 $$", "the disk is full"),
        ("echo 'Finished with 0 routable ways containing 0 nodes'; kill -11 $$", "has no roads"),
        ("true", "has no roads"),
    ],
)
def test_a_build_that_fails_says_why_and_leaves_no_tiles(
    tmp_path: Path, folder: RoadsFolder, extract: Extract, script: str, reason: str
) -> None:
    with pytest.raises(BuildFailed, match=reason):
        folder.build(extract, Wheel(tmp_path, script), threads=1)
    assert {path.name for path in folder.path.iterdir()} == {"lock", "build.log"}


def test_what_a_killed_build_left_is_never_served_and_is_removed(folder: RoadsFolder) -> None:
    left = folder.path / "building-0123"
    left.mkdir()
    with folder.locked():
        assert not left.exists()
        with pytest.raises(BuildFailed, match="another `fuelroute roads serve` works in"), folder.locked():
            pass


def test_tiles_that_a_kill_left_half_removed_are_never_served(
    tmp_path: Path, folder: RoadsFolder, extract: Extract, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = Wheel(tmp_path)
    folder.build(extract, wheel, threads=1)
    extract.path.write_bytes(WHOLE + block(b"OSMData", b"more"))
    newer = checked_extract(extract.path)
    with monkeypatch.context() as killed:
        killed.setattr(shutil, "rmtree", killed_at_the_first_tile)
        with pytest.raises(KeyboardInterrupt):
            folder.build(newer, wheel, threads=1)
    extract.path.write_bytes(WHOLE)  # the older file is back
    with folder.locked():
        assert folder.tiles_of(extract, wheel) is None
        assert [path.name for path in folder.path.glob("*ing-*")] == []


def killed_at_the_first_tile(path: Path, ignore_errors: bool = False) -> None:
    for tile in path.rglob("*.gph"):
        tile.unlink()
        raise KeyboardInterrupt


@pytest.mark.parametrize("content", [None, "", "{"])
def test_tiles_whose_origin_is_lost_are_built_anew(
    tmp_path: Path, folder: RoadsFolder, extract: Extract, content: str | None
) -> None:
    origin = folder.build(extract, Wheel(tmp_path), threads=1) / ORIGIN
    origin.unlink() if content is None else origin.write_text(content)
    assert folder.tiles_of(extract, Wheel(tmp_path)) is None
    assert folder.build(extract, Wheel(tmp_path), threads=1) == origin.parent


def test_a_stop_ends_the_build(tmp_path: Path, folder: RoadsFolder, extract: Extract) -> None:
    with pytest.raises(StopRequested):
        folder.build(extract, Wheel(tmp_path, "sleep 600"), threads=1, stopping=lambda: True)
    assert not [*folder.path.glob("*ing-*"), *folder.path.glob("tiles-*")]


def test_an_extract_that_changes_during_the_build_is_refused(
    tmp_path: Path, folder: RoadsFolder, extract: Extract
) -> None:
    with pytest.raises(UnusableExtract, match="was changed while its roads were built"):
        folder.build(extract, Wheel(tmp_path, f"{BUILDS}; echo more >>{extract.path}"), threads=1)
    assert folder.tiles_of(extract, Wheel(tmp_path)) is None


class Disk(NamedTuple):
    free: int


def test_no_build_begins_without_room_on_the_disk(
    tmp_path: Path, folder: RoadsFolder, extract: Extract, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(needs_of(extract.size).disk_bytes - 1))
    with pytest.raises(BuildFailed, match=r"needs about 0\.0 GB of disk .*: make room, or choose another folder"):
        folder.build(extract, Wheel(tmp_path, "exit 1"), threads=1)


def test_a_build_ends_when_the_disk_becomes_full(
    tmp_path: Path, folder: RoadsFolder, extract: Extract, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = iter([needs_of(extract.size).disk_bytes + LEAST_FREE_BYTES, LEAST_FREE_BYTES, LEAST_FREE_BYTES - 1])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(next(free)))
    with pytest.raises(BuildFailed, match="cannot be built: the disk is full"):
        folder.build(extract, Wheel(tmp_path, f"{BUILDS}; sleep 600"), threads=1)
    assert folder.tiles_of(extract, Wheel(tmp_path)) is None


def test_every_stage_of_the_builder_begins_later_than_the_one_before() -> None:
    shares = [share for _, share in tiles_module.STAGES]
    assert shares == sorted(set(shares))


def test_needs_grow_with_the_extract_and_shrink_with_threads() -> None:
    small, large = needs_of(1_000_000, 4), needs_of(11_000_000_000, 4)
    roads_alone = "if the file has roads alone, four times the disk and three times the time"
    assert small.in_words() == (
        f"the build needs about 6 MB of disk (1 MB stay), 152 MB of memory and 1 s; {roads_alone}"
    )
    assert large.in_words() == (
        f"the build needs about 66.0 GB of disk (14.3 GB stay), 16.6 GB of memory and 57 min; {roads_alone}"
    )
    assert needs_of(11_000_000_000, 8).seconds < large.seconds


INSIDE, OUTSIDE = (41.1, -96.4), (32.78, -96.8)


def test_what_the_tiles_do_not_cover_is_named(tmp_path: Path, folder: RoadsFolder, extract: Extract) -> None:
    tiles = folder.build(extract, Wheel(tmp_path), threads=1)
    inside = FleetArea([StationPlace("A", *INSIDE)], [PlannedStopPlace("LOAD-1", "Omaha", *INSIDE)])
    assert coverage_in_words(tiles, inside) == ["the extract covers all 1 station and 1 stop of live routes"]
    half = FleetArea(
        [StationPlace("A", *INSIDE), StationPlace("B", *OUTSIDE)],
        [*inside.stops, *(PlannedStopPlace(f"LOAD-{number}", "Dallas", *OUTSIDE) for number in range(2, 9))],
    )
    assert coverage_in_words(tiles, half) == [
        "1 of 2 stations lie outside of the extract: 1 in TX",
        "7 of 8 stops of live routes lie outside of the extract: Dallas (LOAD-2), Dallas (LOAD-3), Dallas (LOAD-4),"
        " Dallas (LOAD-5), Dallas (LOAD-6) and 2 more",
        "routes that leave the extract take the embedded roads, and their plans say so",
    ]
