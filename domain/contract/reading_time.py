"""The time for reading a file, where a person waits for its first rows and others wait for the thread."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from domain.contract.csvfiles import UnreadableFile

_ends_at: ContextVar[float | None] = ContextVar("ends_at", default=None)


class ReadingTooLong(UnreadableFile):
    def __init__(self) -> None:
        super().__init__("it takes too long to look at: divide the file, or save a sheet of Excel as CSV")


@contextmanager
def reading_within(seconds: float) -> Iterator[None]:
    """Files that are read inside raise ReadingTooLong when that takes longer."""
    token = _ends_at.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _ends_at.reset(token)


def reading_seconds_left() -> float | None:
    """Never below zero; None: there is no limit."""
    ends_at = _ends_at.get()
    return None if ends_at is None else max(0.0, ends_at - time.monotonic())


def check_reading_time() -> None:
    """Raises ReadingTooLong."""
    if reading_seconds_left() == 0:
        raise ReadingTooLong
