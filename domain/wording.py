"""Counts and sentences in English, for commands and the console.

`humanize` does not fit: it has no counted nouns, and its times read "3 hours from now" where the pages say "in 3 h"."""


def counted(count: int, one: str, several: str | None = None) -> str:
    """A count with its noun: `1 route`, `1,204 routes`. `several` is the plural, where it is not `one` with an s."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def sentence(text: str) -> str:
    """The text of an error as a sentence: `the route has ended` -> `The route has ended.`"""
    return f"{text[:1].upper()}{text[1:]}."
