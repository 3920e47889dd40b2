"""The fuel levels that a truck sent, for people to look at."""

from datetime import datetime
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
