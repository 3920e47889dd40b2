"""The recipients of one text at one gateway: a recipient that has taken it never gets it again.

A contact may name several recipients, and a gateway may refuse some of them. The next attempt is for those alone. A
recipient is stored as a fingerprint that needs the contact, because contacts are sealed."""

import hashlib
from collections.abc import Sequence
from typing import Any

_LENGTH = 16


class Recipients:
    """The recipients of a text that have taken it, in this attempt or before."""

    def __init__(self, taken_by: Sequence[str] | None = None) -> None:
        self.taken_by = [*(taken_by or ())]
        """The fingerprints of the recipients that have taken the text, as they are stored."""
        self._contact = ""
        self._piece = 0

    def have(self, recipient: object) -> bool:
        """True if this recipient has taken the text."""
        return self._fingerprint(recipient) in self.taken_by

    def note(self, recipient: object) -> None:
        """Note that this recipient has taken the text."""
        if not self.have(recipient):
            self.taken_by.append(self._fingerprint(recipient))

    def remember(self, gateway: Any, contact: str) -> None:
        """Let the Apprise gateway of a contact leave out the recipients that have taken the text, and note those that
        take it. It asks by `is_delivered`, and for each piece of a long text anew."""
        self._contact = contact
        send = gateway.send

        def send_piece(**options: Any) -> Any:
            self._piece = options.get("index", 0)
            return send(**options)

        def is_delivered(key: object, **_: bool) -> bool:
            return _is_recipient(key) and self.have(key)

        def mark_delivered(key: object, **_: bool) -> None:
            if _is_recipient(key):
                self.note(key)

        gateway.send, gateway.is_delivered, gateway.mark_delivered = send_piece, is_delivered, mark_delivered

    def _fingerprint(self, recipient: object) -> str:
        named = f"{self._contact}\n{self._piece}\n{recipient!r}"
        return hashlib.sha256(named.encode()).hexdigest()[:_LENGTH]


def _is_recipient(key: object) -> bool:
    """False for the mark by which Apprise notes a whole piece."""
    return isinstance(key, str | int | tuple)
