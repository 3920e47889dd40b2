"""The next fuel stop of a truck on its way, told from its last position alone.

The road of a plan is packed in its explanation; to unpack those of a whole fleet takes seconds. So this rule knows only
the places that the plan names. A fuel stop is behind the truck when the truck has reached a stop that comes after it,
or when the truck is nearer than the fuel stop to the place that comes next: the next fuel stop, or the next stop.
"""

from collections.abc import Sequence
from typing import NamedTuple

from domain.roads import Point, great_circle_miles


class Milestone(NamedTuple):
    """A stop or a fuel stop, and the mile of the plan's road where it lies."""

    place: Point
    mile: float | None
    """The mile on the plan's road; None where the plan does not tell it."""


def index_of_next_fuel_stop(
    truck: Point | None,
    fuel_stops: Sequence[Milestone],
    *,
    next_stop: Milestone | None,
    reached_mile: float = 0.0,
    passed: int = 0,
) -> int | None:
    """The index of the next fuel stop; None where all are behind the truck. `fuel_stops` are in driving order.
    `next_stop` is the first stop not reached yet, `reached_mile` the mile of the last one that was. The first `passed`
    fuel stops are known to be behind; for a truck without a position only those are."""
    for index, fuel_stop in enumerate(fuel_stops):
        if index < passed or (fuel_stop.mile is not None and fuel_stop.mile < reached_mile):
            continue
        after = fuel_stops[index + 1] if index + 1 < len(fuel_stops) else None
        if truck is None or _is_before(next_stop, fuel_stop):
            return index
        following = next_stop if after is None or _is_before(next_stop, after) else after
        if following is None or great_circle_miles(truck, following.place) >= great_circle_miles(
            fuel_stop.place, following.place
        ):
            return index
    return None


def _is_before(stop: Milestone | None, fuel_stop: Milestone) -> bool:
    """True where the stop is known to come before the fuel stop."""
    return stop is not None and stop.mile is not None and fuel_stop.mile is not None and stop.mile < fuel_stop.mile
