"""The time by PostgreSQL's clock, in every process on every machine.

Machines disagree about the time, by minutes when NTP is lost, and a clock that is set again jumps. Work that one
process stores as due "in ten seconds" would be minutes late for another. So all use one clock, that of the server which
keeps the data. A process reads it through the connections that it uses anyway, and counts on by the monotonic clock,
which nobody sets. Until the first reading it uses this machine's clock, and it goes on so where both clocks agree as
far as a reading can tell: the server's answer is some milliseconds old."""

import math
import time
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

from domain.database.statements import Query, Scalar

if TYPE_CHECKING:
    import psycopg

LAST_MOMENT = datetime.max.replace(tzinfo=UTC)

_VALID_SECONDS = 30.0
"""A reading is repeated after this time: clocks drift, and PostgreSQL's may be set, too."""


SERVER_TIME = Query(Scalar(datetime, "SELECT clock_timestamp()"), (), lambda rows: rows[0])
"""Asks PostgreSQL for its time."""


class _Clock:
    def __init__(self) -> None:
        self.zero: datetime | None = None
        """The time at which the monotonic clock was 0."""
        self.read_at = -math.inf

    def note(self, server: datetime, asked_at: float) -> None:
        """Learn from an answer that has just come. `asked_at` is when it was asked for, by the monotonic clock."""
        answered_at, local = _local_time()
        round_trip = timedelta(seconds=answered_at - asked_at)
        at_answer = local if local - round_trip <= server <= local else server + round_trip / 2
        self.zero, self.read_at = at_answer - timedelta(seconds=answered_at), answered_at


def _local_time() -> tuple[float, datetime]:
    """The monotonic clock and this machine's clock at one moment. A thread may be paused between two readings, so the
    closest of three pairs counts."""
    readings = [(time.monotonic(), datetime.now(UTC), time.monotonic()) for _ in range(3)]
    before, local, _ = min(readings, key=lambda one: one[2] - one[0])
    return before, local


_clock = _Clock()


def now() -> datetime:
    """The time in UTC."""
    zero = _clock.zero
    return datetime.now(UTC) if zero is None else zero + timedelta(seconds=time.monotonic())


def second_of_two(first: datetime, zone: tzinfo, *, latest: datetime) -> datetime:
    """While clocks go back, a local time of the zone has two moments: the second one, unless it is after `latest`. Any
    other time has the `first` one alone."""
    second = first.astimezone(zone).replace(fold=1).astimezone(UTC)
    return second if second <= latest else first


def later(moment: datetime, span: timedelta) -> datetime:
    """The moment that much later, at most the last one of a `datetime`: simulated time may run up to the year 9999."""
    return moment + min(span, LAST_MOMENT - moment)


def must_be_read() -> bool:
    """True when the last reading is too old."""
    return time.monotonic() - _clock.read_at > _VALID_SECONDS


def read(connection: "psycopg.Connection[Any]") -> None:
    """Sets the clock by PostgreSQL's, outside of transactions. Raises psycopg.Error when PostgreSQL does not answer;
    the clock stays then."""
    asked_at = time.monotonic()
    _clock.note(SERVER_TIME.on(connection), asked_at)


async def read_async(connection: "psycopg.AsyncConnection[Any]") -> None:
    """Sets the clock by PostgreSQL's, outside of transactions. Raises psycopg.Error when PostgreSQL does not answer;
    the clock stays then."""
    asked_at = time.monotonic()
    _clock.note(await SERVER_TIME.on_async(connection), asked_at)
