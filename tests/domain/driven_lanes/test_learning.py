"""Completed routes teach the plans of their own company and environment, once each, whatever dies."""

from datetime import datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from domain.accounts.companies import set_policy
from domain.accounts.policy import Policy
from domain.database.connections import Connection, Database, Tenant
from domain.documents import DRIVEN_LANE
from domain.driven_lanes import lanes, learning
from domain.driven_lanes.lanes import MOST_ROADS, LearnedLane, learned_lane_for, list_lanes
from domain.driven_lanes.road_by_lane import road_by_lane
from domain.driven_lanes.snapping import UnusableFixes
from domain.housekeeping.erasure import erase_company
from domain.roads import Point, Road
from domain.roads.truck_dimensions import TruckDimensions
from tests.domain.driven_lanes.driving import (
    BY_NASHVILLE,
    JOLIET,
    MEMPHIS,
    NASHVILLE,
    QUICKEST,
    ROADS,
    completed,
    fixes_along,
    learn,
    stop_at,
)
from tests.factories import DOT, Fleet, make_fleet
from tests.rows import named

PLACES = [JOLIET, MEMPHIS]


def trips(
    connection: Connection, fleet: Fleet, tenant: Tenant, count: int, now: datetime, *, road: Road = BY_NASHVILLE
) -> list[UUID]:
    """Learned trips, `count` of them, each two days after the one before; the last one ended yesterday."""
    ids = []
    for number in range(count):
        start = now - timedelta(days=2 * (count - number))
        ids.append(completed(connection, fleet, tenant, fixes_along(road, start, seed=number)))
        assert learn(connection, ids[-1])
    return ids


def lane(connection: Connection, tenant: Tenant, now: datetime) -> LearnedLane | None:
    return learned_lane_for(connection, tenant, PLACES, as_of=now)


def found(connection: Connection, tenant: Tenant, now: datetime) -> LearnedLane:
    learned = lane(connection, tenant, now)
    assert learned is not None
    return learned


def test_three_trips_teach_the_lane_and_fewer_do_not(connection: Connection, now: datetime) -> None:
    fleet = make_fleet(connection)
    ids = trips(connection, fleet, fleet.live, 2, now - timedelta(days=2))
    assert lane(connection, fleet.live, now) is None
    ids += trips(connection, fleet, fleet.live, 1, now)
    learned = found(connection, fleet.live, now)
    assert [UUID(trip["routeId"]) for trip in learned.trips] == ids[::-1]
    road = road_by_lane(learned, JOLIET, PLACES, [1], ROADS, TruckDimensions())
    assert road is not None
    assert road.source == DRIVEN_LANE
    assert road.distance_miles == pytest.approx(BY_NASHVILLE.distance_miles, rel=0.01)
    assert road.stop_hours[-1] == pytest.approx(BY_NASHVILLE.stop_hours[-1], rel=0.03)


def test_nobody_else_learns_from_them(connection: Connection, now: datetime) -> None:
    fleet, other = make_fleet(connection), make_fleet(connection)
    trips(connection, fleet, fleet.live, 3, now)
    assert lane(connection, fleet.live, now) is not None
    for tenant in (fleet.sandbox, other.live, other.sandbox):
        assert lane(connection, tenant, now) is None
        assert list_lanes(connection, tenant, limit=10) == []
    # trips of both environments and of two companies do not add up
    mixed = make_fleet(connection)
    trips(connection, mixed, mixed.live, 2, now)
    trips(connection, mixed, mixed.sandbox, 2, now - timedelta(days=30))
    assert lane(connection, mixed.live, now) is None
    assert lane(connection, mixed.sandbox, now) is None


def test_a_lane_is_its_stops_within_five_miles_in_their_order(connection: Connection, now: datetime) -> None:
    fleet = make_fleet(connection)
    trips(connection, fleet, fleet.live, 3, now)
    near = Point(JOLIET.latitude + 4 / 69, JOLIET.longitude)
    far = Point(JOLIET.latitude + 6 / 69, JOLIET.longitude)
    assert learned_lane_for(connection, fleet.live, [near, MEMPHIS], as_of=now) is not None
    for stops in ([far, MEMPHIS], [MEMPHIS, JOLIET], [JOLIET, NASHVILLE, MEMPHIS], [JOLIET], [JOLIET, NASHVILLE]):
        assert learned_lane_for(connection, fleet.live, stops, as_of=now) is None


def test_trips_grow_old_and_housekeeping_forgets_them(connection: Connection, now: datetime) -> None:
    fleet = make_fleet(connection)
    trips(connection, fleet, fleet.live, 3, now)
    assert lane(connection, fleet.live, now + timedelta(days=179 - 6)) is not None
    assert lane(connection, fleet.live, now + timedelta(days=179)) is None
    assert learning.forget_roads(connection, days=180, now=now + timedelta(days=100), limit=100) == 0
    assert learning.forget_roads(connection, days=180, now=now + timedelta(days=400), limit=100) >= 1
    assert list_lanes(connection, fleet.live, limit=10) == []


def test_a_company_that_does_not_want_them_has_none(connection: Connection, now: datetime) -> None:
    fleet = make_fleet(connection)
    trips(connection, fleet, fleet.live, 3, now)
    set_policy(connection, fleet.company_id, Policy(driven_lanes=False), DOT)
    assert lane(connection, fleet.live, now) is None
    route_id = completed(connection, fleet, fleet.live, fixes_along(QUICKEST, now - timedelta(hours=20)))
    assert learning.read_trip(connection, route_id) is None
    set_policy(connection, fleet.company_id, Policy(driven_lanes=True), DOT)
    assert lane(connection, fleet.live, now) is not None


def test_what_is_learned_twice_is_learned_once(connection: Connection, now: datetime) -> None:
    """Killed before the commit of any step, the trip still waits; after it, it does not."""
    fleet = make_fleet(connection)
    trips(connection, fleet, fleet.live, 2, now - timedelta(days=2))
    route_id = completed(connection, fleet, fleet.live, fixes_along(BY_NASHVILLE, now - timedelta(days=1)))
    learning.note_completed(connection, [route_id])
    later = now + timedelta(minutes=1)
    assert route_id not in learning.waiting_roads(connection, now=now - timedelta(days=9), limit=100)
    with connection.transaction():
        assert learn(connection, route_id)
        raise psycopg.Rollback
    assert lane(connection, fleet.live, now) is None
    assert learn(connection, route_id)
    before = rows(connection, fleet)
    assert not learn(connection, route_id)
    learning.note_completed(connection, [route_id])
    learning.drop_waiting(connection, route_id)
    assert not learn(connection, route_id)
    assert rows(connection, fleet) == before
    assert lane(connection, fleet.live, later) is not None


def rows(connection: Connection, fleet: Fleet) -> list[tuple[object, ...]]:
    query = (
        "SELECT d.route_id, d.road AS one, l.id, l.road AS agreed, l.agreeing::text FROM driven_roads d"
        " LEFT JOIN driven_lanes l ON l.id = d.lane_id WHERE d.company_id = %s ORDER BY 1"
    )
    return [tuple(row) for row in named(connection).execute(query, (fleet.company_id,)).fetchall()]


def test_a_trip_waits_for_late_fixes_in_live_only(connection: Connection, now: datetime) -> None:
    fleet = make_fleet(connection)
    fixes = fixes_along(QUICKEST, now - timedelta(days=1))
    live, sandbox = (completed(connection, fleet, tenant, fixes) for tenant in (fleet.live, fleet.sandbox))
    (moment,) = named(connection).execute("SELECT clock_timestamp() AS now").fetchall()
    assert {live, sandbox} & set(learning.waiting_roads(connection, now=moment.now, limit=1000)) == {sandbox}
    after = moment.now + learning.LATE_FIXES
    assert {live, sandbox} <= set(learning.waiting_roads(connection, now=after, limit=1000))


def test_a_trip_that_cannot_be_believed_teaches_nothing(connection: Connection, now: datetime) -> None:
    fleet = make_fleet(connection)
    start = now - timedelta(days=1)
    elsewhere = ROADS.through([Point(33.75, -84.39), MEMPHIS])
    for fixes, reason in (
        (fixes_along(elsewhere, start), "not at its stops"),
        (fixes_along(QUICKEST, start, gaps=[(1, 520)]), "gap"),
        (fixes_along(ROADS.through([JOLIET, Point(39.74, -104.99), MEMPHIS]), start), "far longer"),
    ):
        route_id = completed(connection, fleet, fleet.sandbox, fixes, truck=1)
        with pytest.raises(UnusableFixes, match=reason):
            learn(connection, route_id)
        learning.drop_waiting(connection, route_id)
        connection.execute("DELETE FROM positions WHERE company_id = %s", (fleet.company_id,))
    assert list_lanes(connection, fleet.sandbox, limit=10) == []


def test_the_storage_of_a_lane_and_of_a_company_is_bounded(connection: Connection, now: datetime) -> None:
    fleet = make_fleet(connection)
    trips(connection, fleet, fleet.live, MOST_ROADS + 2, now)
    (listed,) = list_lanes(connection, fleet.live, limit=10)
    assert (listed.kept, len(listed.agreeing), listed.stops) == (MOST_ROADS, MOST_ROADS, 2)
    back = ROADS.through([MEMPHIS, JOLIET])
    ends = [stop_at(MEMPHIS), stop_at(JOLIET)]
    route_id = completed(connection, fleet, fleet.live, fixes_along(back, now - timedelta(days=1)), stops=ends)
    assert learn(connection, route_id)
    assert len(list_lanes(connection, fleet.live, limit=10)) == 2
    assert lanes.trim_lanes(connection, fleet.live, most=1) == 1
    assert [one.stops for one in list_lanes(connection, fleet.live, limit=10)] == [2]


def test_a_lane_is_reset_by_its_own_company_only(connection: Connection, now: datetime) -> None:
    fleet, other = make_fleet(connection), make_fleet(connection)
    trips(connection, fleet, fleet.live, 3, now)
    lane_id = found(connection, fleet.live, now).id
    for tenant in (fleet.sandbox, other.live):
        assert not lanes.reset_lane(connection, tenant, lane_id, DOT)
    assert lane(connection, fleet.live, now) is not None
    assert lanes.reset_lane(connection, fleet.live, lane_id, DOT)
    assert lane(connection, fleet.live, now) is None
    assert not lanes.reset_lane(connection, fleet.live, lane_id, DOT)


def test_an_erased_company_leaves_no_road(database: Database, now: datetime) -> None:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        trips(connection, fleet, fleet.live, 3, now)
    erase_company(database.transaction, fleet.company_id, now=now)
    with database.transaction() as connection:
        assert list_lanes(connection, fleet.live, limit=10) == []
        assert rows(connection, fleet) == []
