"""Compares the name of a place as a fuel card prints it, such as `FJ-SALT LAKE CITY 746`, with stations.

Cards shorten: they print a chain's letters, its number and the town, in any order, with hyphens, with zeros, and cut
off the rest. Chain and number together mean one station; the town has to agree."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from domain.stations.chains import (
    Brand,
    BrandMatch,
    brand_match,
    brand_of,
    number_in_id,
    plain_town,
    store_number,
)
from domain.stations.price_profiles import CHAINS_OF_CODE_SETS


class PlaceName(NamedTuple):
    """The parts of a printed name."""

    brand: Brand
    numbers: frozenset[str]
    """Numbers in it that may be the chain's number of the store, without leading zeros."""
    letters: str
    """All of it without spaces and signs."""


class NamedStation(NamedTuple):
    """A station by the texts of its names."""

    station_id: str
    name: str
    brand: str | None
    city: str | None

    @property
    def whose(self) -> Brand:
        return brand_of(self.brand or "", self.name, self.city or "")

    @property
    def number(self) -> str:
        """The chain's number; empty if not known. An id has it only if it is a chain's code or a number."""
        return store_number(self.name) or (number_in_id(self.station_id) if _is_code(self.station_id) else "")


@lru_cache(maxsize=20_000)
def _is_code(station_id: str) -> bool:
    """True for a number, or a chain with one: `loves-305`, `FJ746`."""
    return station_id.isdigit() or bool(brand_of("", _BOUNDARY.sub(" ", station_id)).chains)


_BOUNDARY = re.compile(r"(?<=[^\W\d])(?=\d)|(?<=\d)(?=[^\W\d])|_")
_ROAD = re.compile(r"\b(?:EXIT|HWY|HIGHWAY|I|US|RT|RTE|ROUTE|SR|MM|MILE)[ -]*\d+[A-Z]?\b", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


@lru_cache(maxsize=20_000)  # a fleet buys at the same places again and again
def place_name(name: str, town: str = "") -> PlaceName:
    """The parts of a name. The words of its town, and of the state after it, are no brand."""
    parted = _BOUNDARY.sub(" ", _ROAD.sub(" ", name))
    brand = brand_of("", parted, town)
    spelled = {"9"} if "one9" in brand.chains else {"7"} if "7eleven" in brand.chains else set()
    numbers = {number.lstrip("0") for number in _NUMBER.findall(parted)} - spelled
    return PlaceName(brand, frozenset(numbers - {""}), plain_town(name))


def fitting(stations: Iterable[NamedStation], printed: PlaceName) -> set[str]:
    """The ids of the stations of one town that the name may mean: those of its chain with its number, or else those of
    its chain without a known number. A number alone is enough if the name has no chain."""
    there = list(stations)
    numbered = {
        one.station_id
        for one in there
        if is_numbered(one, printed) or (one.number in printed.numbers and not printed.brand.is_known)
    }
    return numbered or {
        one.station_id
        for one in there
        if brand_match(one.whose, printed.brand) is BrandMatch.SAME and not (printed.numbers and one.number)
    }


def is_numbered(station: NamedStation, printed: PlaceName) -> bool:
    """True if the name has the station's number, and its chain or one that the same company counts together with it."""
    if station.number not in printed.numbers:
        return False
    return are_counted_together(station, printed) or brand_match(station.whose, printed.brand) is BrandMatch.SAME


def are_counted_together(station: NamedStation, printed: PlaceName) -> bool:
    """True if both are of one company that numbers its stores throughout the continent."""
    own, theirs = station.whose, printed.brand
    return any(own.chains & one and theirs.chains & one for one in CHAINS_OF_CODE_SETS.values())


def may_be_named(station: NamedStation, printed: PlaceName) -> bool:
    """False if the name has another brand, no brand at all, or another number of the chain."""
    if printed.numbers and station.number and station.number not in printed.numbers:
        return False
    return brand_match(station.whose, printed.brand) is BrandMatch.SAME


def is_in_town(station: NamedStation, city: str | None, printed: PlaceName) -> bool:
    """True if the town is the station's in a card's spelling: `SALT LAKE CTY`, `SALT LAKE`; `SLC` if the name has the
    whole of it. An unknown town fits all."""
    own, theirs = plain_town(station.city or ""), plain_town(city or "")
    if len(theirs) < _LEAST_LETTERS <= len(own) and own in printed.letters:
        return True
    short, long = sorted((own, theirs), key=len)
    if not short or long.startswith(short):
        return True
    return len(short) >= _LEAST_LETTERS and short[0] == long[0] and _is_within(short, long)


_LEAST_LETTERS = 4


def _is_within(short: str, long: str) -> bool:
    """True if the letters of `short` stand in `long` in this order."""
    letters = iter(long)
    return all(letter in letters for letter in short)
