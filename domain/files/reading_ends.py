"""Bounds on the reading of a file: it ends once nobody wants it any more or it takes too long, and lets others have
their turn. Readers call `go_on` every thousand rows or so."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from domain.errors import FuelrouteError

WhyEnd = Callable[[], str]
"""Tells why the reading ends now; empty while it goes on. It is called often, also by other threads."""


class UnreadableFile(FuelrouteError):
    """The file as a whole cannot be imported; the text says what to do."""


class ReadingTooLong(FuelrouteError):
    """The time to read a file is over. It is no UnreadableFile: readers cope with those, and show the rest."""

    def __init__(self) -> None:
        super().__init__("it takes too long to read: divide the file, or save a sheet of Excel as CSV")


class ReadingEnded(FuelrouteError):
    """The file was not read to its end; the text says why."""


_CHECKS: ContextVar[tuple[Callable[[], object], ...]] = ContextVar("checks_of_reading", default=())


@contextmanager
def reading_in_turns(give_way: Callable[[], object]) -> Iterator[None]:
    """Makes readers within the block call `give_way` now and then, also while they find no row."""
    token = _CHECKS.set((*_CHECKS.get(), give_way))
    try:
        yield
    finally:
        _CHECKS.reset(token)


def reading_ends(why: WhyEnd) -> AbstractContextManager[None]:
    """Ends the reading of files within the block as soon as `why` tells a reason: `go_on` then raises ReadingEnded."""

    def end() -> None:
        if reason := why():
            raise ReadingEnded(reason)

    return reading_in_turns(end)


def reading_within(seconds: float) -> AbstractContextManager[None]:
    """Makes reading of files within the block raise ReadingTooLong after `seconds`."""
    ends_at = time.monotonic() + seconds

    def end() -> None:
        if time.monotonic() >= ends_at:
            raise ReadingTooLong

    return reading_in_turns(end)


def go_on() -> None:
    """Lets the reading go on. Raises ReadingEnded or ReadingTooLong, with the reason, once it has to end."""
    for check in _CHECKS.get():
        check()
