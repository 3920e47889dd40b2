"""The places that the roads must reach: the stations, and the stops of the live routes that have not ended."""

from typing import NamedTuple

from domain.database.connections import Connection
from domain.database.statements import Statement


class StationPlace(NamedTuple):
    station_id: str
    latitude: float
    longitude: float


class PlannedStopPlace(NamedTuple):
    """A stop of a route that has not ended."""

    external_id: str
    name: str
    latitude: float
    longitude: float


_STATIONS = Statement(StationPlace, "SELECT station_id, latitude, longitude FROM stations WHERE retired_at IS NULL")

_STOPS = Statement(
    PlannedStopPlace,
    """
    SELECT r.external_id, stop->>'name' AS name, (stop->>'latitude')::float AS latitude,
           (stop->>'longitude')::float AS longitude
    FROM routes r CROSS JOIN jsonb_array_elements(r.stops) AS stop
    WHERE r.environment = 'live' AND r.status IN ('draft', 'planned', 'active')
    """,
)


class FleetArea(NamedTuple):
    stations: list[StationPlace]
    stops: list[PlannedStopPlace]


def fleet_area(connection: Connection) -> FleetArea:
    """The places of all companies, for the operator, whose roads serve them all."""
    return FleetArea(_STATIONS.all(connection), _STOPS.all(connection))
