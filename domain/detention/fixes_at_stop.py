"""The fixes that a truck sent from a stop and after it. They tell when it left a stop whose route has ended with the
arrival, and how closely it was watched while it stood there."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant
from domain.database.statements import Scalar, Statement
from domain.roads import Point, great_circle_miles
from domain.roads.implausible_fixes import plausible_fixes
from domain.roads.sphere import METERS_PER_MILE
from domain.telematics.arrivals import (
    DEPARTURE_MARGIN_METERS,
    DRIFT_METERS,
    LONGEST_UNSEEN,
    Fix,
    ManualStopEvent,
    Visit,
    process_fixes,
)

MOST_STAY_FIXES = 20_000
"""Most fixes of one stop that are read: a week of one every half minute."""


class _StoredFix(NamedTuple):
    recorded_at: datetime
    latitude: float
    longitude: float
    speed_mph: float | None
    accuracy_meters: float | None


_FIXES = Statement(
    _StoredFix,
    "SELECT recorded_at, latitude, longitude, speed_mph, accuracy_meters FROM positions"
    " WHERE company_id = %(company_id)s AND environment = %(environment)s AND vehicle_id = %(vehicle_id)s"
    " AND NOT implausible AND recorded_at >= %(since)s ORDER BY recorded_at LIMIT %(most)s",
)


def read_fixes_since(connection: Connection, tenant: Tenant, vehicle_id: UUID, since: datetime) -> list[Fix]:
    """The truck's plausible fixes from a moment on, in the order of time, as far as they are still stored. Once its
    route has ended they carry no flag, so they are compared here."""
    parameters = {**tenant._asdict(), "vehicle_id": vehicle_id, "since": since, "most": MOST_STAY_FIXES}
    return plausible_fixes([Fix(*row) for row in _FIXES.all(connection, parameters)], tenant.environment)


def with_departure(place: Point, visit: Visit, fixes: Sequence[Fix], radius_meters: float) -> Visit:
    """The visit with its departure, if these fixes show one; by the same rule as on the way (`telematics.arrivals`)."""
    return process_fixes([place], {0: visit}, fixes, radius_meters=radius_meters)[0]


_LAST_BEFORE = Scalar(
    datetime | None,
    "SELECT max(recorded_at) FROM positions"
    " WHERE company_id = %(company_id)s AND environment = %(environment)s AND vehicle_id = %(vehicle_id)s"
    " AND NOT implausible AND recorded_at >= %(since)s AND recorded_at < %(before)s",
)


def proven_until(
    connection: Connection, tenant: Tenant, vehicle_id: UUID | None, visit: Visit, stored: datetime | None = None
) -> datetime | None:
    """The end of the stay as far as it is proven: the departure, or the truck's last fix before it where a silence
    hides when it left. None without a departure. `stored` is that fix by the evidence, which counts once retention has
    deleted the fixes."""
    if visit.departed_at is None or isinstance(visit.departure, ManualStopEvent):
        return visit.departed_at
    asked = {"vehicle_id": vehicle_id, "since": visit.arrived_at, "before": visit.departed_at}
    last = _LAST_BEFORE.first(connection, {**tenant._asdict(), **asked}) or stored
    return last if last is not None and visit.departed_at - last > LONGEST_UNSEEN else visit.departed_at


def last_fix_there(place: Point, fixes: Sequence[Fix], radius_meters: float) -> Fix | None:
    """The last fix that shows the truck at the stop, by the rule of departures: a parked truck's position drifts. None
    where no fix does."""
    last, moved = None, True
    for fix in fixes:
        meters = great_circle_miles(place, fix.point) * METERS_PER_MILE - (fix.accuracy_meters or 0)
        if meters <= radius_meters + DEPARTURE_MARGIN_METERS:
            last, moved = fix, False
        elif not fix.slow or meters > DRIFT_METERS:
            moved = True
        elif not moved:
            last = fix
    return last


class WatchedStay(NamedTuple):
    """The density and the spread of the fixes that a truck sent from a stop."""

    fixes: int
    """Fixes within the radius."""
    last_at: datetime | None
    """The last fix of the stay; None without any."""
    longest_gap_minutes: int
    furthest_meters: int
    """The furthest of them from the stop."""


def watched_stay(place: Point, fixes: Sequence[Fix], until: datetime | None, radius_meters: float) -> WatchedStay:
    """Summary of the fixes at the stop up to the departure; `until` is None for up to the last fix."""
    stay = [
        (fix.recorded_at, meters)
        for fix in fixes
        if (until is None or fix.recorded_at < until)
        and (meters := great_circle_miles(place, fix.point) * METERS_PER_MILE) <= radius_meters
    ]
    gaps = [second - first for (first, _), (second, _) in pairwise(stay)]
    return WatchedStay(
        fixes=len(stay),
        last_at=stay[-1][0] if stay else None,
        longest_gap_minutes=max(gaps, default=timedelta()) // timedelta(minutes=1),
        furthest_meters=round(max((meters for _, meters in stay), default=0.0)),
    )
