"""When a truck is where: driving, resting, waiting for windows to open, fueling. Rules only.

A simple model of the hours-of-service rules for drivers of property-carrying trucks (49 CFR 395.3): at most 11 hours of
driving, then 10 hours off duty, taken where the 11 hours end. A driver is taken to start rested, for nobody tells us
otherwise; a wait of 10 hours or more at a stop is a rest too. Left out: the 14-hour window and the weekly limits, which
depend on what was done before, the 30-minute break, for which fuel stops serve, split berths, and time for loading.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

MAX_DRIVING_HOURS = 11.0
REST = timedelta(hours=10)

LAST_MOMENT = datetime.max.replace(tzinfo=UTC)


class Call(NamedTuple):
    """A place to come to after so many hours of driving in all, not before it opens, to stay there for a while."""

    driving_hours: float
    opens: datetime | None = None
    stay: timedelta = timedelta(0)


def arrivals(departure: datetime, calls: Iterable[Call]) -> Iterator[datetime | None]:
    """When the truck arrives at each call, given in driving order. Who is early waits: its arrival is the opening.

    None after the year 9999: no clock can tell it, for a window may open at the very end of time.
    """
    longest = LAST_MOMENT - departure
    since_departure, hours, hours_since_rest = timedelta(0), 0.0, 0.0
    for call in calls:
        leg_hours = max(call.driving_hours - hours, 0.0)  # calls at one rounded mile may be a second out of order
        while hours_since_rest + leg_hours > MAX_DRIVING_HOURS + 1e-9:
            until_rest = MAX_DRIVING_HOURS - hours_since_rest
            since_departure += timedelta(hours=until_rest) + REST
            leg_hours, hours_since_rest = leg_hours - until_rest, 0.0
        since_departure += timedelta(hours=leg_hours)
        hours, hours_since_rest = max(call.driving_hours, hours), hours_since_rest + leg_hours
        arrival = max(since_departure, call.opens - departure) if call.opens is not None else since_departure
        yield departure + arrival if arrival <= longest else None
        if arrival + call.stay - since_departure >= REST:
            hours_since_rest = 0.0
        since_departure = arrival + call.stay
