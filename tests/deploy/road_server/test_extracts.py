"""Files that operators give as extracts: whole, cut, damaged, or something else."""

import zlib
from pathlib import Path

import pytest

from deploy.road_server.extracts import Box, UnusableExtract, checked_extract


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def signed(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def block(kind: bytes, content: bytes) -> bytes:
    blob = field(2, len(content)) + field(3, zlib.compress(content))
    header = field(1, kind) + field(3, len(blob))
    return len(header).to_bytes(4, "big") + header + blob


BOX = b"".join(field(number, signed(int(side * 1e9))) for number, side in enumerate((-96.5, -95.25, 41.5, 40.75), 1))
HEADER = block(b"OSMHeader", field(1, BOX) + field(4, b"OsmSchema-V0.6"))
WHOLE = HEADER + block(b"OSMData", b"nodes") + block(b"OSMData", b"ways")


def test_a_whole_extract_tells_its_box(tmp_path: Path) -> None:
    file = tmp_path / "whole.osm.pbf"
    file.write_bytes(WHOLE)
    extract = checked_extract(file)
    assert (extract.size, extract.box) == (len(WHOLE), Box(-96.5, 40.75, -95.25, 41.5))
    assert extract.is_unchanged()
    file.write_bytes(WHOLE + block(b"OSMData", b"more"))
    assert not extract.is_unchanged()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it holds nothing"),
        (HEADER, "it holds nothing"),
        (b"<!DOCTYPE html><html>404 Not Found", "a page of text, as a server sends with an error"),
        (b'{"error": "no such file"}', "a page of text, as a server sends with an error"),
        (b"PK\x03\x04 a zip", "it is no extract of OpenStreetMap"),
        (b"\0\0", "cut short"),
        (block(b"OSMData", b"nodes"), "it is no extract of OpenStreetMap"),
        (HEADER + b"\0\0\0\x04\xff\xff\xff\xff", "it is damaged"),
        (HEADER + b"\0\0\0\x02" + field(1, b""), "it is damaged"),
        (block(b"OSMHeader", field(4, b"OsmSchema-V0.6") + field(4, b"HistoricalInformation")), "osmium time-filter"),
    ],
)
def test_anything_else_is_refused_with_its_reason(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "odd.osm.pbf"
    file.write_bytes(content)
    with pytest.raises(UnusableExtract, match=reason):
        checked_extract(file)


@pytest.mark.parametrize("name", ["map.osm.pbf.1", "map.osm", "map"])
def test_a_name_that_tells_no_reader_the_format_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(WHOLE)
    with pytest.raises(UnusableExtract, match=r"its name must end with \.osm\.pbf: rename it"):
        checked_extract(tmp_path / name)


def test_an_extract_that_is_cut_anywhere_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cut.osm.pbf"
    for length in set(range(1, len(WHOLE))) - {len(HEADER), len(WHOLE) - len(block(b"OSMData", b"ways"))}:
        file.write_bytes(WHOLE[:length])
        with pytest.raises(UnusableExtract):
            checked_extract(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnusableExtract, match=r"missing\.osm\.pbf: cannot read it \(No such file"):
        checked_extract(tmp_path / "missing.osm.pbf")
