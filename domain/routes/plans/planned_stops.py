"""The miles of a driver's fuel stops, on the road of his own plan or of a newer one."""

from collections.abc import Sequence

from domain.documents import FuelStopDocument
from domain.roads import Road
from domain.roads.sphere import Array
from domain.stations.corridor import StationIndex

_NEAR_MILES = 30.0
"""Furthest distance of a fuel stop that counts as on a road: no plan leads further off its road."""


def index_of_stops(stops: Sequence[FuelStopDocument]) -> StationIndex:
    return StationIndex.build(
        [stop["name"] for stop in stops], [(stop["latitude"], stop["longitude"]) for stop in stops]
    )


def stop_miles(
    stops: Sequence[FuelStopDocument], line: Array, line_miles: Array, *, shorter_by: float | None
) -> list[float | None]:
    """The road miles of the driver's fuel stops. `shorter_by` is how much nearer the destination this road begins than
    the driver's own; None for his own road. On another road, which leads to the same destination, each stop is searched
    for at its old distance from the destination. None for a stop that is not on it."""
    if shorter_by is None or not stops:
        return [stop["milesFromOrigin"] for stop in stops]
    road = Road(float(line_miles[-1]), line, line_miles, (), (), "")
    passes = index_of_stops(stops).passes(road, _NEAR_MILES)
    return [
        min(
            (one.mile for one in passes if one.station_index == number),
            key=lambda mile, expected=stop["milesFromOrigin"] - shorter_by: abs(mile - expected),  # type: ignore[misc]
            default=None,
        )
        for number, stop in enumerate(stops)
    ]
