"""A driver's language as people write it, and the tag under which it is stored: `es`, or `fr-CA` with a country, whose
units the driver then reads.

A language in which Fuelroute has no texts is stored as it was written. Its driver reads English, as before, and people
see why."""

import re
from enum import StrEnum
from typing import NamedTuple

from domain.languages.units import Country


class Language(StrEnum):
    ENGLISH = "en"
    SPANISH = "es"
    FRENCH = "fr"
    PUNJABI = "pa"


OWN_NAMES = {
    Language.ENGLISH: "English",
    Language.SPANISH: "Español",
    Language.FRENCH: "Français",
    Language.PUNJABI: "ਪੰਜਾਬੀ",
}
"""The languages that a driver can choose, each by its own name, for the page's switch."""

_SPELLINGS = {
    Language.ENGLISH: "en eng english anglais inglés ingles",
    Language.SPANISH: "es spa esp spanish español espanol castellano espagnol",
    Language.FRENCH: "fr fra fre french français francais francés frances",
    Language.PUNJABI: "pa pan pun punjabi panjabi pendjabi gurmukhi guru ਪੰਜਾਬੀ ਗੁਰਮੁਖੀ",
}
_COUNTRIES: dict[Country, str] = {
    "US": "us usa american estados",
    "CA": "ca can cdn canada canadian canadien canadienne quebec québec",
    "MX": "mx mex mexico méxico mexican mexicano mexicana",
}
_LANGUAGE_OF = {spelling: language for language, several in _SPELLINGS.items() for spelling in several.split()}
_COUNTRY_OF = {spelling: country for country, several in _COUNTRIES.items() for spelling in several.split()}
_OTHER_SCRIPT = frozenset(("arab", "pk", "shahmukhi", "pakistan", "western"))
"""Punjabi in Arabic letters, which is not what the catalogue has."""

_BETWEEN_WORDS = re.compile(r"[\s\d_\-(),./;|]+")


class LanguageTag(NamedTuple):
    """A language with texts, and the country that the tag names."""

    language: Language
    country: Country | None = None

    def __str__(self) -> str:
        return self.language if self.country is None else f"{self.language}-{self.country}"


def read_tag(text: str) -> LanguageTag | None:
    """The tag of a language as people write it: `Punjabi`, `fr_CA`, `Spanish (Mexico)`, `Canadian French`. None for a
    language without texts. Where several are named, the first counts."""
    parts = _BETWEEN_WORDS.split(text.casefold())
    language = next((_LANGUAGE_OF[part] for part in parts if part in _LANGUAGE_OF), None)
    if language is None or (language is Language.PUNJABI and not _OTHER_SCRIPT.isdisjoint(parts)):
        return None
    return LanguageTag(language, next((_COUNTRY_OF[part] for part in parts if part in _COUNTRY_OF), None))


def tidy_language(text: str) -> str:
    """The text as it is stored: the tag of a language that is known, else the text."""
    tag = read_tag(text)
    return text if tag is None else str(tag)
