"""Brings the catalogues of `domain/languages/` in step with the texts of the sources, and says what a translator has to
do: `.venv/bin/python -m deploy.translations`, in a checkout.

A new or changed text comes without a translation, and one that no source has any more is removed. A test fails while
there is any of these."""

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_file
from babel.messages.pofile import read_po, write_po

from domain.languages.catalogues import catalogue_file
from domain.languages.tags import Language

REPOSITORY = Path(__file__).parents[1]
_PACKAGES = ("domain", "ingress", "workers")
_TEXTS_ARE_IN = {"say": None, "say_many": (1, 2), "text_to_say": None}
"""The functions whose texts are said, and the places of the texts among the arguments."""

_SAYS = re.compile(rb"\b(?:say|say_many|text_to_say)\(")

TRANSLATED = [language for language in Language if language is not Language.ENGLISH]
_WIDTH = 120


def texts_of_sources() -> Catalog:
    """Every text that is said anywhere, with the files that say it."""
    catalog = Catalog(charset="utf-8")
    for path in _sources():
        kind = "python" if path.suffix == ".py" else "jinja2"
        where = path.relative_to(REPOSITORY).as_posix()
        for _, text, _, _ in extract_from_file(kind, path, keywords=_TEXTS_ARE_IN, options={"encoding": "utf-8"}):
            catalog.add(text, locations=[(where, 0)])
    return catalog


def _sources() -> Iterator[Path]:
    for package in _PACKAGES:
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            if _SAYS.search(path.read_bytes()):
                yield path
    yield from sorted((REPOSITORY / "ingress" / "driver").rglob("*.html"))


def stored_catalogue(language: Language) -> Catalog:
    with catalogue_file(language).open("rb") as file:
        return read_po(file, locale=language)


def in_step(language: Language, texts: Catalog) -> Catalog:
    """The stored catalogue with the texts of the sources, and no others."""
    catalog = stored_catalogue(language)
    catalog.update(texts, no_fuzzy_matching=True)
    catalog.obsolete.clear()
    return catalog


def to_translate(catalog: Catalog) -> list[Message]:
    """Texts without a translation, and those whose translation belongs to an earlier text."""
    return [one for one in catalog if one.id and (one.fuzzy or not all(forms(one.string)))]


def forms(text: str | tuple[str, ...] | list[str] | None) -> list[str]:
    """The text, or its forms for counts."""
    return [text or ""] if isinstance(text, str | None) else list(text)


def written(language: Language, catalog: Catalog) -> bytes:
    """The catalogue's file. Its header stays: it says who has checked the translations."""
    header = catalogue_file(language).read_bytes().partition(b"\n\n")[0]
    body = BytesIO()
    write_po(
        body, catalog, width=_WIDTH, include_lineno=False, omit_header=True, sort_output=True, ignore_obsolete=True
    )
    return header.rstrip() + b"\n\n" + body.getvalue().strip() + b"\n"


def main() -> None:
    texts = texts_of_sources()
    for language in TRANSLATED:
        catalog = in_step(language, texts)
        catalogue_file(language).write_bytes(written(language, catalog))
        missing = to_translate(catalog)
        print(f"{catalogue_file(language).relative_to(REPOSITORY)}: {len(catalog)} texts, {len(missing)} to translate")
        for one in missing:
            print(f"  {one.id}")


if __name__ == "__main__":
    main()
