"""Which vehicles or drivers a reference that fits none resembles: suggestions for people, who decide. Rules only."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rapidfuzz import fuzz, process

from domain.fleet.matching import MappingKind
from domain.fleet.queries import FleetRecord

LEAST_PERCENT = 55
"""Below it two values have nothing in common that a person would see."""

_TIED = 20
_NEAR = 100

_NOT_ALPHANUMERIC = re.compile(r"[\W_]+")
_LEADING_ZEROS = re.compile(r"\b0+(?=\w)")


class Candidate(NamedTuple):
    record: FleetRecord
    percent: int | None
    """None: it was not compared. 100: the same but for case, punctuation, the order of words, and leading zeros."""


def tidy(value: str) -> str:
    """`TRUCK-0101` is `truck 101`."""
    return _LEADING_ZEROS.sub("", _NOT_ALPHANUMERIC.sub(" ", value.casefold()).strip())


def _ordered(text: str) -> str:
    """The words by the alphabet."""
    return " ".join(sorted(text.split()))


class Likeness:
    """The records of a fleet, made ready for many comparisons with one kind of reference."""

    def __init__(self, records: Sequence[FleetRecord], kind: MappingKind) -> None:
        self._records = records
        self._tidied = [tidy(record.stored(kind) or "") for record in records]
        self._ordered = [_ordered(text) for text in self._tidied]
        # a unit number may be a part of what the TMS calls the truck; a name's words may come in another order
        self._scorer = fuzz.WRatio if kind in ("unit_number", "driver_name") else fuzz.ratio

    def rank(self, value: str, *, limit: int) -> list[Candidate]:
        """The records that resemble the value, the most alike first."""
        wanted = tidy(value)
        found = process.extract(
            wanted, self._near(wanted), scorer=self._scorer, limit=limit + _TIED, score_cutoff=LEAST_PERCENT
        )
        # 101 and 4101 are parts of `unit 4101` alike: the one that leaves less over comes first
        found.sort(key=lambda one: (one[1], fuzz.ratio(wanted, one[0])), reverse=True)
        return [Candidate(self._records[index], round(score)) for _, score, index in found[:limit]]

    def _near(self, wanted: str) -> dict[int, str]:
        """The records worth a close look, by their number: those with the most letters in common, in whatever order
        the words come, and those that are a part of the value or have it as a part. A close look at each record of a
        large fleet takes too long for a page."""
        if not wanted:
            return {}
        (alike,) = process.cdist([wanted], self._tidied, scorer=fuzz.ratio)
        (in_order,) = process.cdist([_ordered(wanted)], self._ordered, scorer=fuzz.ratio)
        alike = np.maximum(alike, in_order)
        most = range(len(alike)) if len(alike) <= _NEAR else np.argpartition(alike, -_NEAR)[-_NEAR:]
        parts = (number for number, text in enumerate(self._tidied) if text in wanted or wanted in text)
        return {int(number): self._tidied[number] for number in (*most, *parts) if self._tidied[number]}
