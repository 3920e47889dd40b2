"""Second ways: where another way takes little longer than the road of a plan, it compares the stations of both."""

from collections.abc import Sequence
from typing import NamedTuple

from domain.database.connections import Connection
from domain.database.statements import Statement
from domain.roads import Leg, Road, SecondWay
from domain.stations.corridor import StationIndex, StationPass


class ComparedWay(NamedTuple):
    """A second way beside the road from one mile to another."""

    from_mile: float
    to_mile: float
    by: str | None
    """A town with a station that only the second way passes, such as `Rolla, MO`; None if it passes no such station."""
    longer_percent: float
    """Percent of the driving time."""
    longer_miles: float
    """Miles; negative if it is shorter."""
    shared_percent: float
    """The share of its miles that lie on the road."""
    stations: int
    stations_shared: int
    """The number of its stations that the road passes, too."""


class _Town(NamedTuple):
    city: str | None
    state: str | None


_TOWN = Statement(_Town, "SELECT city, state FROM stations WHERE station_id = %s")


def compared_ways(
    connection: Connection, road: Road, max_detour_miles: float, index: StationIndex, passes: Sequence[StationPass]
) -> tuple[ComparedWay, ...]:
    """The second ways of a road that begin before it is cut. `passes` are those of the road."""
    ways = [way for way in road.second_ways if way.mile < road.distance_miles]
    if not ways:
        return ()

    def passed(leg: Leg) -> Sequence[StationPass]:
        is_road = leg.miles == road.distance_miles and leg is ways[0].best
        return passes if is_road else index.passes(Road.of([leg]), max_detour_miles)

    return tuple(_compared(connection, way, passed(way.best), passed(way.other), index) for way in ways)


def _compared(
    connection: Connection,
    way: SecondWay,
    on_best: Sequence[StationPass],
    on_other: Sequence[StationPass],
    index: StationIndex,
) -> ComparedWay:
    best, other = ({one.station_index: one.mile for one in passes} for passes in (on_best, on_other))
    alone = sorted((mile, station) for station, mile in other.items() if station not in best)
    return ComparedWay(
        from_mile=way.mile,
        to_mile=way.mile + way.best.miles,
        by=_town(connection, index.station_ids[alone[len(alone) // 2][1]]) if alone else None,
        longer_percent=100 * (way.other.hours / way.best.hours - 1),
        longer_miles=way.other.miles - way.best.miles,
        shared_percent=100 * way.shared_share,
        stations=len(other),
        stations_shared=len(other.keys() & best.keys()),
    )


def _town(connection: Connection, station_id: str) -> str | None:
    row = _TOWN.first(connection, (station_id,))
    return ", ".join(filter(None, row)) or None if row is not None else None
