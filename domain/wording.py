"""Counts and sentences in English, for commands and the console.

`humanize` does not fit: it has no counted nouns, and its times read "3 hours from now" where the pages say "in 3 h"."""


def counted(count: int, one: str, several: str | None = None) -> str:
    """A count with its noun: `1 route`, `1,204 routes`. `several` is the plural, where it is not `one` with an s."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def purchase_in_words(gallons: float, fill_to_percent: int | None) -> str:
    """A purchase as people read it: `fill to 60 % (97.0 gal)`, or `97.0 gal` where no level is told."""
    amount = f"{gallons:.1f} gal"
    return amount if fill_to_percent is None else f"fill to {fill_to_percent} % ({amount})"


def sentence(text: str) -> str:
    """The text of an error as a sentence: `the route has ended` -> `The route has ended.`"""
    return f"{text[:1].upper()}{text[1:]}."
