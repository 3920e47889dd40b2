"""Makes text from outside fit to be shown: it steers no terminal, forges no line, and reveals no secret."""

import re
from typing import Any, NamedTuple

_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
"""Control characters, ends of lines, and marks that turn the direction of writing."""

_NOT_IN_A_LINE = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]+"
)
"""Control characters, line ends, and characters that change the writing direction."""


class Harmless(NamedTuple):
    """A value of the service's own making, such as many ids. Logs print it as it is, without searching it for
    secrets."""

    value: Any


_WORD = re.compile(r"[^\s'\"]+")
_SECRETS = (
    (
        "=",
        re.compile(
            r"(?i)((?:passw|pwd|secret|token|api_?key)\w{0,20}\s{0,3}=\s{0,3})"
            r"(?:'(?:\\.|[^'\\])*'?|(?:\\.|[^\s\\&'\"])+)"
        ),
        r"\1***",
    ),
    ("bearer", re.compile(r"(?i)(bearer\s{1,3})[^\s'\"]+"), r"\1***"),
    ("svc_", re.compile(r"(svc_(?:live|test)_(?:c\d{1,4}_)?+\w{8})\w+"), r"\1***"),  # a key, but for its prefix
    (  # which PostgreSQL shows with a broken constraint: names of drivers, places, contacts
        "failing row contains",
        re.compile(r"""(Failing row contains )\((?s:.*?)(?:\)\.(?=\\n|[\n'"]|\Z)|\Z)"""),
        r"\1(***).",
    ),
)
"""A text without which the pattern finds nothing, the pattern, and what stands for the secrets that it finds. Looking
for the text takes a twentieth of the time; every line of the log passes here, and bodies for the request log."""


_CARD_NUMBER = re.compile(r"(?<!\d)\d(?:[ -]?\d){8,14}[ -]?(?=\d{4}(?!\d))", re.ASCII)
"""The first digits of a number that has 13 to 19 of them, as those of payment cards have."""


def without_card_numbers(text: str) -> str:
    """The text with only the last four digits of each number that may be a payment card's."""
    return _CARD_NUMBER.sub("*", text)


def printable(text: str, *, keep: str = "") -> str:
    r"""The text on one line and harmless to a terminal: characters that steer it are written like `\u001b`, except
    those in `keep`. A JSON document keeps its meaning."""
    return _STEERING.sub(lambda found: found[0] if found[0] in keep else f"\\u{ord(found[0]):04x}", text)


def one_line(name: str) -> str:
    """A name from outside, without the characters that could end a line of a message."""
    return _NOT_IN_A_LINE.sub(" ", name).strip()


def without_secrets(text: str) -> str:
    """The text with `***` for parts that look like a key, or like the password of an address. A second safeguard:
    callers should put no secret into a text at all."""
    if "@" in text:
        text = _WORD.sub(_without_password, text)
    lowered = text.lower()
    for sign, pattern, replacement in _SECRETS:
        if sign in lowered:
            text = pattern.sub(replacement, text)
    return text


def _without_password(word: re.Match[str]) -> str:
    """The word without the password: everything between its first colon and its last @, however badly the address is
    written."""
    before, _, server = word[0].rpartition("@")
    scheme, slashes, secret = before.partition("://")
    if slashes:
        user, colon, _ = secret.partition(":")
        return f"{scheme}://{user + colon if colon else ''}***@{server}"
    return f"***@{server}" if ":" in before else word[0]
