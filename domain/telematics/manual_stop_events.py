"""Manual stop events: a dispatcher enters that a truck arrived at a stop or left it. The rules decide which events are
possible, and which visits they make.

Rules only: no clock, no storage. An event makes the visit that fixes would have made, so it has all effects of a visit.
Its time stays as it was entered, and positions add the missing times:

- fixes neither move nor undo its time (`arrivals.merge_visits`);
- a truck has left a stop with an entered arrival when fixes were seen there and then outside
  (`arrivals.process_fixes`), or when it reached another stop (`with_implied_departures`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal

from domain.errors import FuelrouteError
from domain.roads import Point
from domain.telematics.arrivals import Implied, ManualStopEvent, Visit, are_next_door, places_of

VisitEnd = Literal["arrival", "departure"]
"""The end of a visit that a dispatcher enters."""


class ImpossibleStopEvent(FuelrouteError):
    """The event cannot have happened; the text tells the dispatcher why."""


def is_known(visits: Mapping[int, Visit], stop: int, end: VisitEnd) -> bool:
    """True if this end of the visit was seen or entered before. An implied departure may still be entered."""
    visit = visits.get(stop)
    if end == "arrival" or visit is None:
        return visit is not None
    return visit.departed_at is not None and not isinstance(visit.departure, Implied)


def with_stop_event(
    stops: Sequence[Point],
    visits: Mapping[int, Visit],
    stop: int,
    end: VisitEnd,
    moment: datetime,
    event: ManualStopEvent,
) -> dict[int, Visit]:
    """The visits, by position of the stop, after an event that is not known yet. Raises ImpossibleStopEvent, with a
    text for the dispatcher, if the event cannot have happened. As with fixes, all stops of one place are reached and
    left together, and a stop that was passed over stays unvisited."""
    if not 0 <= stop < len(stops):
        raise ImpossibleStopEvent("the route has no such stop")
    place = next(place.stops for place in places_of(stops) if stop in place.stops)
    _require_order(visits, place, moment)
    known = dict(visits)
    if end == "arrival":
        known |= {one: Visit(moment, event) for one in place if one not in known}
    else:
        if stop not in known:
            raise ImpossibleStopEvent("the truck has not arrived at this stop: enter its arrival first")
        if moment < known[stop].arrived_at:
            raise ImpossibleStopEvent("a truck cannot leave a stop before it has arrived there")
        known |= {
            one: replace(known[one], departed_at=moment, departure=event)
            for one in place
            if one in known and not is_known(known, one, "departure")
        }
    return with_implied_departures(stops, known, everywhere=True)


def _require_order(visits: Mapping[int, Visit], place: Sequence[int], moment: datetime) -> None:
    """Check that stops are reached in their order. Raises ImpossibleStopEvent, with a text for the dispatcher, if they
    are not."""
    for stop, visit in visits.items():
        left = visit.departed_at if is_known(visits, stop, "departure") else None
        if stop < place[0] and moment < max(visit.arrived_at, left or visit.arrived_at):
            raise ImpossibleStopEvent(f"at that time the truck had not left stop {stop + 1}, which comes before")
        if stop > place[-1] and moment > visit.arrived_at:
            raise ImpossibleStopEvent(f"at that time the truck had reached stop {stop + 1}, which comes later")


def with_implied_departures(
    stops: Sequence[Point], visits: Mapping[int, Visit], *, everywhere: bool = False
) -> dict[int, Visit]:
    """Adds implied departures: a truck that has reached a later stop had left the stops before it by then. This counts
    where no departure is known by then: at stops with an entered arrival, where the later stop is next door, or
    `everywhere`. When fixes show a departure afterwards, an earlier time replaces the implied one.

    Other stops need none: fixes show the truck outside of one stop before it is at another. Next door it may stand
    within the margin of the stop before, so that fixes show a departure only when it drives on from there. That is too
    late, whether they come with the others or after them."""
    known = dict(visits)
    for place in places_of(stops):
        later = min((stop for stop in visits if stop > place.stops[-1]), default=None)
        for stop in place.stops:
            visit = known.get(stop)
            if visit is None or later is None or _is_known_by(visit, visits[later].arrived_at):
                continue
            is_entered = isinstance(visit.arrival, ManualStopEvent) or isinstance(visit.departure, Implied)
            if everywhere or is_entered or are_next_door(stops[stop], stops[later]):
                known[stop] = replace(visit, departed_at=visits[later].arrived_at, departure=Implied(later))
    return known


def _is_known_by(visit: Visit, moment: datetime) -> bool:
    """True if a departure was entered, or was seen before that moment."""
    if visit.departed_at is None or isinstance(visit.departure, Implied):
        return False
    return isinstance(visit.departure, ManualStopEvent) or visit.departed_at <= moment
