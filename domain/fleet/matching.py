"""The rule for a route's references to its vehicle and driver: which of them are unclear, and why. Rules only.

The records that a value can mean are looked up elsewhere, in three steps: the target of a mapping made in the matching
screens; without one, every record that stores exactly that value; without one, the vehicles that a spelling rule makes
of it. The fleet's README describes the rule."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args
from uuid import UUID

MappingKind = Literal["unit_number", "vin", "driver_name", "driver_external_id"]
MAPPING_KINDS = get_args(MappingKind)

Matched = Literal["vehicle", "driver"]
"""The two kinds of record that a route is matched to: a row of `vehicles` and a row of `drivers`."""


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
    """The kind in people's words: `unit number`, `VIN`, `name`, `external id`."""
    value: str
    candidates: Sequence[UUID]


def unclear_references(references: Sequence[GivenReference]) -> list[GivenReference]:
    """The references that prevent a match: the first that fits no record or several; without one, all references if
    they lead to different records. Empty when all lead to one record.

    The import decides by the same rule in SQL (`routes.intake.route_matching`), and a test compares the two. This
    function serves the matching screens, which group many routes before they ask."""
    for reference in references:
        if len(reference.candidates) != 1:
            return [reference]
    return list(references) if len({reference.candidates[0] for reference in references}) > 1 else []


def why_unclear(subject: Matched, unclear: Sequence[GivenReference]) -> str:
    """The sentence that says what prevents the match of a `vehicle` or `driver`, and what to do about it. `unclear` is
    the result of `unclear_references`."""
    if len(unclear) > 1:
        named = " and ".join(f"the {reference.kind} '{reference.value}'" for reference in unclear)
        return (
            f"{named[0].upper()}{named[1:]} lead to different {subject}s: correct one of them and push again, or "
            f"map it in the {subject} matching screen."
        )
    (reference,) = unclear
    if reference.candidates:
        return (
            f"The {reference.kind} '{reference.value}' fits more than one {subject}: map it to one of them in "
            f"the {subject} matching screen. The route is then imported by itself."
        )
    return (
        f"No {subject} has the {reference.kind} '{reference.value}': map it in the {subject} matching "
        f"screen, or add the {subject}. The route is then imported by itself."
    )
