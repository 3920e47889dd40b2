"""The texts of each language, read from its `.po` file when the first one is said. English needs none."""

import re
from functools import cache
from gettext import GNUTranslations, NullTranslations
from io import BytesIO
from pathlib import Path

from domain.languages.tags import Language

FOLDER = Path(__file__).with_name("catalogues")

_CHECKED_BY = re.compile(rb'^"X-Checked-By-Native-Speaker: *[^\\\s][^\n]*\\n"$', re.M)
"""The header of a catalogue that names who has checked it. It is empty until a native speaker has."""


def catalogue_file(language: Language) -> Path:
    return FOLDER / f"{language}.po"


@cache
def catalogue(language: Language) -> NullTranslations:
    if language is Language.ENGLISH:
        return NullTranslations()
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    with catalogue_file(language).open("rb") as file:
        texts = read_po(file, locale=language, abort_invalid=True)
    compiled = BytesIO()
    write_mo(compiled, texts)
    compiled.seek(0)
    return GNUTranslations(compiled)


@cache
def is_checked(language: Language) -> bool:
    """True if a native speaker has checked the texts. Where none has, the driver's page and the console say so."""
    return language is Language.ENGLISH or _CHECKED_BY.search(catalogue_file(language).read_bytes()) is not None


def translations_note() -> str:
    """A sentence for people of the console about translations that no native speaker has checked; empty without any."""
    names = ", ".join(language.name.title() for language in Language if not is_checked(language))
    if not names:
        return ""
    return (
        f"The texts in {' and '.join(names.rsplit(', ', 1))} were not made by a native speaker, nor checked by one yet."
    )
