"""An extract of OpenStreetMap in the format PBF: is it whole, and which part of the earth does it hold?

A program that is given a page of errors or a cut download builds roads with holes. So the file is walked block by
block first, without unpacking any: a country takes seconds. https://wiki.openstreetmap.org/wiki/PBF_Format"""

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from domain.errors import FuelrouteError

MOST_HEADER_BYTES, MOST_BLOCK_BYTES = 64 * 1024, 32 * 1024 * 1024
"""The limits of the format. A longer header or block tells that the file is something else, or damaged."""

SUFFIX = ".pbf"
"""The end of the file's name, by which the readers of extracts know the format."""

HISTORY = b"HistoricalInformation"
"""The feature of a file that also holds what was deleted or changed since."""

_PER_DEGREE = 1e9


class UnusableExtract(FuelrouteError):
    """The file holds no whole extract of OpenStreetMap; the text says why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")


class Box(NamedTuple):
    """A part of the earth, in degrees."""

    west: float
    south: float
    east: float
    north: float


@dataclass(frozen=True, slots=True)
class Extract:
    """A whole extract. `box` is None where the file does not say what it holds."""

    path: Path
    size: int
    modified_ns: int
    box: Box | None

    def sha256(self) -> str:
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def is_unchanged(self) -> bool:
        """Tell if the file is still the one that was checked."""
        now = self.path.stat()
        return (now.st_size, now.st_mtime_ns) == (self.size, self.modified_ns)


def checked_extract(path: Path) -> Extract:
    """The extract in a file. Raises UnusableExtract."""
    if not path.name.endswith(SUFFIX):
        raise UnusableExtract(path, f"its name must end with .osm{SUFFIX}: rename it, if it is an extract")
    try:
        with path.open("rb") as file:
            stat = path.stat()
            box = _walked(path, file, stat.st_size)
    except OSError as error:
        raise UnusableExtract(path, f"cannot read it ({error.strerror})") from None
    return Extract(path.absolute(), stat.st_size, stat.st_mtime_ns, box)


def _walked(path: Path, file: IO[bytes], size: int) -> Box | None:
    """Walk over all blocks, and return the box of the header."""
    blocks, box = 0, None
    for number, (kind, length) in enumerate(_blocks(path, file)):
        if number == 0:
            if kind != b"OSMHeader":
                raise UnusableExtract(path, "it is no extract of OpenStreetMap in the format PBF")
            fields = _header_fields(file.read(length))
            if any(value == HISTORY for _, value in fields):
                raise UnusableExtract(
                    path,
                    "it is a history of OpenStreetMap, with roads that are gone: `osmium time-filter FILE -o"
                    " NOW.osm.pbf` makes an extract of it",
                )
            box = _box(fields)
            continue
        blocks += kind == b"OSMData"
        if file.seek(length, 1) > size:
            raise UnusableExtract(path, f"it is cut short after {size:,} bytes: fetch it again")
    if not blocks:
        raise UnusableExtract(path, "it holds nothing")
    return box


def _blocks(path: Path, file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """The kind and length of each block; the file stands at the block's beginning."""
    while prefix := file.read(4):
        length = int.from_bytes(prefix, "big")
        if length > MOST_HEADER_BYTES:
            raise UnusableExtract(path, _described(prefix))
        header = file.read(length)
        if len(prefix) < 4 or len(header) < length:
            raise UnusableExtract(path, "it is cut short: fetch it again")
        try:
            fields = dict(_fields(header))
            kind, size = fields[1], fields[3]
        except (LookupError, ValueError):
            raise UnusableExtract(path, "it is damaged: fetch it again") from None
        if not isinstance(kind, bytes) or not isinstance(size, int) or size > MOST_BLOCK_BYTES:
            raise UnusableExtract(path, "it is damaged: fetch it again")
        yield kind, size


def _described(prefix: bytes) -> str:
    if prefix.lstrip().startswith((b"<", b"{")):
        return "it is no extract of OpenStreetMap but a page of text, as a server sends with an error"
    return "it is no extract of OpenStreetMap in the format PBF"


def _header_fields(blob: bytes) -> list[tuple[int, int | bytes]]:
    """The fields of the header block; none where it cannot be read."""
    try:
        fields = dict(_fields(blob))
        packed = fields.get(3)
        header = zlib.decompress(packed) if isinstance(packed, bytes) else fields.get(1)
        return list(_fields(header)) if isinstance(header, bytes) else []
    except (ValueError, zlib.error):
        return []


def _box(header: list[tuple[int, int | bytes]]) -> Box | None:
    """The box in the fields of the header block; None if there is none."""
    box = dict(header).get(1)
    try:
        sides = dict(_fields(box)) if isinstance(box, bytes) else {}
        left, right, top, bottom = (_signed(sides[number]) / _PER_DEGREE for number in (1, 2, 3, 4))
    except (LookupError, ValueError):
        return None
    return Box(left, bottom, right, top) if left < right and bottom < top else None


def _signed(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ValueError("bytes where a number belongs")
    return (value >> 1) ^ -(value & 1)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message in the encoding of protocol buffers, numbers and bytes alone, as the format uses them.
    Raises ValueError for anything else."""
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        value, at = _number(message, at)
        if key & 7 == 0:
            yield key >> 3, value
        elif key & 7 == 2 and at + value <= len(message):
            yield key >> 3, message[at : at + value]
            at += value
        else:
            raise ValueError("no field of the format")


def _number(message: bytes, at: int) -> tuple[int, int]:
    """The number at a place of the message, and the place after it."""
    value = shift = 0
    while True:
        if at == len(message) or shift > 63:
            raise ValueError("a number is cut")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
