"""Ends the reading of a file that is no longer wanted, or that takes too long."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from domain.errors import FuelrouteError

WhyEnd = Callable[[], str]
"""Tells why the reading ends now; empty while it goes on. It is called often, also by other threads."""


class UnreadableFile(FuelrouteError):
    """The file as a whole cannot be imported; the text says what to do."""


class ReadingEnded(FuelrouteError):
    """The file was not read to its end; the text says why."""


_ASKED: ContextVar[WhyEnd | None] = ContextVar("why_reading_ends", default=None)


@contextmanager
def reading_ends(why: WhyEnd) -> Iterator[None]:
    """Ends the reading of files within the block as soon as `why` tells a reason: `go_on` then raises ReadingEnded."""
    token = _ASKED.set(why)
    try:
        yield
    finally:
        _ASKED.reset(token)


def go_on() -> None:
    """Lets the reading go on; readers call it every thousand rows or so. Raises ReadingEnded, with the reason, once it
    has to end."""
    why = _ASKED.get()
    if why is not None and (reason := why()):
        raise ReadingEnded(reason)
