"""Keeps the newest pages, so that a trip of which only the truck has moved is not rendered again."""

from collections import OrderedDict
from collections.abc import Callable

MOST_KEPT_BYTES = 16_000_000
"""Most bytes of pages that one process keeps: those of some 2,000 trips."""

Parts = tuple[bytes, ...]


class KeptPages:
    """The parts of the newest pages of one process, each page under a key that changes with what it shows. Whoever asks
    has found the trip in the database at that moment, by its token; nothing is shown from here alone."""

    def __init__(self, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._pages: OrderedDict[bytes, Parts] = OrderedDict()

    def get(self, key: bytes, render: Callable[[], Parts]) -> Parts:
        """The parts of the page under a key, rendered if they are not kept."""
        parts = self._pages.get(key)
        if parts is not None:
            self._pages.move_to_end(key)
            return parts
        parts = self._pages[key] = render()
        self._bytes += sum(map(len, parts))
        while self._bytes > self._most_bytes:
            _, oldest = self._pages.popitem(last=False)
            self._bytes -= sum(map(len, oldest))
        return parts
