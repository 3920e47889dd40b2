"""References that differ from the fleet's own names in one way, such as `TRK 4101` and `TRK 4102`: a person accepts
them together. Rules only."""

from collections.abc import Iterable
from typing import NamedTuple

from domain.fleet.api_lists import FleetRecord
from domain.fleet.likeness import Likeness
from domain.fleet.matching import MappingKind

FEWEST = 2
"""Fewest references of a spelling; a single one is mapped by itself."""


class Spelling(NamedTuple):
    """A way in which a TMS writes the fleet's names. `before` is its text before them; None where the difference is
    another one: signs, leading zeros, upper case, the order of a name's words, or fewer words."""

    kind: MappingKind
    before: str | None


class Spelled(NamedTuple):
    """A reference, and the one record that it names."""

    value: str
    record: FleetRecord


def shared_spellings(values: Iterable[str], kind: MappingKind, likeness: Likeness) -> dict[Spelling, list[Spelled]]:
    """The likely references of one kind by their spelling, the most frequent spelling first. `likeness` has the
    fleet."""
    found: dict[Spelling, list[Spelled]] = {}
    for value in dict.fromkeys(values):
        record = likeness.likely(value)
        if record is not None:
            spelling = Spelling(kind, _before(value, record.stored(kind) or ""))
            found.setdefault(spelling, []).append(Spelled(value, record))
    shared = [(spelling, them) for spelling, them in found.items() if len(them) >= FEWEST]
    return dict(sorted(shared, key=lambda one: -len(one[1])))


def _before(value: str, stored: str) -> str | None:
    before = value.removesuffix(stored)
    return before if before.strip() and before != value else None
