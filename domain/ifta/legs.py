"""The legs that were driven, with their miles by state and the purchases planned on them.

A leg runs from one stop that the truck reached to the next one that it reached. It counts for the quarter in which it
ended. The way, the miles and the purchases are those of the plan, for nothing else is known of them.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

import numpy as np

from domain.burn.figures import DEFAULT_MPG
from domain.documents import StopDocument
from domain.roads import Point, Road, Roads, great_circle_miles
from domain.roads.sphere import Array, places_at, stop_point
from domain.roads.states import States

AT_STOP_MILES = 1.0
"""A plan that begins within this distance of the last stop begins at that stop. Otherwise the truck had driven on
before the plan was made, and the road to its beginning is added."""

_ROUNDED_MILES = 0.01


class PlannedPurchase(NamedTuple):
    """A purchase of a plan. `state` is the state in the station's data; None where the data has none."""

    mile: float
    gallons: float
    place: Point
    state: str | None


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRoad:
    """The road of a plan: the mile of each stop that was ahead, by its position in the route's stops.

    `line`, `line_miles` and `mpg` are None after retention has deleted the plan's explanation.
    """

    miles: Mapping[int, float]
    purchases: Sequence[PlannedPurchase]
    line: Array | None = None
    line_miles: Array | None = None
    mpg: float | None = None
    purchases_behind: int | None = None
    """Number of its purchases behind the truck when a new plan replaced this one on the way; None for a plan that was
    not replaced."""
    plan_id: UUID | None = None

    def bought(self, first: float | None, last: float) -> Iterator[PlannedPurchase]:
        """The purchases between two miles; `first` is None at the beginning of the road."""
        for purchase in self.purchases[: self.purchases_behind]:
            if (first is None or first < purchase.mile) and purchase.mile <= last:
                yield purchase


@dataclass(frozen=True, slots=True)
class DrivenRoute:
    """A route with the arrival at each stop that was reached, by the stop's position, and its plans, the newest first.
    `mpg` is the vehicle's."""

    stops: Sequence[StopDocument]
    arrivals: Mapping[int, datetime]
    plans: Sequence[PlannedRoad]
    mpg: float | None
    vehicle_id: UUID | None = None
    unit_number: str | None = None
    id: UUID | None = None


@dataclass(frozen=True, slots=True)
class DrivenLeg:
    """A leg with its miles by state, its mpg, and the gallons planned to be bought by state.

    `planned`: a plan led over the leg. `rebuilt`: its line was found again from the route's stops.
    """

    miles: Mapping[str, float]
    mpg: float
    purchases: Sequence[tuple[str, float]]
    planned: bool
    rebuilt: bool
    mark: str = ""
    """The route, stops and plans from which it was made. A filed leg with the same mark has not changed, also when
    retention has deleted the lines and levels of its plans since."""


RoadsMaker = Callable[[], Roads]
"""Makes the roads for a way that no plan has any more. Most reports need none, so roads are made when needed."""


NO_LEGS: Mapping[str, DrivenLeg] = {}


def driven_legs(
    route: DrivenRoute,
    start: datetime,
    end: datetime,
    roads: RoadsMaker,
    states: States,
    filed: Mapping[str, DrivenLeg] = NO_LEGS,
) -> Iterator[DrivenLeg]:
    """The legs that ended from `start` to before `end`. Those that were `filed` stay as they were, by their marks."""
    for before, stop in pairwise(sorted(route.arrivals)):
        if start <= route.arrivals[stop] < end:
            mark = _mark(route, before, stop)
            yield filed[mark] if mark in filed else replace(_leg(route, before, stop, roads, states), mark=mark)


def _mark(route: DrivenRoute, before: int, stop: int) -> str:
    """The route, the stops and the plans that lead over the leg, with its miles on each."""
    places = [stop_point(route.stops[number]) for number in (before, stop)]
    parts = [f"{route.id} {before} {stop}", *(f"{place.latitude:.5f} {place.longitude:.5f}" for place in places)]
    for plan in route.plans:
        if stop in plan.miles:
            first, last = plan.miles.get(before, 0.0), plan.miles[stop]
            parts.append(f"{plan.plan_id} {first:.2f} {last:.2f} {plan.purchases_behind}")
    return "|".join(parts)


def _leg(route: DrivenRoute, before: int, stop: int, roads: RoadsMaker, states: States) -> DrivenLeg:
    def road_again() -> Road:
        return roads().through([stop_point(each) for each in route.stops[before : stop + 1]])

    leading = [plan for plan in route.plans if stop in plan.miles]
    plan = leading[0] if leading else None
    if plan is None:
        road = road_again()
        return DrivenLeg(
            states.miles(road.line, road.line_miles), route.mpg or DEFAULT_MPG, (), planned=False, rebuilt=True
        )

    starts_here = before not in plan.miles
    first, last = plan.miles.get(before, 0.0), plan.miles[stop]
    purchases = [
        (state_of_station(purchase.state, purchase.place, states), purchase.gallons)
        for number, each in enumerate(leading)
        if number == 0 or each.purchases_behind
        for purchase in each.bought(each.miles.get(before), each.miles[stop])
    ]
    mpg = plan.mpg or route.mpg or DEFAULT_MPG
    if plan.line is None or plan.line_miles is None or last > plan.line_miles[-1] + _ROUNDED_MILES:
        road = road_again()  # the plan's line was forgotten, or ends before this stop
        # The plan's miles, shared out by state as on the rebuilt road.
        miles = _scaled(states.miles(road.line, road.line_miles), last - first)
        if not miles and last > first:  # the stops are one place
            miles = {states.at(stop_point(route.stops[stop])): last - first}
        return DrivenLeg(miles, mpg, purchases, planned=True, rebuilt=True)

    miles = states.miles(*_part(plan.line, plan.line_miles, first, last))
    left = stop_point(route.stops[before])
    begin = Point(*plan.line[0].tolist())
    if starts_here and great_circle_miles(left, begin) > AT_STOP_MILES:
        road = roads().through([left, begin])
        for state, more in states.miles(road.line, road.line_miles).items():
            miles[state] = miles.get(state, 0.0) + more
    return DrivenLeg(miles, mpg, purchases, planned=True, rebuilt=False)


def state_of_station(said: str | None, place: Point, states: States) -> str:
    """The state in a station's data, or the state of its place. Our borders are not exact to a mile."""
    code = (said or "").upper()
    return code if code in states.names else states.at(place)


def _part(line: Array, line_miles: Array, first: float, last: float) -> tuple[Array, Array]:
    """The line from one road mile to another."""
    inside = (line_miles > first) & (line_miles < last)
    miles = np.concatenate([[first], line_miles[inside], [last]])
    ends = places_at(line, line_miles, np.array([first, last]))
    return np.concatenate([ends[:1], line[inside], ends[1:]]), miles


def _scaled(miles: Mapping[str, float], to: float) -> dict[str, float]:
    total = math.fsum(miles.values())
    return {state: one * to / total for state, one in miles.items()}
