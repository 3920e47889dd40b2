"""The places of stations by their ids, for maps."""

from collections.abc import Sequence
from typing import NamedTuple

from domain.database.connections import Connection
from domain.database.statements import Statement
from domain.roads import Point


class _Place(NamedTuple):
    station_id: str
    latitude: float
    longitude: float


_PLACES = Statement(_Place, "SELECT station_id, latitude, longitude FROM stations WHERE station_id = ANY(%s)")


def places_of_stations(connection: Connection, station_ids: Sequence[str]) -> dict[str, Point]:
    """The places of these stations, as far as they are known; retired ones are included. Stations belong to no
    company."""
    return {one.station_id: Point(one.latitude, one.longitude) for one in _PLACES.all(connection, (list(station_ids),))}
