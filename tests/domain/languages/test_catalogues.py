"""The catalogues of the driver's texts: nothing is missing, nothing is left over, and each translation can be said."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest
from babel.messages.catalog import Catalog

from deploy.translations import (
    REPOSITORY,
    TRANSLATED,
    forms,
    in_step,
    stored_catalogue,
    texts_of_sources,
    to_translate,
    written,
)
from domain.languages.catalogues import catalogue_file, is_checked
from domain.languages.tags import Language
from domain.languages.words import ENGLISH, Words
from domain.messages import message_text

PLACEHOLDER = re.compile(r"\{(\w+)\}")


@cache
def texts() -> Catalog:
    return texts_of_sources()


@pytest.mark.parametrize("language", TRANSLATED)
def test_each_text_of_the_sources_is_translated_and_nothing_else_is(language: Language) -> None:
    stored = {one.id for one in stored_catalogue(language) if one.id}

    assert stored == {one.id for one in texts() if one.id}
    assert [one.id for one in to_translate(stored_catalogue(language))] == []


def said_in(package: str) -> Iterator[str]:
    """The texts that Python code says, by its syntax tree."""
    for path in (REPOSITORY / package).rglob("*.py"):
        source = path.read_bytes()
        for call in ast.walk(ast.parse(source)) if b"say(" in source or b"say_many(" in source else ():
            if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant):
                name, text = getattr(call.func, "attr", getattr(call.func, "id", "")), call.args[0].value
                if name in ("say", "say_many", "text_to_say") and isinstance(text, str):
                    yield text


def test_no_text_is_said_where_the_extraction_does_not_look() -> None:
    """Babel passes over a text inside another call within a call that says one."""
    found = {forms(one.id)[0] for one in texts() if one.id}

    assert {text for package in ("domain", "ingress", "workers") for text in said_in(package)} - found == set()


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_catalogue_is_as_the_tool_for_translators_writes_it(language: Language) -> None:
    assert written(language, in_step(language, texts())) == catalogue_file(language).read_bytes()


@pytest.mark.parametrize("language", TRANSLATED)
def test_the_placeholders_of_a_translation_are_those_of_its_text(language: Language) -> None:
    for one in stored_catalogue(language):
        if not one.id:
            continue
        needed = Counter(PLACEHOLDER.findall(forms(one.id)[-1]))
        assert len(forms(one.string)) == (1 if isinstance(one.id, str) else stored_catalogue(language).num_plurals)
        for translation in forms(one.string):
            assert Counter(PLACEHOLDER.findall(translation)) == needed, one.id
            assert translation.count("{") == needed.total()
            assert translation.strip() == translation
            assert translation.isprintable()


def test_who_has_checked_a_catalogue_is_told() -> None:
    assert is_checked(Language.ENGLISH)
    for language in TRANSLATED:
        named = re.search(r'^"X-Checked-By-Native-Speaker: *(.*?)\\n"$', catalogue_file(language).read_text(), re.M)
        assert named is not None
        assert is_checked(language) == bool(named[1])


def test_a_text_that_no_catalogue_has_is_said_in_english() -> None:
    assert Words(Language.FRENCH).say("Nobody wrote {this}", this="that") == "Nobody wrote that"


PLAIN = re.compile(r"[\n !-_a-}¡£¥§¿ÄÅÆÇÉÑÖØÜßàäåæèéìñòöøùü]*")
"""Texts in the alphabet of text messages (GSM 03.38), as far as our languages have it."""
SAID_IN_MESSAGES = re.compile(r".*/(message_text|directions|ways_out|arrival_prices|first_plan|words)\.py")


@pytest.mark.parametrize("language", [Language.SPANISH, Language.FRENCH])
def test_a_message_needs_only_the_characters_of_plain_text_messages(language: Language) -> None:
    """One other character takes more than half of the room from each part of a text message."""
    said = {one.id for one in texts() if any(SAID_IN_MESSAGES.fullmatch(path) for path, _ in one.locations)}
    translations = [text for one in stored_catalogue(language) if one.id in said for text in forms(one.string)]

    assert len(translations) > 40
    assert [text for text in translations if not PLAIN.fullmatch(text)] == []


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_message_is_recognized_by_its_opening(language: Language) -> None:
    """Corrections and cuts know a stored text's language by it alone."""
    words = Words(language)
    openings = [message_text.OPENING, message_text.OPENING_CORRECTED, message_text.LOW_FUEL]
    for other in (ENGLISH, *map(Words, TRANSLATED)):
        for one in openings:
            for another in openings:
                is_same = other == words and one == another
                assert words.say(one).startswith(other.say(another)) == is_same
    for titled in ("{opening} for {route}, truck {unit}", "{opening} for {route}"):
        assert words.say(titled, opening="O", route="R", unit="U").startswith("O")
