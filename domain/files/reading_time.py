"""The time for reading a file, where a person waits for its first rows and others wait for the thread."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from domain.files.reading_ends import UnreadableFile


def _go_on() -> None:
    """Nobody waits."""


_give_way: ContextVar[Callable[[], object]] = ContextVar("give_way", default=_go_on)
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


@contextmanager
def reading_in_turns(give_way: Callable[[], object]) -> Iterator[None]:
    """Readers inside call `give_way` now and then, also while they find no row."""
    token = _give_way.set(give_way)
    try:
        yield
    finally:
        _give_way.reset(token)


def check_reading_time() -> None:
    """Lets others have their turn. Readers call it after some rows. Raises ReadingTooLong."""
    _give_way.get()()
    if reading_seconds_left() == 0:
        raise ReadingTooLong
