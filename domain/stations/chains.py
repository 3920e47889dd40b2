"""The chain or the name of a truck stop, by which a vendor's station and ours are compared.

Two stations are of one brand if both name one chain, or if all words of one name are among the other's. The list below
only joins the spellings of large chains; any other name is a brand, too."""

import re
import unicodedata
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

_SPELLINGS = {
    "loves": "love lvs",
    "pilot": "pilot",
    "flyingj": "flyingj fj",
    "ta": "ta travelcenterofamerica travelamerica",
    "petro": "petro petrostopping",
    "kwiktrip": "kwiktrip kwikstar kt",
    "quiktrip": "quiktrip quicktrip qt",
    "circlek": "circlek",
    "casey": "casey",
    "sapp": "sapp sappbro sappbrother",
    "roadranger": "roadranger",
    "speedway": "speedway spdwy",
    "maverik": "maverik maverick",
    "sheetz": "sheetz",
    "wawa": "wawa",
    "bucee": "bucee",
    "racetrac": "racetrac raceway",
    "7eleven": "7eleven seveneleven",
    "one9": "one9 onenine",
    "mrfuel": "mrfuel misterfuel",
    "townpump": "townpump",
    "petrocanada": "petrocanada petrocan petropass",
    "bosselman": "bosselman",
    "ambest": "ambest",
    "alon": "alon",
    "esso": "esso",
    "husky": "husky",
    "shell": "shell",
}
_CHAINS_OF_WORDS = {
    **{spelling: frozenset({chain}) for chain, spellings in _SPELLINGS.items() for spelling in spellings.split()},
    "pfj": frozenset({"pilot", "flyingj"}),
    "tp": frozenset({"townpump", "pilot"}),
}
_MOST_WORDS = 4
"""Most words in a chain's name."""

_COMMON_WORDS_TEXT = """
a and at by fuel fuels fueling gas diesel general country travel traveler travelers center centre stop stopping truck
truckstop plaza of the on store station shop mart food foods oil petroleum express exit no number inc llc ltd co
company i us hwy highway interstate rd road st street n s e w north south east west new
"""
_COMMON_WORDS = frozenset(_COMMON_WORDS_TEXT.split())
"""Words that do not tell the owner of a station."""
_OF_TOWNS = frozenset({"n", "s", "e", "w", "north", "south", "east", "west", "new", "country"})
"""Common words that may begin the name of a town."""


class Brand(NamedTuple):
    """The owner of a station, as far as its names tell."""

    chains: frozenset[str]
    names: tuple[frozenset[str], ...]
    """The words of each of its names, without common words."""

    @property
    def is_known(self) -> bool:
        return bool(self.chains or self.names)


NO_BRAND = Brand(frozenset(), ())


class BrandMatch(StrEnum):
    SAME = "same"
    OTHER = "other"
    UNKNOWN = "unknown"
    """One of the two has no name to compare."""


def brand_match(one: Brand, other: Brand) -> BrandMatch:
    if not one.is_known or not other.is_known:
        return BrandMatch.UNKNOWN
    if one.chains & other.chains:
        return BrandMatch.SAME
    alike = any(_are_alike(a, b) for a in one.names for b in other.names)
    return BrandMatch.SAME if alike and not (one.chains and other.chains) else BrandMatch.OTHER


def _are_alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return one <= other or other <= one or "".join(sorted(one)) == "".join(sorted(other))


@lru_cache(maxsize=20_000)  # a chain's stations have the same brand, and its files come each day
def brand_of(brand: str, name: str, town: str = "", chains: frozenset[str] = frozenset()) -> Brand:
    """The brand by the texts that name a station. Words of its town are no name. `chains` are known from elsewhere,
    such as the chain that sends the file."""
    found = set(chains)
    names = []
    for text in (brand, name):
        words = brand_words(text)
        named = _chains(words)
        found |= named
        own = frozenset() if named else frozenset(words) - _COMMON_WORDS
        own = frozenset(word for word in own if not word.isdigit())
        if own and (own := own - set(brand_words(town))):
            names.append(own)
    return Brand(frozenset(found), tuple(names))


def brand_words(text: str) -> list[str]:
    """The words in small letters, without accents, apostrophes and the s of a plural: `Casey's` is `casey`."""
    words = _letters_and_digits(text.replace("'", "").replace("\N{RIGHT SINGLE QUOTATION MARK}", ""))
    return [_without_plural(word) for word in words]


@lru_cache(maxsize=20_000)  # plans and replays pass hundreds of stations of the same brands
def brand_key(brand: str | None) -> str:
    """The words of a brand, by which two are compared: `Loves` is `Love's`. A brand without Latin letters is its own
    text; empty for none."""
    return " ".join(brand_words(brand)) or brand if brand else ""


def _without_plural(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _chains(words: list[str]) -> set[str]:
    return {chain for _, _, chains in _named_chains(words) for chain in chains}


def _named_chains(words: list[str]) -> list[tuple[int, int, frozenset[str]]]:
    """The chains in a text, each with the place and the number of its words. Longer spellings come first:
    `Petro-Canada` is not Petro."""
    found = []
    place = 0
    while place < len(words):
        for count in range(min(_MOST_WORDS, len(words) - place), 0, -1):
            chains = _CHAINS_OF_WORDS.get("".join(words[place : place + count]))
            if chains is not None:
                found.append((place, count, chains))
                place += count
                break
        else:
            place += 1
    return found


_MARKED_NUMBER = re.compile(r"(?:#|\bNO\.|\bSTORE|\bSITE)\s*0*(\d{1,6})\b", re.IGNORECASE)
_ONLY_WORDS = re.compile(r"[A-Z' ]*[A-Z](?<!EXIT)(?<!HWY)", re.IGNORECASE | re.ASCII)
_LAST_NUMBER = re.compile(r"(?<!EXIT )(?<!HWY )(?<!I-)(?<![\w-])0*(\d{1,6})\s*$", re.IGNORECASE)


@lru_cache(maxsize=20_000)  # a chain's stations are asked for each day
def store_number(name: str) -> str:
    """The chain's number of the store in its name, without leading zeros: `Pilot Travel Center #075` is 75."""
    words, _, last = name.rpartition(" ")
    if last.isdigit() and last.isascii() and len(last) <= 6 and _ONLY_WORDS.fullmatch(words):  # as most are named
        return last.lstrip("0") or "0"
    found = _MARKED_NUMBER.search(name) or _LAST_NUMBER.search(name)
    return found[1] if found is not None else ""


_ID_NUMBER = re.compile(r"0*(\d{1,6})$")


def number_in_id(station_id: str) -> str:
    """The number at the end of an id such as `pilot-602`."""
    found = _ID_NUMBER.search(station_id[-100:])  # a longer search would take minutes
    return found[1] if found is not None else ""


def town_in_name(name: str) -> str:
    """The town in a name such as `TA EXPRESS - BIRMINGHAM` or `487PETRO MEBANE`: the rest without chain, common words
    and numbers."""
    words = _letters_and_digits(re.sub(r"^\s*#?\d+", "", name.replace("'", "")))
    plain = [_without_plural(word) for word in words]
    named = {place for start, count, _ in _named_chains(plain) for place in range(start, start + count)}
    rest = [word for place, word in enumerate(words) if place not in named and not word.isdigit()]
    while rest and _without_plural(rest[0]) in _COMMON_WORDS - _OF_TOWNS:
        rest.pop(0)
    return " ".join(rest)


_SHORT_TOWNS = {
    "saint": "st",
    "sainte": "ste",
    "fort": "ft",
    "mount": "mt",
    "north": "n",
    "south": "s",
    "east": "e",
    "west": "w",
}


@lru_cache(maxsize=20_000)
def plain_town(city: str) -> str:
    """The letters of a town's name, with abbreviations spelled out: `Ft. Wayne` is `Fort Wayne`."""
    return "".join(_SHORT_TOWNS.get(word, word) for word in _letters_and_digits(city))


def _letters_and_digits(text: str) -> list[str]:
    """The words in small letters without accents."""
    plain = text.lower()
    if not text.isascii():
        plain = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
    return _WORD.findall(plain)


_WORD = re.compile(r"[a-z0-9]+")
