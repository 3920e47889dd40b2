"""A driver's fuel stops on the road of his own plan or of a newer one."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from domain.burn.shortfalls import PlannedBurn
from domain.documents import FuelStopDocument, StopDocument, TimelineEntry
from domain.planning.deviations import FuelStop, PlannedWay
from domain.planning.next_fuel_stop import Milestone, index_of_next_fuel_stop
from domain.planning.stored_plans import ROAD_MILES
from domain.roads import Point, Road
from domain.roads.sphere import Array, point_or_none, stop_point
from domain.stations.corridor import StationIndex, passes_by

_NEAR_MILES = 30.0
"""Furthest distance of a fuel stop that counts as on a road: no plan leads further off its road."""

SHORTER_BY = f"CASE WHEN road.id <> p.id THEN {ROAD_MILES} - {ROAD_MILES.replace('p.', 'road.')} END"
"""The miles by which the road of a plan `road` is shorter than that of the driver's plan `p`; NULL for his own."""


def planned_way(
    stops: Sequence[FuelStopDocument],
    timeline: Sequence[TimelineEntry],
    line: Array,
    line_miles: Array,
    *,
    shorter_by: float | None,
    arrivals: Mapping[int, datetime],
    burn: PlannedBurn,
    start_percent: float | None = None,
) -> PlannedWay:
    """The way that a truck is compared with: the road of a plan with its `timeline`, and the driver's fuel stops on it.
    `arrivals` has the route's stops that the truck has reached."""
    ahead = {entry["stop"]: entry["mile"] for entry in timeline}
    return PlannedWay(
        line,
        line_miles,
        fuel_stops=[
            _fuel_stop(stop, mile, burn.capacity_gallons)
            for stop, mile in zip(stops, _stop_miles(stops, line, line_miles, shorter_by), strict=True)
        ],
        reached=sorted((at, mile) for stop, at in arrivals.items() if (mile := ahead.get(stop)) is not None),
        start_percent=start_percent,
        percent_per_mile=burn.percent_per_mile,
    )


def _fuel_stop(stop: FuelStopDocument, mile: float | None, capacity_gallons: float) -> FuelStop:
    percent = 100 * stop["gallonsToFill"] / capacity_gallons
    place = stop_point(stop)
    return FuelStop(stop["name"], place, mile, percent, filled_percent=stop["arrivalFuelPercent"] + percent)


class TruckOnPlan(Protocol):
    """A plan with its route's stops, and what is known of the truck: the stops that it has reached, its last place, and
    the fuel stops that are known to be behind it."""

    @property
    def fuel_stops(self) -> Sequence[FuelStopDocument]: ...
    @property
    def timeline(self) -> Sequence[TimelineEntry]: ...
    @property
    def stops(self) -> Sequence[StopDocument]: ...
    @property
    def reached(self) -> int: ...
    @property
    def latitude(self) -> float | None: ...
    @property
    def longitude(self) -> float | None: ...
    @property
    def fuel_stops_passed(self) -> int | None: ...


class PlanMilestones(NamedTuple):
    """A plan's fuel stops in driving order, and what tells by the place of the truck which of them it has passed."""

    fuel_stops: tuple[Milestone, ...]
    next_stop: Milestone | None
    """The first stop that was not reached; None where all were."""
    reached_mile: float
    passed: int
    """Fuel stops that are known to be behind, wherever the truck is."""

    @classmethod
    def of(cls, truck: TruckOnPlan) -> "PlanMilestones":
        miles = {entry["stop"]: entry["mile"] for entry in truck.timeline}
        ahead = truck.stops[truck.reached] if truck.reached < len(truck.stops) else None
        return cls(
            tuple(Milestone(stop_point(one), one["milesFromOrigin"]) for one in truck.fuel_stops),
            next_stop=Milestone(stop_point(ahead), miles.get(truck.reached)) if ahead is not None else None,
            reached_mile=miles.get(truck.reached - 1) or 0.0,
            passed=truck.fuel_stops_passed or 0,
        )

    def behind(self, truck: Point | None) -> int:
        """The number of fuel stops that a truck at that place has passed."""
        if self.next_stop is None:
            return len(self.fuel_stops)
        index = index_of_next_fuel_stop(
            truck,
            self.fuel_stops,
            next_stop=self.next_stop,
            reached_mile=self.reached_mile,
            passed=self.passed,
        )
        return len(self.fuel_stops) if index is None else index


def fuel_stops_behind(truck: TruckOnPlan) -> int:
    """The number of a plan's fuel stops that the truck has passed, by its place."""
    return PlanMilestones.of(truck).behind(point_or_none(truck.latitude, truck.longitude))


def index_of_stops(stops: Sequence[FuelStopDocument]) -> StationIndex:
    return StationIndex.build(
        [stop["name"] for stop in stops], [(stop["latitude"], stop["longitude"]) for stop in stops]
    )


def _stop_miles(
    stops: Sequence[FuelStopDocument], line: Array, line_miles: Array, shorter_by: float | None
) -> list[float | None]:
    """The road miles of the driver's fuel stops. On another road, which leads to the same destination, each stop is
    searched for at its old distance from the destination. None for a stop that is not on it."""
    if shorter_by is None or not stops:
        return [stop["milesFromOrigin"] for stop in stops]
    road = Road.of_line(line, line_miles)
    passes = passes_by([([stop_point(stop) for stop in stops], road)], _NEAR_MILES)[0]
    return [
        min(
            (one.mile for one in passes if one.station_index == number),
            key=lambda mile, expected=stop["milesFromOrigin"] - shorter_by: abs(mile - expected),  # type: ignore[misc]
            default=None,
        )
        for number, stop in enumerate(stops)
    ]
