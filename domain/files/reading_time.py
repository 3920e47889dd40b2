"""The time for reading a file, while a person waits for its first rows and others wait for the thread."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from domain.files.reading_ends import UnreadableFile


def _go_on() -> None:
    """Does nothing; stands for readers that give way to no one."""


_give_way: ContextVar[Callable[[], object]] = ContextVar("give_way", default=_go_on)
_ends_at: ContextVar[float | None] = ContextVar("ends_at", default=None)


class ReadingTooLong(UnreadableFile):
    def __init__(self) -> None:
        super().__init__("it takes too long to look at: divide the file, or save a sheet of Excel as CSV")


@contextmanager
def reading_within(seconds: float) -> Iterator[None]:
    """Makes reading of files within the block raise ReadingTooLong after `seconds`."""
    token = _ends_at.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _ends_at.reset(token)


def reading_seconds_left() -> float | None:
    """The seconds left, never below zero; None without a limit."""
    ends_at = _ends_at.get()
    return None if ends_at is None else max(0.0, ends_at - time.monotonic())


@contextmanager
def reading_in_turns(give_way: Callable[[], object]) -> Iterator[None]:
    """Makes readers within the block call `give_way` now and then, also while they find no row."""
    token = _give_way.set(give_way)
    try:
        yield
    finally:
        _give_way.reset(token)


def check_reading_time() -> None:
    """Lets others have their turn; readers call it after some rows. Raises ReadingTooLong once the time is over."""
    _give_way.get()()
    if reading_seconds_left() == 0:
        raise ReadingTooLong
