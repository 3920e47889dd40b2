"""The fuel levels and the places that a truck sent, for people to look at."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database import Connection, Tenant
from domain.planning.deviations import TrackedFix
from domain.roads import Point
from domain.statements import Statement

MOST_READINGS = 300
"""More could not be told apart in a drawing."""

MOST_PLACES = 2_000
"""So many show the bends of the road on a map of a whole trip."""


class _Reading(NamedTuple):
    recorded_at: datetime
    latitude: float
    longitude: float
    fuel_percent: float | None


_READINGS = Statement(
    _Reading,
    """
    SELECT recorded_at, latitude, longitude, fuel_percent
    FROM (SELECT recorded_at, latitude, longitude, fuel_percent,
                 row_number() OVER (ORDER BY recorded_at) AS number, count(*) OVER () AS readings
          FROM positions
          WHERE company_id = %(company)s AND vehicle_id = %(vehicle)s AND environment = %(environment)s
            AND NOT implausible
            AND recorded_at >= %(since)s AND recorded_at <= coalesce(%(until)s::timestamptz, 'infinity')
            AND fuel_percent IS NOT NULL) AS reading
    WHERE number = readings OR (number - 1) %% (1 + readings / %(most)s) = 0
    ORDER BY recorded_at
    """,
)


def read_levels(
    connection: Connection, tenant: Tenant, vehicle_id: UUID, since: datetime, until: datetime | None
) -> list[TrackedFix]:
    """The plausible fixes with a level from one time to another (None: up to the newest), evenly thinned to about
    MOST_READINGS."""
    asked = {
        "company": tenant.company_id,
        "environment": tenant.environment,
        "vehicle": vehicle_id,
        "since": since,
        "until": until,
        "most": MOST_READINGS,
    }
    return [TrackedFix(*row) for row in _READINGS.all(connection, asked)]


class _Place(NamedTuple):
    latitude: float
    longitude: float


_TRAIL = Statement(
    _Place,
    """
    SELECT latitude, longitude
    FROM (SELECT recorded_at, latitude, longitude,
                 row_number() OVER (ORDER BY recorded_at) AS number, count(*) OVER () AS places
          FROM positions
          WHERE company_id = %(company)s AND vehicle_id = %(vehicle)s AND environment = %(environment)s
            AND NOT implausible
            AND recorded_at >= %(since)s AND recorded_at <= coalesce(%(until)s::timestamptz, 'infinity')) AS fix
    WHERE number = places OR (number - 1) %% (1 + places / %(most)s) = 0
    ORDER BY recorded_at
    """,
)


def read_trail(
    connection: Connection, tenant: Tenant, vehicle_id: UUID, since: datetime, until: datetime | None
) -> list[Point]:
    """The places of the plausible fixes from one time to another (None: up to the newest), evenly thinned to about
    MOST_PLACES."""
    asked = {
        "company": tenant.company_id,
        "environment": tenant.environment,
        "vehicle": vehicle_id,
        "since": since,
        "until": until,
        "most": MOST_PLACES,
    }
    return [Point(*row) for row in _TRAIL.all(connection, asked)]
