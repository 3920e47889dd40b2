"""Stations by their ids: is there one, and the places of several, for maps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from domain.database.connections import Connection
from domain.database.statements import Scalar, Statement
from domain.errors import FuelrouteError

if TYPE_CHECKING:
    from domain.roads import Point


class UnknownStation(FuelrouteError):
    def __init__(self, station_id: str) -> None:
        super().__init__(f"there is no station {station_id!r}: see `fuelroute stations list`")


_NAME = Scalar(str, "SELECT name FROM stations WHERE station_id = %s")


def require_station(connection: Connection, station_id: str) -> str:
    """The station's name; it may be retired. Raises UnknownStation."""
    name = _NAME.first(connection, (station_id,))
    if name is None:
        raise UnknownStation(station_id)
    return name


class _Place(NamedTuple):
    station_id: str
    latitude: float
    longitude: float


_PLACES = Statement(_Place, "SELECT station_id, latitude, longitude FROM stations WHERE station_id = ANY(%s)")


def places_of_stations(connection: Connection, station_ids: Sequence[str]) -> "dict[str, Point]":
    """The places of these stations, as far as they are known; retired ones are included. Stations belong to no
    company."""
    from domain.roads import Point  # it loads numerics, which commands of stations do without

    return {one.station_id: Point(one.latitude, one.longitude) for one in _PLACES.all(connection, (list(station_ids),))}
