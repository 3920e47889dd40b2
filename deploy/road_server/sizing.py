"""The disk, the memory and the time that an extract needs: measured on small extracts, extrapolated to large ones.
`deploy/roads.md` has the measurements. Extracts differ by the share of roads in them: a file
without buildings and the like needs four times the disk, which only the words tell."""

import os
from typing import NamedTuple

TILES_PER_BYTE = 1.3
"""Bytes of tiles for a byte of the extract: 1.1 of a whole country, with some room."""

BUILD_DISK_PER_BYTE = 6.0
"""Most bytes on the disk while the tiles are built, for a byte of the extract; 5.6 were measured."""

BUILD_MEMORY_BYTES, BUILD_MEMORY_PER_BYTE = 150_000_000, 1.5
"""Memory of the builder, which maps its files: with more memory it is faster."""

CORE_SECONDS_PER_MEGABYTE, ON_ONE_CORE_SHARE = 0.5, 0.5
"""Seconds of a core for a megabyte of the extract: 0.35 were measured of a large one, 0.44 of a small one. One core
does half of the work."""


class Needs(NamedTuple):
    """Estimates for one extract. `disk_bytes` are needed while it is built; of them `tiles_bytes` remain."""

    disk_bytes: int
    tiles_bytes: int
    memory_bytes: int
    seconds: float

    def in_words(self) -> str:
        return (
            f"the build needs about {_size(self.disk_bytes)} of disk ({_size(self.tiles_bytes)} stay),"
            f" {_size(self.memory_bytes)} of memory and {_duration(self.seconds)};"
            " if the file has roads alone, four times the disk and three times the time"
        )


def needs_of(extract_bytes: int, threads: int | None = None) -> Needs:
    """The needs of an extract of this size with so many threads; one for each core unless given."""
    core_seconds = extract_bytes / 1e6 * CORE_SECONDS_PER_MEGABYTE
    shared = (1 - ON_ONE_CORE_SHARE) / (threads or os.cpu_count() or 1)
    return Needs(
        disk_bytes=round(extract_bytes * BUILD_DISK_PER_BYTE),
        tiles_bytes=round(extract_bytes * TILES_PER_BYTE),
        memory_bytes=round(BUILD_MEMORY_BYTES + extract_bytes * BUILD_MEMORY_PER_BYTE),
        seconds=core_seconds * (ON_ONE_CORE_SHARE + shared),
    )


def _size(count: float) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{max(count / 1e6, 1):,.0f} MB"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
