"""Checks of the machines: clocks that differ, disks that are nearly full, data about time zones, and certificates
that run out."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from domain.clock import SERVER_TIME
from domain.database.statements import Statement
from domain.operations.certificates import TOLD_BEFORE, ends_of_certificates
from domain.operations.doctor.checks import Examined, Finding, problem, warning

MOST_SKEW_SECONDS = 2.0
LEAST_FREE_PERCENT = 10
LEAST_FREE_BYTES = 1 << 30


def check_clocks(seen: Examined) -> Iterator[Finding]:
    """Compares the servers' clocks with ours. The answer counts as of the middle of the round trip."""
    before = time.time()
    postgres = SERVER_TIME.on(seen.connection).timestamp()
    between = time.time()
    seconds, microseconds = _redis_time(seen)
    after = time.time()
    for server, ahead in (
        ("PostgreSQL", postgres - (before + between) / 2),
        ("Redis", seconds + microseconds / 1e6 - (between + after) / 2),
    ):
        if abs(ahead) > MOST_SKEW_SECONDS:
            how = "ahead of" if ahead > 0 else "behind"
            yield problem(
                f"The clock of {server} is {abs(ahead):.1f} s {how} this machine's",
                "Set the clocks by NTP: retries, claims and keys are judged by them",
            )


def _redis_time(seen: Examined) -> tuple[int, int]:
    told: Any = seen.client.time()
    return told[0], told[1]


def check_disks(seen: Examined) -> Iterator[Finding]:
    """The disks of this machine: the folder of the embedded stack, and that of temporary files. A server elsewhere
    needs its own check."""
    folders = {Path(tempfile.gettempdir()): "temporary files"}
    if seen.settings.data.is_dir():
        folders[seen.settings.data.absolute()] = "the embedded stack"
    for folder, kept in folders.items():
        usage = shutil.disk_usage(folder)
        # Half of it is enough on a small disk, such as a container's /tmp.
        if usage.free < max(min(LEAST_FREE_BYTES, usage.total / 2), usage.total * LEAST_FREE_PERCENT / 100):
            yield problem(
                f"The disk with the folder of {kept} has {usage.free / 2**30:.1f} GiB free of"
                f" {usage.total / 2**30:.0f} GiB",
                "Free some of it, or move the folder: PostgreSQL stops when its disk is full",
                (str(folder),),
            )


# --- Time zones --------------------------------------------------------------------------------------------------


class _Zone(NamedTuple):
    zone: str
    is_known: bool


class _Offset(NamedTuple):
    zone: str
    offsets: list[float]


_ZONES = Statement(
    _Zone,
    """
    SELECT used.zone, EXISTS (SELECT FROM pg_timezone_names n WHERE n.name = used.zone) AS is_known
    FROM (SELECT time_zone AS zone FROM companies WHERE retired_at IS NULL GROUP BY 1) AS used ORDER BY 1
    """,
)
_OFFSETS = Statement(
    _Offset,
    """
    SELECT zone, array_agg(extract(epoch FROM at AT TIME ZONE zone - at AT TIME ZONE 'UTC')::float8 ORDER BY at)
           AS offsets
    FROM unnest(%s::text[]) AS zone CROSS JOIN unnest(%s::timestamptz[]) AS at GROUP BY zone ORDER BY zone
    """,
)


def check_time_zones(seen: Examined) -> Iterator[Finding]:
    """Python and PostgreSQL have data of their own about time zones. Both should know the companies' zones, and agree
    about their clocks for the next year. The service counts by Python's."""
    zones = _ZONES.all(seen.connection)
    python = {row.zone: zone for row in zones if (zone := _zone(row.zone)) is not None}
    if missing := [row.zone for row in zones if row.zone not in python]:
        yield problem(
            "Python does not know the time zones of companies: their plans and messages fail",
            "Update the package tzdata, or set another zone: fuelroute companies set ID --time-zone ZONE",
            tuple(missing[: seen.most_examples]),
        )
    if missing := [row.zone for row in zones if not row.is_known]:
        yield warning(
            "PostgreSQL does not know the time zones of companies",
            "Update the time zone data of its machine",
            tuple(missing[: seen.most_examples]),
        )
    known = [row.zone for row in zones if row.is_known and row.zone in python]
    moments = [seen.now + timedelta(days=30 * month) for month in range(12)]
    differing = [
        row.zone
        for row in _OFFSETS.all(seen.connection, (known, moments))
        if row.offsets != [_offset(python[row.zone], moment) for moment in moments]
    ]
    if differing:
        yield warning(
            "Python and PostgreSQL disagree about the clocks of time zones within the next year",
            "Update the package tzdata, and the time zone data of PostgreSQL's machine",
            tuple(differing[: seen.most_examples]),
        )


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _offset(zone: ZoneInfo, moment: datetime) -> float:
    offset = moment.astimezone(UTC).astimezone(zone).utcoffset()
    return offset.total_seconds() if offset is not None else 0.0


# --- Certificates ------------------------------------------------------------------------------------------------


def check_certificates(seen: Examined) -> Iterator[Finding]:
    for name, end in ends_of_certificates(seen.settings).items():
        if end - seen.now < TOLD_BEFORE:
            yield problem(
                f"The certificate of {name} {'ran' if end < seen.now else 'runs'} out at {end:%Y-%m-%d %H:%M}Z",
                "Put a new one in its place before that; clients refuse one that has run out",
            )
