"""The free time of a stop, and the minutes beyond it. Rules only: no clock, no storage.

The rule is the one of brokers' confirmations: the free time, usually two hours, counts from the later of the arrival
and the beginning of the appointment. A truck that comes early waits at its own expense until the appointment begins. A
truck that comes after the window's end is late: its free time counts from the arrival, and the statement says by how
many minutes it was late, because many brokers then pay nothing.

At a route's first stop the truck is meant to stay until the route's start. Without an appointment there, free time ends
no earlier: a truck that parks at its shipper overnight is not kept."""

from datetime import datetime, timedelta
from typing import NamedTuple

from domain.clock import later

_MINUTE = timedelta(minutes=1)


class FreeTime(NamedTuple):
    """The free time of one stop."""

    counts_from: datetime
    ends_at: datetime
    early_minutes: int
    """Whole minutes by which the truck came before its appointment began; 0 if it did not."""
    late_minutes: int
    """Whole minutes by which it came after its appointment had ended; 0 if it did not."""

    def minutes_beyond(self, until: datetime) -> int:
        """Whole minutes from the end of the free time until the truck left, or was last seen there."""
        return max(until - self.ends_at, timedelta()) // _MINUTE


def free_time_of(
    arrived_at: datetime,
    opens_at: datetime | None,
    closes_at: datetime | None,
    free_minutes: float,
    *,
    starts_at: datetime | None = None,
) -> FreeTime:
    """The free time of a stop with an appointment from `opens_at` to `closes_at`; None where there is no such limit.
    `starts_at` is the start of the route at its first place, and None at the others."""
    counts_from = arrived_at if opens_at is None else max(arrived_at, opens_at)
    ends_at = later(counts_from, timedelta(minutes=free_minutes))
    if starts_at is not None and opens_at is None:
        ends_at = max(ends_at, starts_at)
    early = max((opens_at or arrived_at) - arrived_at, timedelta())
    late = max(arrived_at - (closes_at or arrived_at), timedelta())
    return FreeTime(counts_from, ends_at, early // _MINUTE, late // _MINUTE)
