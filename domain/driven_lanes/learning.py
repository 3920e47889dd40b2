"""Completed routes teach their lanes. A completed route waits in `driven_roads` until its positions have been read.

A route waits from the transaction that completes it, so none is forgotten when a process dies. Each is read, snapped
and stored by itself. What is stored twice is stored once. A trip that cannot be believed leaves the table, and its
reason is logged and counted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

import numpy as np

from domain.accounts.companies import lock_company
from domain.database.connections import Connection, Tenant
from domain.database.fence import is_at_work
from domain.database.statements import Command, NotNull, OwnedRow, Scalar, Statement, in_turns
from domain.documents import StopDocument
from domain.driven_lanes.driven_road import DrivenRoad
from domain.driven_lanes.lanes import SAME_STOP_MILES, lane_to_teach, trim_lanes, vote_again
from domain.driven_lanes.snapping import TimedPlace, UnusableFixes, is_far_longer, snapped
from domain.lifecycle import Environment
from domain.roads import Point, Roads, great_circle_miles
from domain.roads.highways import HighwayFinder
from domain.roads.sphere import stop_point

LATE_FIXES = timedelta(minutes=10)
"""Wait after the end of a live route for its last fixes. In the sandbox fixes come in order."""

MOST_FIXES_READ = 40_000
"""Most fixes read for one trip: two weeks of a truck that reports every half minute."""

MOST_STOPS = 50
"""Most stops of a route that teaches a lane. A route with more is a round of a city and hardly ever repeated."""

_SAME_PLACE_MILES = 0.3

_NOTE = Command(
    """
    INSERT INTO driven_roads (route_id, company_id, environment, vehicle_id, ended_at)
    SELECT r.id, r.company_id, r.environment, r.vehicle_id, r.completed_at
    FROM routes r JOIN companies c ON c.id = r.company_id
    WHERE r.id = ANY(%s) AND r.status = 'completed' AND r.vehicle_id IS NOT NULL AND c.driven_lanes
    ON CONFLICT (route_id) DO NOTHING
    """
)


def note_completed(connection: Connection, route_ids: Sequence[UUID]) -> None:
    """Let completed routes wait for their roads to be read, where the company wants driven lanes."""
    _NOTE.execute(connection, (list(route_ids),))


_WAITING = Statement(
    OwnedRow,
    in_turns(
        "route_id AS id, company_id",
        "SELECT route_id, company_id, completed_at AS since FROM driven_roads d"
        " WHERE road IS NULL AND completed_at <= %s::timestamptz - CASE environment WHEN 'live' THEN %s::interval"
        f" ELSE interval '0' END AND {is_at_work('d.company_id')}",
    ),
)


def waiting_roads(connection: Connection, *, now: datetime, limit: int) -> list[UUID]:
    """Completed routes whose positions are to be read now, of all companies in turns."""
    return [row.id for row in _WAITING.all(connection, (now, LATE_FIXES, limit))]


@dataclass(frozen=True, slots=True, eq=False)
class CompletedTrip:
    """A completed route with the fixes between each two of its stops."""

    route_id: UUID
    tenant: Tenant
    names: Sequence[str]
    stops: Sequence[Point]
    ended_at: datetime
    legs: Sequence[Sequence[TimedPlace]]


class _Route(NamedTuple):
    company_id: UUID
    environment: str
    vehicle_id: UUID
    ended_at: datetime
    stops: list[StopDocument]


_ROUTE = Statement(
    _Route,
    "SELECT d.company_id, d.environment, d.vehicle_id, d.ended_at, r.stops FROM driven_roads d"
    " JOIN routes r ON r.id = d.route_id WHERE d.route_id = %s AND d.road IS NULL",
)


class _Times(NamedTuple):
    stop: int
    arrived_at: datetime
    departed_at: datetime | None


_TIMES = Statement(_Times, "SELECT stop, arrived_at, departed_at FROM visits WHERE route_id = %s ORDER BY stop")


class _Position(NamedTuple):
    latitude: float
    longitude: float
    recorded_at: datetime


_POSITIONS = Statement(
    _Position,
    "SELECT latitude, longitude, recorded_at FROM positions WHERE vehicle_id = %s AND environment = %s"
    " AND company_id = %s AND recorded_at BETWEEN %s AND %s AND NOT implausible ORDER BY recorded_at LIMIT %s",
)


def read_trip(connection: Connection, route_id: UUID) -> CompletedTrip | None:
    """The trip of a waiting route; None once it no longer waits. Raises UnusableFixes if its fixes show no believable
    way."""
    route = _ROUTE.first(connection, (route_id,))
    if route is None:
        return None
    visits = _TIMES.all(connection, (route_id,))
    if len(route.stops) > MOST_STOPS:
        raise UnusableFixes("many stops")
    if [visit.stop for visit in visits] != list(range(len(route.stops))):
        raise UnusableFixes("skipped stop")
    left = [visit.departed_at for visit in visits[:-1]]
    first, last = left[0], visits[-1].arrived_at
    if first is None:
        raise UnusableFixes("no departure")
    rows = _POSITIONS.all(
        connection, (route.vehicle_id, route.environment, route.company_id, first, last, MOST_FIXES_READ + 1)
    )
    if len(rows) > MOST_FIXES_READ:
        raise UnusableFixes("many fixes")
    places = [stop_point(stop) for stop in route.stops]
    fixes = [TimedPlace(Point(row.latitude, row.longitude), row.recorded_at) for row in rows]
    return CompletedTrip(
        route_id=route_id,
        tenant=Tenant(route.company_id, Environment(route.environment)),
        names=[stop["name"] for stop in route.stops],
        stops=places,
        ended_at=route.ended_at,
        legs=[
            [fix for fix in fixes if departed <= fix.at <= visit.arrived_at] if departed is not None else []
            for departed, visit in zip(left, visits[1:], strict=True)
        ],
    )


def road_of(trip: CompletedTrip, finder: HighwayFinder, roads: Roads) -> DrivenRoad:
    """The road that the truck took. The caller holds no transaction meanwhile. Raises UnusableFixes if it cannot be
    found."""
    legs = []
    for (start, end), fixes in zip(pairwise(trip.stops), trip.legs, strict=True):
        if not fixes and great_circle_miles(start, end) <= _SAME_PLACE_MILES:
            legs.append([TimedPlace(start, trip.ended_at), TimedPlace(end, trip.ended_at)])
            continue
        if not fixes:
            raise UnusableFixes("no fixes")
        if any(
            great_circle_miles(stop, fix.place) > SAME_STOP_MILES for stop, fix in ((start, fixes[0]), (end, fixes[-1]))
        ):
            raise UnusableFixes("not at its stops")
        legs.append(list(fixes))
    road = snapped(finder, legs)
    if is_far_longer(road, roads.through(trip.stops).distance_miles):
        raise UnusableFixes("far longer")
    if not np.isfinite(road.line).all():
        raise UnusableFixes("no fixes")
    return road


_LOCK = Command("SELECT FROM driven_roads WHERE route_id = %s AND road IS NULL FOR UPDATE")
_STORE = Command("UPDATE driven_roads SET road = %s, lane_id = %s WHERE route_id = %s")
_DROP = Command("DELETE FROM driven_roads WHERE route_id = %s AND road IS NULL")


def store_road(connection: Connection, trip: CompletedTrip, road: DrivenRoad) -> bool:
    """Store the road of a trip, and vote on its lane again. Returns False if the road is stored already."""
    lock_company(connection, trip.tenant.company_id, even_retired=True)
    if _LOCK.first(connection, (trip.route_id,)) is None:
        return False
    lane_id = lane_to_teach(connection, trip.tenant, trip.stops, trip.names, trip.ended_at)
    _STORE.execute(connection, (road.pack(), lane_id, trip.route_id))
    vote_again(connection, lane_id)
    trim_lanes(connection, trip.tenant)
    return True


def drop_waiting(connection: Connection, route_id: UUID) -> None:
    """Drop a waiting trip that cannot be believed or read."""
    _DROP.execute(connection, (route_id,))


class _Old(NamedTuple):
    company_id: UUID
    lane_id: NotNull[UUID]


_LANES_WITH_OLD = Statement(
    _Old,
    "SELECT DISTINCT company_id, lane_id FROM driven_roads d"
    f" WHERE road IS NOT NULL AND completed_at < %s AND {is_at_work('d.company_id')} LIMIT %s",
)
_FORGET_OLD = Command("DELETE FROM driven_roads WHERE lane_id = %s AND completed_at < %s")
_EMPTY_LANES = Scalar(
    UUID,
    "SELECT id FROM driven_lanes l WHERE NOT EXISTS (SELECT FROM driven_roads d WHERE d.lane_id = l.id)"
    f" AND {is_at_work('l.company_id')} ORDER BY id LIMIT %s",
)


def forget_roads(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Forget driven roads that are too old to count, and lanes without any. Returns how many lanes changed. Age is by
    our clock, because the sandbox's time is simulated."""
    before = now - timedelta(days=days)
    rows: Iterable[_Old] = sorted(_LANES_WITH_OLD.all(connection, (before, limit)))
    for row in rows:
        lock_company(connection, row.company_id, even_retired=True)
        _FORGET_OLD.execute(connection, (row.lane_id, before))
        vote_again(connection, row.lane_id)
    empty = _EMPTY_LANES.all(connection, (limit,))
    for lane_id in empty:
        vote_again(connection, lane_id)
    return len(list(rows)) + len(empty)
