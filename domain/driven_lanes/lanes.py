"""Stored lanes of one tenant: the lane of a route, and what driven roads teach it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, TypedDict
from uuid import UUID

from domain.accounts.companies import lock_company
from domain.audit.entries import Action, Actor, record_action
from domain.database.connections import Connection, Tenant, as_json
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.driven_lanes.agreement import COUNTED_DAYS, FEWEST_AGREEING, Witness, count_independent, vote
from domain.driven_lanes.driven_road import DrivenRoad
from domain.encoding import utc_text
from domain.ids import new_id
from domain.roads import Point, great_circle_miles
from domain.roads.sphere import MILES_PER_DEGREE

SAME_STOP_MILES = 5.0
"""Two stops within this distance are one stop of a lane."""

MOST_ROADS = 7
"""Most driven roads that a lane keeps; the newest stay, and vote."""

MOST_LANES = 2_000
"""Most lanes that a tenant keeps; those with the newest trips stay. All together take at most some 100 MB."""

_REACH_DEGREES = SAME_STOP_MILES / MILES_PER_DEGREE


class AgreeingTrip(TypedDict):
    """A trip that took the road of its lane, by the id of its route."""

    routeId: str
    vehicleId: str
    endedAt: str


@dataclass(frozen=True, slots=True, eq=False)
class LearnedLane:
    """A lane whose trips agree on a road. `places` are its stops, `trips` the trips that count, the newest first."""

    id: UUID
    places: Sequence[Point]
    road: DrivenRoad
    trips: Sequence[AgreeingTrip]


class _Lane(NamedTuple):
    id: UUID
    places: list[float]


class _Learned(NamedTuple):
    id: UUID
    places: list[float]
    road: NotNull[bytes]
    agreeing: list[AgreeingTrip]


_SIMILAR = """
    l.company_id = %(company_id)s AND l.environment = %(environment)s
    AND l.start_latitude BETWEEN %(southmost_start)s AND %(northmost_start)s
    AND cardinality(l.places) = %(size)s::int
    AND l.places[%(size)s::int - 1] BETWEEN %(southmost_end)s AND %(northmost_end)s
"""
_FIND = Statement(_Lane, f"SELECT l.id, l.places FROM driven_lanes l WHERE {_SIMILAR} ORDER BY l.id")
_FIND_LEARNED = Statement(
    _Learned,
    "SELECT l.id, l.places, l.road, l.agreeing FROM driven_lanes l JOIN companies c ON c.id = l.company_id"
    f" WHERE c.driven_lanes AND l.road IS NOT NULL AND {_SIMILAR} ORDER BY l.id",
)


def _search(tenant: Tenant, places: Sequence[Point]) -> dict[str, object]:
    return {
        **tenant._asdict(),
        "southmost_start": places[0].latitude - _REACH_DEGREES,
        "northmost_start": places[0].latitude + _REACH_DEGREES,
        "southmost_end": places[-1].latitude - _REACH_DEGREES,
        "northmost_end": places[-1].latitude + _REACH_DEGREES,
        "size": 2 * len(places),
    }


def _points(places: Sequence[float]) -> list[Point]:
    return [Point(*pair) for pair in zip(places[::2], places[1::2], strict=True)]


def _apart_miles(places: Sequence[float], stops: Sequence[Point]) -> float:
    """The longest distance between a stop of a lane and the stop of the route that corresponds to it."""
    return max(great_circle_miles(place, stop) for place, stop in zip(_points(places), stops, strict=True))


def learned_lane_for(
    connection: Connection, tenant: Tenant, stops: Sequence[Point], *, as_of: datetime
) -> LearnedLane | None:
    """The lane of a route with these stops, if at least three of the trips that agreed are still young enough. None
    also where the company does not want driven lanes."""
    if len(stops) < 2:
        return None
    found = [
        (apart, row)
        for row in _FIND_LEARNED.all(connection, _search(tenant, stops))
        if (apart := _apart_miles(row.places, stops)) <= SAME_STOP_MILES
    ]
    for _, row in sorted(found, key=lambda one: one[0]):
        trips = _counted(row.agreeing, as_of)
        if trips is not None:
            return LearnedLane(row.id, _points(row.places), DrivenRoad.unpack(row.road), trips)
    return None


def _counted(agreeing: Sequence[AgreeingTrip], as_of: datetime) -> list[AgreeingTrip] | None:
    """The trips that are still young enough, or None if they are too few."""
    oldest = as_of - timedelta(days=COUNTED_DAYS)
    trips = [trip for trip in agreeing if datetime.fromisoformat(trip["endedAt"]) >= oldest]
    ends = [(UUID(trip["vehicleId"]), datetime.fromisoformat(trip["endedAt"])) for trip in trips]
    return trips if count_independent(ends) >= FEWEST_AGREEING else None


_INSERT = Command(
    "INSERT INTO driven_lanes (id, company_id, environment, start_latitude, places, names, agreeing, newest_at)"
    " VALUES (%s, %s, %s, %s, %s, %s, '[]', %s)"
)


def lane_to_teach(
    connection: Connection, tenant: Tenant, stops: Sequence[Point], names: Sequence[str], ended_at: datetime
) -> UUID:
    """The nearest lane with these stops, or a new one. The caller holds the lock of the company."""
    found = [(_apart_miles(row.places, stops), row.id) for row in _FIND.all(connection, _search(tenant, stops))]
    near = [one for one in found if one[0] <= SAME_STOP_MILES]
    if near:
        return min(near)[1]
    lane_id = new_id()
    places = [degrees for stop in stops for degrees in stop]
    ends = [names[0], names[-1]]
    _INSERT.execute(connection, (lane_id, *tenant, stops[0].latitude, places, as_json(ends), ended_at))
    return lane_id


class _Stored(NamedTuple):
    route_id: UUID
    vehicle_id: UUID
    ended_at: datetime
    road: NotNull[bytes]


_ROADS = Statement(
    _Stored,
    "SELECT route_id, vehicle_id, ended_at, road FROM driven_roads WHERE lane_id = %s AND road IS NOT NULL"
    " ORDER BY ended_at DESC, route_id DESC",
)
_DELETE_ROADS = Command("DELETE FROM driven_roads WHERE route_id = ANY(%s)")
_TEACH = Command("UPDATE driven_lanes SET road = %s, agreeing = %s, newest_at = %s WHERE id = %s")
_DELETE_LANES = Command("DELETE FROM driven_lanes WHERE id = ANY(%s)")


def vote_again(connection: Connection, lane_id: UUID) -> int:
    """Store what the lane's newest driven roads agree on, and delete the others. Returns how many agree. The caller
    holds the lock of the company."""
    stored = _ROADS.all(connection, (lane_id,))
    if not stored:
        _DELETE_LANES.execute(connection, ([lane_id],))
        return 0
    _DELETE_ROADS.execute(connection, ([row.route_id for row in stored[MOST_ROADS:]],))
    witnesses = [
        Witness(row.route_id, row.vehicle_id, row.ended_at, DrivenRoad.unpack(row.road)) for row in stored[:MOST_ROADS]
    ]
    decided = vote(witnesses)
    road = decided[0].road.pack() if decided is not None else None
    agreeing = decided[1] if decided is not None else []
    trips = [
        AgreeingTrip(routeId=str(one.route_id), vehicleId=str(one.vehicle_id), endedAt=utc_text(one.ended_at))
        for one in agreeing
    ]
    _TEACH.execute(connection, (road, as_json(trips), stored[0].ended_at, lane_id))
    return len(trips)


_BEYOND = Scalar(
    UUID,
    "SELECT id FROM driven_lanes WHERE company_id = %s AND environment = %s ORDER BY newest_at DESC, id DESC OFFSET %s",
)
_DELETE_ROADS_OF = Command("DELETE FROM driven_roads WHERE lane_id = ANY(%s)")


def trim_lanes(connection: Connection, tenant: Tenant, *, most: int = MOST_LANES) -> int:
    """Delete the tenant's lanes beyond the newest `most`. The caller holds the lock of the company."""
    beyond = _BEYOND.all(connection, (*tenant, most))
    _delete(connection, beyond)
    return len(beyond)


def _delete(connection: Connection, lane_ids: Sequence[UUID]) -> None:
    if lane_ids:
        _DELETE_ROADS_OF.execute(connection, (list(lane_ids),))
        _DELETE_LANES.execute(connection, (list(lane_ids),))


_ONE = Statement(_Lane, "SELECT id, places FROM driven_lanes WHERE id = %s AND company_id = %s AND environment = %s")


def reset_lane(connection: Connection, tenant: Tenant, lane_id: UUID, by: Actor) -> bool:
    """Forget a lane with its driven roads, so that it is learned again from the trips to come. Returns False if there
    is no such lane."""
    lock_company(connection, tenant.company_id)
    row = _ONE.first(connection, (lane_id, *tenant))
    if row is None:
        return False
    _delete(connection, [row.id])
    record_action(connection, by, Action("lanes.reset"), f"driven lane {lane_id}", company_id=tenant.company_id)
    return True


class ListedLane(NamedTuple):
    """A lane for people: the names of its ends, its stops, the trips kept, and how many agree on a road."""

    id: UUID
    names: list[str]
    stops: int
    kept: int
    agreeing: list[AgreeingTrip]
    newest_at: datetime


_LIST = Statement(
    ListedLane,
    """
    SELECT l.id, l.names, cardinality(l.places) / 2 AS stops,
           (SELECT count(*)::int FROM driven_roads d WHERE d.lane_id = l.id) AS kept, l.agreeing, l.newest_at
    FROM driven_lanes l WHERE l.company_id = %s AND l.environment = %s
    ORDER BY l.newest_at DESC, l.id DESC LIMIT %s OFFSET %s
    """,
)


def list_lanes(connection: Connection, tenant: Tenant, *, limit: int, offset: int = 0) -> list[ListedLane]:
    """The tenant's lanes, those with the newest trips first."""
    return _LIST.all(connection, (*tenant, limit, offset))
