"""The rule by which a vendor's vehicle is one of ours: by exactly equal references, and unless something contradicts.

As in the feed, references to different vehicles match none. An id of another system, such as of maintenance, matches
nothing by itself, but contradicts the match of another vehicle. A VIN that differs from that of the vehicle found
contradicts, too. A person's link wins, and contradictions are shown."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from domain.connectors.vendor import VendorVehicle
from domain.fleet.vehicles import vin_as_meant
from domain.ids import read_id
from domain.text import printable

_LONGEST = 200
_LONGEST_DOUBT = 500

BY_PERSON = "person"
BY_EXTERNAL_ID = "external_id"
_ONLY_SPEAKS_AGAINST = "~"
"""Marks a stored id that matches nothing by itself."""

_VIN = re.compile(r"[0-9A-Z]{17}")


class Named(NamedTuple):
    """The vendor's names of a vehicle in their stored form."""

    name: str | None
    vin: str | None
    external_ids: str | None

    @classmethod
    def of(cls, vehicle: VendorVehicle) -> "Named":
        others = (f"{_ONLY_SPEAKS_AGAINST}{one}" for one in vehicle.other_ids)
        return cls(tidied(vehicle.name), tidied(vehicle.vin), _lines_of((*vehicle.external_ids, *others)))

    def references(self) -> list[tuple[str, tuple[str, str]]]:
        """The references that may match, the surest first, each with its kind of match."""
        ids = [one for one in self._ids() if not one.startswith(_ONLY_SPEAKS_AGAINST)]
        found = [(BY_EXTERNAL_ID, _reference(one)) for one in ids]
        found += [("vin", ("vin", vin)) for vin in (self.plain_vin(), self.plain_vin().lower())]
        found.append(("unit_number", ("unit_number", self.name or "")))
        return [one for one in found if one[1][1]]

    def others(self) -> list[tuple[str, str]]:
        """The references that can only contradict a match."""
        return [_reference(one[1:]) for one in self._ids() if one.startswith(_ONLY_SPEAKS_AGAINST) and one[1:]]

    def plain_vin(self) -> str:
        return re.sub(r"[\s-]", "", self.vin or "").upper()

    def _ids(self) -> list[str]:
        return (self.external_ids or "").split("\n")


def _reference(given: str) -> tuple[str, str]:
    """An id as a reference: a vehicle id of ours, or a unit number."""
    return ("vehicle_id" if read_id("veh", given) is not None else "unit_number", given)


def _lines_of(ids: Iterable[str]) -> str | None:
    """The ids, one a line, as many as fit whole: a part of an id would be another vehicle's."""
    lines, length = [], 0
    for one in ids:
        text = tidied(one.replace("\n", " "))
        if text is None or len(one.strip()) > _LONGEST or length + len(text) > 5 * _LONGEST:
            continue
        lines.append(text)
        length += len(text) + 1
    return "\n".join(lines) or None


def tidied(text: str | None) -> str | None:
    """A vendor's text as it is stored and shown; None for an empty one."""
    return printable((text or "").strip())[:_LONGEST].strip() or None


class Before(NamedTuple):
    """The match that a vehicle had before."""

    vehicle_id: UUID
    matched_by: str | None


class Compared(NamedTuple):
    """The outcome of a comparison."""

    vehicle_id: UUID | None
    matched_by: str | None
    doubt: str | None = None
    """Why there is no match, or what contradicts the match; None without a doubt."""


def judge(
    names: Named,
    before: Before | None,
    found: Mapping[tuple[str, str], UUID],
    ours: Mapping[UUID, "Ours"],
) -> Compared:
    """The match of one of the vendor's vehicles. `ours` are the vehicles in service that it may be."""
    hits = [(how, reference, found[reference]) for how, reference in names.references() if reference in found]
    hits = [hit for hit in hits if hit[2] in ours]
    if before is not None and before.matched_by == BY_PERSON and before.vehicle_id in ours:
        return Compared(before.vehicle_id, BY_PERSON, _doubt_of_link(names, ours[before.vehicle_id], hits, ours))
    others = [("", one, found[one]) for one in names.others() if one in found and found[one] in ours]
    if len({hit[2] for hit in (*hits, *others)}) > 1:
        return Compared(None, None, _cut(f"its references disagree: {_listed((*hits, *others), ours)}"))
    if not hits:
        return _without_hit(before, names, others, ours)
    how, _, vehicle_id = hits[0]
    is_by_vin = any(hit[0] == "vin" for hit in hits)
    if not is_by_vin and (doubt := _vin_fault(names, ours[vehicle_id])) is not None:
        return Compared(None, None, doubt)
    return Compared(vehicle_id, how)


_Hit = tuple[str, tuple[str, str], UUID]


def _without_hit(before: Before | None, names: Named, others: Sequence[_Hit], ours: Mapping[UUID, "Ours"]) -> Compared:
    if not others:
        return Compared(None, None)
    vehicle = ours[others[0][2]]
    if before is not None and before.matched_by == BY_EXTERNAL_ID and before.vehicle_id == vehicle.id:
        doubt = _vin_fault(names, vehicle)  # a match that held before ids were told apart
        return Compared(None if doubt else vehicle.id, None if doubt else BY_EXTERNAL_ID, doubt)
    return Compared(
        None,
        None,
        _cut(f"an id of another system, {others[0][1][1]}, is the number of one of yours, and nothing else says so"),
    )


def _vin_fault(names: Named, vehicle: "Ours") -> str | None:
    """The sentence that the VINs differ; None if they are equal, or one is missing."""
    theirs, stored = (_comparable(vin) for vin in (names.plain_vin(), (vehicle.vin or "").upper()))
    if theirs is None or stored is None or theirs == stored:
        return None
    return _cut(f"its VIN is {names.plain_vin()}, and your {vehicle.shown()} has {vehicle.vin}")


def _comparable(vin: str) -> str | None:
    return vin_as_meant(vin) if _VIN.fullmatch(vin) and len(set(vin)) > 3 else None


def _doubt_of_link(names: Named, linked: "Ours", hits: Sequence[_Hit], ours: Mapping[UUID, "Ours"]) -> str | None:
    """Why the VIN contradicts a person's link; None if it does not."""
    of_vin = next((ours[hit[2]] for hit in hits if hit[0] == "vin" and hit[2] != linked.id), None)
    if of_vin is not None:
        return _cut(f"a person linked it to {linked.shown()}, and its VIN is that of {of_vin.shown()}")
    return _vin_fault(names, linked)


def _listed(hits: Iterable[_Hit], ours: Mapping[UUID, "Ours"]) -> str:
    words = {"vin": "the VIN", "unit_number": "the number", "vehicle_id": "the id"}
    named = dict.fromkeys(f"{words[kind]} {value} is your {ours[found].shown()}" for _, (kind, value), found in hits)
    return ", ".join(list(named)[:4])


def _cut(sentence: str) -> str:
    return sentence[:_LONGEST_DOUBT]


class Ours(NamedTuple):
    """A vehicle of ours."""

    id: UUID
    unit_number: str | None
    vin: str | None

    def shown(self) -> str:
        return self.unit_number or self.vin or "vehicle without a number"
