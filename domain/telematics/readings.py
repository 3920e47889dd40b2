"""The fuel levels that a truck sent, and the way that it has come, for people to look at."""

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.database import Connection, Tenant
from domain.planning.deviations import TrackedFix
from domain.statements import Statement

MOST_READINGS = 300
"""More could not be told apart in a drawing."""


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


TRACK_SHOWN = timedelta(hours=6)
"""The way of the last hours before the newest fix is shown."""

_TRACK = Statement(
    _Reading,
    """
    SELECT recorded_at, latitude, longitude, fuel_percent
    FROM (SELECT p.recorded_at, p.latitude, p.longitude, p.fuel_percent,
                 row_number() OVER (ORDER BY p.recorded_at) AS number, count(*) OVER () AS fixes
          FROM tracks t CROSS JOIN LATERAL (
              SELECT * FROM positions f
              WHERE f.company_id = %(company)s AND f.vehicle_id = t.vehicle_id AND f.environment = %(environment)s
                AND f.recorded_at > t.newest_at - %(shown)s::interval AND NOT f.implausible) AS p
          WHERE t.company_id = %(company)s AND t.vehicle_id = %(vehicle)s AND t.environment = %(environment)s) AS fix
    WHERE number = fixes OR (number - 1) %% (1 + fixes / %(most)s) = 0
    ORDER BY recorded_at
    """,
)


def read_track(connection: Connection, tenant: Tenant, vehicle_id: UUID) -> list[TrackedFix]:
    """The plausible fixes of the last hours before the truck's newest one, evenly thinned to about MOST_READINGS."""
    asked = {
        "company": tenant.company_id,
        "environment": tenant.environment,
        "vehicle": vehicle_id,
        "shown": TRACK_SHOWN,
        "most": MOST_READINGS,
    }
    return [TrackedFix(*row) for row in _TRACK.all(connection, asked)]
