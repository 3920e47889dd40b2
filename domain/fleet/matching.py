"""References to vehicles and drivers, and what they lead to. Decisions 1 and 2 of the design.

Rules only. Which records a value can mean is looked up elsewhere: a mapping made in the matching screens first,
else every record that stores exactly that value.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args
from uuid import UUID

MappingKind = Literal["unit_number", "vin", "driver_name", "driver_external_id"]
MAPPING_KINDS = get_args(MappingKind)

Matched = Literal["vehicle", "driver"]
"""What a route is matched to: a record of `vehicles` or of `drivers`."""


MATCHED_BY: dict[MappingKind, Matched] = {
    "unit_number": "vehicle",
    "vin": "vehicle",
    "driver_name": "driver",
    "driver_external_id": "driver",
}

KINDS: dict[Matched, tuple[MappingKind, MappingKind]] = {
    "vehicle": ("unit_number", "vin"),
    "driver": ("driver_name", "driver_external_id"),
}


class GivenReference(NamedTuple):
    """One pushed value and the records it can mean."""

    kind: str
    """As people read it: `unit number`, `VIN`, `name`, `external id`."""
    value: str
    candidates: Sequence[UUID]


def unclear_references(references: Sequence[GivenReference]) -> list[GivenReference]:
    """The references for which `match` finds no record: the first that fits none or several, else all when they lead to
    different ones. Empty: there is a match."""
    for reference in references:
        if len(reference.candidates) != 1:
            return [reference]
    return list(references) if len({reference.candidates[0] for reference in references}) > 1 else []


class Match(NamedTuple):
    """The record a reference leads to; without one, `detail` says why and what to do."""

    id: UUID | None
    detail: str | None = None


def match(subject: str, references: Sequence[GivenReference]) -> Match:
    """The one record that all references of a `vehicle` or `driver` lead to; never a guess."""
    for reference in references:
        if not reference.candidates:
            return Match(
                None,
                f"No {subject} has the {reference.kind} '{reference.value}': map it in the {subject} matching "
                f"screen, or add the {subject}. The route is then imported by itself.",
            )
        if len(reference.candidates) > 1:
            return Match(
                None,
                f"The {reference.kind} '{reference.value}' fits more than one {subject}: map it to one of them in "
                f"the {subject} matching screen. The route is then imported by itself.",
            )
    found = {reference.candidates[0] for reference in references}
    if len(found) > 1:
        named = " and ".join(f"the {reference.kind} '{reference.value}'" for reference in references)
        return Match(
            None,
            f"{named[0].upper()}{named[1:]} lead to different {subject}s: correct one of them and push again, or "
            f"map it in the {subject} matching screen.",
        )
    return Match(found.pop())
