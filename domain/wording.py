"""Counts and sentences in English, for commands and the console.

`humanize` does not fit: it has no counted nouns, and its times read "3 hours from now" where the pages say "in 3 h"."""

from decimal import Decimal

from domain.lifecycle import RefusalReason

REFUSED_BECAUSE = {
    RefusalReason.CLOSED: "it is closed",
    RefusalReason.QUEUE: "the queue is too long",
    RefusalReason.NO_PARKING: "there is no parking",
    RefusalReason.NO_TIME: "there is no time",
    RefusalReason.OUT_OF_NETWORK: "it is out of the network",
    RefusalReason.OTHER: "for another reason",
}


def dollars_in_words(amount: Decimal | float) -> str:
    """`$1,204.50`, `-$0.65`."""
    return f"{'-' if amount < 0 else ''}${abs(amount):,.2f}"


def counted(count: int, one: str, several: str | None = None) -> str:
    """A count with its noun: `1 route`, `1,204 routes`. `several` is the plural, where it is not `one` with an s."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def refusal_in_words(reason: str) -> str:
    """Why a driver cannot fuel at a stop."""
    return REFUSED_BECAUSE[RefusalReason(reason)]


def sentence(text: str) -> str:
    """The text of an error as a sentence: `the route has ended` -> `The route has ended.`"""
    return f"{text[:1].upper()}{text[1:]}."
