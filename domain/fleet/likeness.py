"""Suggestions for a reference that fits no vehicle or driver: the records that it resembles. A person decides. Rules
only."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from rapidfuzz import fuzz, process

from domain.fleet.api_lists import FleetRecord
from domain.fleet.matching import MappingKind

LEAST_PERCENT = 55
"""Least likeness of a suggestion, in percent. Below it a person sees nothing in common."""

_LEAST_OF_PART, _MOST_OF_PART = 60.0, 90.0
"""Likeness in percent of a value that is a part of the other; it grows with the part."""

_LEAST_SHARE = 0.7
"""A shorter value must have at least this share of a longer one's letters: `41` does not resemble `4101`."""

_NEAR = 100

_NOT_ALPHANUMERIC = re.compile(r"[\W_]+")
_LEADING_ZEROS = re.compile(r"\b0+(?=\w)")
_RUN = re.compile(r"\d+|[^\W\d_]+")


class Suggestion(NamedTuple):
    record: FleetRecord
    percent: int | None
    """Likeness; None if the record was not compared. At 100 only case, accents, punctuation, the order of words and
    leading zeros differ."""
    is_likely: bool = False
    """True if one click may map the reference to this record. For any other record a person confirms."""


def tidy(value: str) -> str:
    """The value without case, accents and punctuation: `TRUCK-0101` is `truck 101`, `José` is `jose`."""
    letters = value.casefold()
    if not letters.isascii():
        letters = "".join(filter(_is_no_accent, unicodedata.normalize("NFKD", letters)))
    return _LEADING_ZEROS.sub("", _NOT_ALPHANUMERIC.sub(" ", letters).strip())


def _is_no_accent(letter: str) -> bool:
    return not unicodedata.combining(letter)


def _ordered(text: str) -> str:
    """The words of a text, sorted."""
    return " ".join(sorted(text.split()))


def _in_order(text: str) -> tuple[str, ...]:
    """The numbers and words of a text: `trk4101` has `trk` and `4101`, and neither `101` nor `4`."""
    return tuple(run.lstrip("0") or "0" if run.isdecimal() else run for run in _RUN.findall(text))


def _runs(text: str) -> frozenset[str]:
    return frozenset(_in_order(text))


def _ends(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The ends of a tidied unit number that have all its numbers, and the count of words before each: `truck t 77` ends
    in itself, in `t 77` after one word, and in `77` after two."""
    runs = _in_order(text)
    for words in range(len(runs)):
        if words and runs[words - 1].isdecimal():
            return
        if _has_number(runs[words:]):
            yield words, runs[words:]


def _has_number(runs: Iterable[str]) -> bool:
    return any(map(str.isdecimal, runs))


class Likeness:
    """The records of a fleet, made ready for many comparisons with one kind of reference."""

    def __init__(self, records: Sequence[FleetRecord], kind: MappingKind) -> None:
        self._records = records
        self._tidied = [tidy(record.stored(kind) or "") for record in records]
        self._ordered = [_ordered(text) for text in self._tidied]
        # A unit number may be a part of the TMS's name for the truck; ids are whole.
        self._is_number = kind == "unit_number"
        self._has_parts = self._is_number or kind == "driver_name"
        self._runs = [_runs(text) if self._has_parts else frozenset[str]() for text in self._tidied]
        self._same: dict[str, list[int]] = {}
        self._numbers: dict[tuple[str, ...], dict[int, list[int]]] = {}
        """Unit numbers, by each of their ends that has a number, and by how many words stand before that end."""
        is_name = self._has_parts and not self._is_number
        for index, text in enumerate(self._ordered if is_name else self._tidied):
            self._same.setdefault(text, []).append(index)
        for index, text in enumerate(self._tidied if self._is_number else ()):
            for words, end in _ends(text):
                self._numbers.setdefault(end, {}).setdefault(words, []).append(index)

    def rank(self, value: str, *, limit: int) -> list[Suggestion]:
        """The records that resemble the value, the most similar first."""
        wanted = tidy(value)
        if not wanted:
            return []
        runs = _runs(wanted)
        found = [(self._percent(wanted, runs, index), index) for index in self._near(wanted, runs)]
        found = [one for one in found if one[0] >= LEAST_PERCENT]
        likely = self._likely(wanted)
        found.sort(key=lambda one: (one[1] == likely, one[0], fuzz.ratio(wanted, self._tidied[one[1]])), reverse=True)
        return [
            Suggestion(self._records[index], round(percent), is_likely=index == likely)
            for percent, index in found[:limit]
        ]

    def likely(self, value: str) -> FleetRecord | None:
        """The one record that the value names in another spelling; None if there is none, or several. It is quick, so a
        page may ask about every reference that waits."""
        wanted = tidy(value)
        index = self._likely(wanted) if wanted else None
        return None if index is None else self._records[index]

    def _likely(self, wanted: str) -> int | None:
        is_name = self._has_parts and not self._is_number
        found = self._same.get(_ordered(wanted) if is_name else wanted, [])
        if not found and self._is_number:
            found = self._with_fewest_words_before(wanted)
        return found[0] if len(found) == 1 else None

    def _with_fewest_words_before(self, wanted: str) -> list[int]:
        """The unit numbers that differ only by words in front: `4101` for `trk 4101`, and the other way round. A letter
        behind a number makes it another truck, so `4101a` is not 4101."""
        ends = list(_ends(wanted))
        if not ends:
            return []
        _, whole = ends[0]
        by_words: dict[int, list[int]] = {}
        for words, same in self._numbers.get(whole, {}).items():
            by_words.setdefault(words, []).extend(same)
        for words, end in ends[1:]:
            by_words.setdefault(words, []).extend(self._numbers.get(end, {}).get(0, []))
        return by_words[min(by_words)] if by_words else []

    def _percent(self, wanted: str, runs: frozenset[str], index: int) -> float:
        stored, own = self._tidied[index], self._runs[index]
        if not self._has_parts:
            return fuzz.ratio(wanted, stored)
        alike = max(fuzz.ratio(wanted, stored), fuzz.ratio(_ordered(wanted), self._ordered[index]))
        shorter, longer = sorted((wanted, stored), key=len)
        if len(shorter) < _LEAST_SHARE * len(longer) and (self._is_number or shorter in longer):
            alike = 0
        if self._is_number and _has_number(runs) != _has_number(own):  # `truck` is like no `truck 7`
            alike = 0
        return max(alike, self._percent_of_part(runs, own))

    def _percent_of_part(self, one: frozenset[str], other: frozenset[str]) -> float:
        """The likeness if all numbers and words of one are among the other's, otherwise 0. A part of a number or word
        does not count: a `0` is in every other unit number. In a unit number only the numbers count, if it has any."""
        part, whole = sorted((one, other), key=len)
        if not part <= whole:
            return 0
        if self._is_number and _has_number(whole):
            part, whole = (frozenset(filter(str.isdecimal, runs)) for runs in (part, whole))
        if not part:
            return 0
        return _LEAST_OF_PART + sum(map(len, part)) / sum(map(len, whole)) * (_MOST_OF_PART - _LEAST_OF_PART)

    def _near(self, wanted: str, runs: frozenset[str]) -> set[int]:
        """The positions of the records to compare closely: those that share the most letters, in any order of the
        words, and those that are a part of the value or contain it. Comparing each record of a large fleet closely
        takes too long for a page."""
        (alike,) = process.cdist([wanted], self._tidied, scorer=fuzz.ratio)
        (in_order,) = process.cdist([_ordered(wanted)], self._ordered, scorer=fuzz.ratio)
        alike = np.maximum(alike, in_order)
        most = range(len(alike)) if len(alike) <= _NEAR else np.argpartition(alike, -_NEAR)[-_NEAR:]
        parts = (
            number
            for number, own in enumerate(self._runs)
            if own and (own <= runs or runs <= own) and self._percent_of_part(own, runs)
        )
        return {number for number in (*map(int, most), *parts) if self._tidied[number]}
