"""Fits texts to the gateways that take them: names mention nobody in a chat and are no Markdown, and no text is longer
than its gateway takes."""

import re

RENDER_PLAIN_TEXT = frozenset({"discord", "mmost", "mmosts"})
"""Chats that render Markdown in every text, also in one that Apprise hands over as plain text."""

_MENTION_BY_NAME = RENDER_PLAIN_TEXT | {"rocket", "rockets", "tgram", "zulip"}
"""Chats that notify the person, or everyone, whose name stands behind an `@` in a text. The others need a reference in
angle brackets, which Apprise escapes."""

_MENTION = re.compile(r"@(?=\S)")
_MARKDOWN = re.compile(r"(?P<link>https?://\S+)|[\\*_~`|\[<]|^[#>]", re.MULTILINE)
"""Signs that act in Markdown, the last two at the beginning of a line only. An escape would change a link."""


def for_chat(text: str, channel: str) -> str:
    """The text, for a chat of this kind. An invisible space behind each `@` keeps the name from being a mention."""
    if channel in RENDER_PLAIN_TEXT:
        text = _MARKDOWN.sub(lambda found: found[0] if found["link"] else f"\\{found[0]}", text)
    return _MENTION.sub("@\u200b", text) if channel in _MENTION_BY_NAME else text


_MOST_CHARACTERS = {
    "clicksend": 1_224,
    "discord": 2_000,
    "msgbird": 1_377,
    "plivo": 1_600,
    "pover": 1_024,
    "sinch": 2_000,
    "sns": 1_600,
    "telnyx": 1_530,
    "tgram": 4_096,
    "twilio": 1_600,
}
"""Longest texts that a gateway takes, as it documents them. It refuses a longer one at every attempt; ClickSend cuts
it, and MessageBird takes it and sends nothing."""

_MOST_IN_UNICODE = {"clicksend": 536, "msgbird": 603, "plivo": 737, "telnyx": 670}
"""Longest texts with other than plain characters, which need twice the room in text messages."""

_PLAIN = re.compile(r"[^`\x80-\U0010ffff]*")
"""Characters of the alphabet of text messages (GSM 03.38) that are ASCII: all but the backtick."""
_OF_TWO = re.compile(r"[\[\\\]^{|}~\U00010000-\U0010ffff]")
"""Characters that count as two in text messages."""


def is_plain(text: str) -> bool:
    """True if a text message needs no Unicode for the text."""
    return _PLAIN.fullmatch(text) is not None


def room_at_gateway(text: str, channel: str) -> int:
    """The most characters of the text that a gateway of this kind takes, before they are escaped. Apprise writes the
    first line end with two signs."""
    most = _MOST_CHARACTERS.get(channel)
    if most is None:
        return len(text)
    if channel in _MOST_IN_UNICODE:
        most = most if is_plain(text) else _MOST_IN_UNICODE[channel]
        most -= len(_OF_TWO.findall(text))
    if channel == "clicksend":  # it counts a line end as two characters
        most -= text.count("\n")
    return most - 1 - (len(for_chat(text, channel)) - len(text))
