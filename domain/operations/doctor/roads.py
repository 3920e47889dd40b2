"""Checks of the roads that the settings name: a Valhalla that is silent, and a file of roads that cannot be read.
Neither stops a plan, so that nobody would notice."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from domain.database.statements import NotNull, Statement
from domain.encoding import utc_text
from domain.operations.doctor.checks import Examined, Finding, warning
from domain.planning.explanation import unpack_explanation

VALHALLA_SECONDS = 3.0
PLANS_LOOKED_AT = 100
"""The newest plans among which the last one on Valhalla's roads is looked for."""


class _Explained(NamedTuple):
    generated_at: datetime
    explanation: NotNull[bytes]


_NEWEST_EXPLAINED = Statement(
    _Explained,
    "SELECT generated_at, explanation FROM plans WHERE explanation IS NOT NULL ORDER BY id DESC LIMIT %s",
)


def check_roads(seen: Examined) -> Iterator[Finding]:
    url, file = seen.settings.roads_url(), seen.settings.roads_file
    if url is not None:
        yield from _silent_valhalla(seen, url)
    if file is not None:
        from domain.roads.highway_graph import HighwayGraph, UnusableRoadsFile  # loads NumPy

        try:
            HighwayGraph.load(file)
        except UnusableRoadsFile as error:
            yield warning(
                f"Plans take the roads of the package, and have no names of roads and exits: {error}",
                "Build it with `fuelroute roads build --from`, or unset FUELROUTE_ROADS_FILE",
            )


def _silent_valhalla(seen: Examined, url: str) -> Iterator[Finding]:
    from domain.roads.valhalla import reason_of_silence  # loads NumPy and httpx

    reason = reason_of_silence(url, seconds=min(VALHALLA_SECONDS, max(seen.seconds_left(), 0.1)))
    if reason is None:
        return
    last = _last_on_valhalla(seen)
    since = f"the last plan on its roads is of {utc_text(last)}" if last else "no recent plan took its roads"
    yield warning(
        f"Plans take the embedded roads, which know no low bridge: {reason} at {url}; {since}",
        "Start it, or see logs/roads.log in the data folder of `up --roads-pbf`, which may still build its roads",
    )


def _last_on_valhalla(seen: Examined) -> datetime | None:
    for plan in _NEWEST_EXPLAINED.all(seen.connection, (PLANS_LOOKED_AT,)):
        roads = unpack_explanation(plan.explanation)["sources"].get("roads")
        if roads is not None and roads["source"] == "valhalla":
            return plan.generated_at
    return None
