"""Completed trips teach the plans of their own truck, company and environment, whatever comes late or twice."""

from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from domain.burn.figures import Burn
from domain.burn.learning import TruckToLearn, give_up, let_trips_wait, measure_again, trucks_to_learn
from domain.burn.stored_figures import figure_for_plan
from domain.database.connections import Connection, Database, Tenant
from domain.driven_lanes.learning import LATE_FIXES
from domain.fills.stored_verdicts import update_verdicts
from domain.housekeeping.erasure import erase_company
from domain.housekeeping.retention import delete_routes
from domain.migrations.versions import learned_burn
from domain.routes.transitions import complete_routes
from tests.domain.burn.trips import MPH, card_fill, driven, learn, place_at
from tests.domain.driven_lanes.driving import store_fixes
from tests.domain.helpers import corrected_by_hand
from tests.factories import Fleet, make_fleet
from tests.rows import named


def undeclared(connection: Connection) -> Fleet:
    fleet = make_fleet(connection)
    connection.execute("UPDATE vehicles SET mpg = NULL WHERE company_id = %s", (fleet.company_id,))
    return fleet


def trips(
    connection: Connection, fleet: Fleet, tenant: Tenant, now: datetime, *, count: int = 3, truck: int = 0, **trip: Any
) -> None:
    """Learned trips, each three days after the one before; the last one ended some days ago."""
    for number in range(count):
        start = now - timedelta(days=3 * (count - number))
        driven(connection, fleet, tenant, start, truck=truck, seed=number, **trip)
    learn(connection, fleet, tenant, now, truck=truck)


def burn(connection: Connection, fleet: Fleet, tenant: Tenant, truck: int = 0) -> Burn:
    return figure_for_plan(connection, tenant, fleet.trucks[truck])


def stored(connection: Connection, fleet: Fleet) -> list[Any]:
    return (
        named(connection)
        .execute(
            "SELECT miles, gallons, doubt, by_card, measured_at IS NULL AS waits FROM trip_burns WHERE company_id = %s"
            " ORDER BY ended_at",
            (fleet.company_id,),
        )
        .fetchall()
    )


def test_three_trips_take_the_place_of_the_default(connection: Connection, now: datetime) -> None:
    fleet = undeclared(connection)
    assert burn(connection, fleet, fleet.live).kind == "default"
    trips(connection, fleet, fleet.live, now, count=2)
    assert burn(connection, fleet, fleet.live).kind == "default"
    trips(connection, fleet, fleet.live, now + timedelta(days=7), count=1)
    found = burn(connection, fleet, fleet.live)
    assert found.kind == "learned"
    assert found.mpg == pytest.approx(5.6, rel=0.04)
    assert found.source == "3 trips of the truck, 2,700 mi"


def test_a_plan_that_was_made_on_the_way_shortens_no_trip(connection: Connection, now: datetime) -> None:
    fleet = undeclared(connection)
    start = now - timedelta(days=2)
    route_id = driven(connection, fleet, fleet.live, start, road_miles=500.0)
    for hours, miles in ((0, 930.0), (8, 500.0)):
        corrected_by_hand(connection, route_id, now=start + timedelta(hours=hours), totalDistanceMiles=miles)
    learn(connection, fleet, fleet.live, now)
    (trip,) = stored(connection, fleet)
    assert trip.miles == pytest.approx(930, abs=15)


def test_a_second_tracker_that_stands_beside_the_road_lengthens_no_trip(connection: Connection, now: datetime) -> None:
    """It was left behind at mile 100, and its fixes go on for an hour while the truck drives past."""
    fleet = undeclared(connection)
    start = now - timedelta(days=2)
    driven(connection, fleet, fleet.live, start)
    passing = (start + timedelta(hours=mile / MPH) for mile in range(77, 124, 5))
    store_fixes(connection, fleet.live, fleet.trucks[0], ((at, place_at(100), 55.0) for at in passing))
    learn(connection, fleet, fleet.live, now)
    (trip,) = stored(connection, fleet)
    assert trip.miles == pytest.approx(900, abs=15)


def test_nobody_else_learns_from_them(connection: Connection, now: datetime) -> None:
    fleet, other = undeclared(connection), undeclared(connection)
    trips(connection, fleet, fleet.live, now)
    for whose, tenant, truck in (
        (fleet, fleet.sandbox, 0),
        (fleet, fleet.live, 1),
        (other, other.live, 0),
        (fleet, other.live, 0),
    ):
        assert burn(connection, whose, tenant, truck).kind == "default"


def test_a_truck_that_is_new_takes_the_median_of_the_companys_trucks(connection: Connection, now: datetime) -> None:
    fleet = undeclared(connection)
    for number, mpg in enumerate((5.5, 6.0, 7.1)):
        connection.execute(
            "INSERT INTO learned_burns (company_id, environment, vehicle_id, capacity_gallons, mpg, spread_percent,"
            " miles, trips) SELECT company_id, 'live', gen_random_uuid(), 200, %s, 5, 900, '[]' FROM vehicles"
            " WHERE id = %s",
            (mpg, fleet.trucks[0]),
        )
        connection.execute(
            "INSERT INTO vehicles (id, company_id, unit_number, make, model)"
            " SELECT vehicle_id, company_id, %s, 'Volvo', 'VNL' FROM learned_burns b WHERE company_id = %s"
            " AND NOT EXISTS (SELECT FROM vehicles WHERE id = b.vehicle_id)",
            (f"N{number}", fleet.company_id),
        )
        kind = burn(connection, fleet, fleet.live).kind
        assert kind == ("default" if number < 2 else "fleet")
    found = burn(connection, fleet, fleet.live)
    assert (found.mpg, found.source) == (6.0, "the median of 3 trucks of the company")
    connection.execute("UPDATE vehicles SET make = 'VOLVO', model = 'vnl' WHERE id = %s", (fleet.trucks[0],))
    assert burn(connection, fleet, fleet.live).source == "the median of 3 trucks of its make and model"
    assert burn(connection, fleet, fleet.sandbox).kind == "default"


def test_a_declared_mileage_is_contradicted_as_the_company_chooses(connection: Connection, now: datetime) -> None:
    fleet = undeclared(connection)
    trips(connection, fleet, fleet.live, now)
    for declared, choice, kind in (
        (7.2, "learned", "learned"),
        (7.2, "declared", "declared"),
        (7.2, "lower", "learned"),
        (4.5, "lower", "declared"),
        (5.6, "learned", "declared"),
    ):
        connection.execute("UPDATE vehicles SET mpg = %s WHERE id = %s", (declared, fleet.trucks[0]))
        connection.execute("UPDATE companies SET mpg_choice = %s WHERE id = %s", (choice, fleet.company_id))
        assert burn(connection, fleet, fleet.live).kind == kind, (declared, choice)


def test_fills_that_come_when_the_positions_are_gone_still_count(connection: Connection, now: datetime) -> None:
    fleet = undeclared(connection)
    start = now - timedelta(days=30)
    route_id = driven(connection, fleet, fleet.live, start)
    learn(connection, fleet, fleet.live, now)
    connection.execute("DELETE FROM positions WHERE company_id = %s", (fleet.company_id,))
    card_fill(connection, fleet, fleet.live, start + timedelta(hours=450 / MPH), 90)
    measure_again(connection, [route_id])
    assert [row.waits for row in stored(connection, fleet)] == [True]
    (before,) = stored(connection, fleet)
    learn(connection, fleet, fleet.live, now)
    (after,) = stored(connection, fleet)
    assert (after.by_card, after.waits, after.doubt) == (True, False, None)
    assert after.miles / after.gallons == pytest.approx(5.6, rel=0.03)
    assert (before.by_card, before.gallons == after.gallons) == (False, False)


def test_a_fill_of_the_route_makes_its_trip_wait_again(connection: Connection, now: datetime) -> None:
    fleet = undeclared(connection)
    start = now - timedelta(days=3)
    route_id = driven(connection, fleet, fleet.live, start)
    learn(connection, fleet, fleet.live, now)
    update_verdicts(connection, [route_id])
    assert [row.waits for row in stored(connection, fleet)] == [False], "it has no fills"
    card_fill(connection, fleet, fleet.live, start + timedelta(hours=450 / MPH), 90)
    connection.execute("UPDATE fills SET route_id = %s WHERE company_id = %s", (route_id, fleet.company_id))
    update_verdicts(connection, [route_id])
    assert [row.waits for row in stored(connection, fleet)] == [True]


def test_a_route_waits_from_the_moment_when_it_is_completed(connection: Connection, now: datetime) -> None:
    fleet = undeclared(connection)
    route_id = driven(connection, fleet, fleet.live, now - timedelta(days=1))
    connection.execute("DELETE FROM trip_burns WHERE route_id = %s", (route_id,))
    connection.execute("UPDATE routes SET status = 'active', completed_at = NULL WHERE id = %s", (route_id,))
    complete_routes(connection, [route_id], now=now)
    assert [(row.waits, row.doubt) for row in stored(connection, fleet)] == [(True, None)]


def test_routes_that_were_completed_before_the_upgrade_teach_their_trucks(
    connection: Connection, now: datetime
) -> None:
    fleet = undeclared(connection)
    ids = [driven(connection, fleet, fleet.live, now - timedelta(days=days)) for days in (3, 90)]
    connection.execute("DELETE FROM trip_burns WHERE route_id = ANY(%s)", (ids,))
    connection.execute("UPDATE routes SET updated_at = completed_at WHERE id = ANY(%s)", (ids,))
    for _ in range(2):
        connection.execute(learned_burn.backfill.fill, {"keys": ids})
    assert [row.waits for row in stored(connection, fleet)] == [True]


def test_what_is_learned_twice_is_learned_once(connection: Connection, now: datetime) -> None:
    fleet = undeclared(connection)
    trips(connection, fleet, fleet.live, now)
    route_id = driven(connection, fleet, fleet.live, now - timedelta(days=1), seed=9)
    with connection.transaction():
        learn(connection, fleet, fleet.live, now)
        raise psycopg.Rollback
    assert [row.waits for row in stored(connection, fleet)] == [False, False, False, True]
    learn(connection, fleet, fleet.live, now)
    once = (stored(connection, fleet), burn(connection, fleet, fleet.live))
    let_trips_wait(connection, [route_id])
    learn(connection, fleet, fleet.live, now)
    assert (stored(connection, fleet), burn(connection, fleet, fleet.live)) == once


def test_a_live_trip_waits_for_late_fixes_and_a_changed_tank_makes_a_truck_learn_again(
    connection: Connection, now: datetime
) -> None:
    fleet = undeclared(connection)
    driven(connection, fleet, fleet.live, now - timedelta(days=2))
    driven(connection, fleet, fleet.sandbox, now - timedelta(days=2), truck=1)

    def waiting(at: datetime) -> set[tuple[str, Any]]:
        found = trucks_to_learn(connection, now=at, limit=10_000)
        return {(one.environment, one.vehicle_id) for one in found if one.company_id == fleet.company_id}

    (moment,) = named(connection).execute("SELECT clock_timestamp() AS now").fetchall()
    after = moment.now + LATE_FIXES
    assert waiting(moment.now) == {("sandbox", fleet.trucks[1])}
    assert waiting(after) == {("sandbox", fleet.trucks[1]), ("live", fleet.trucks[0])}
    learn(connection, fleet, fleet.live, after)
    learn(connection, fleet, fleet.sandbox, after, truck=1)
    assert waiting(after) == set()
    connection.execute("UPDATE vehicles SET fuel_tank_capacity_gallons = 150 WHERE id = %s", (fleet.trucks[0],))
    assert waiting(after) == {("live", fleet.trucks[0])}
    learn(connection, fleet, fleet.live, after)
    assert waiting(after) == set()


def test_a_truck_without_levels_and_a_truck_with_a_dead_gauge_teach_nothing(
    connection: Connection, now: datetime
) -> None:
    fleet = undeclared(connection)
    trips(connection, fleet, fleet.live, now, shown=lambda mile, level: 0.0)
    trips(connection, fleet, fleet.live, now, truck=1, shown=lambda mile, level: 55.0, noise_percent=0.0)
    assert {row.doubt for row in stored(connection, fleet)} <= {"levels", "mileage"}
    assert burn(connection, fleet, fleet.live).kind == "default"


def test_a_deleted_route_and_an_erased_company_leave_nothing(database: Database, now: datetime) -> None:
    with database.transaction() as connection:
        fleet = undeclared(connection)
        trips(connection, fleet, fleet.live, now)
        route_id = driven(connection, fleet, fleet.live, now - timedelta(days=1), seed=9)
        delete_routes(connection, [route_id])
        assert len(stored(connection, fleet)) == 3
    erase_company(database.transaction, fleet.company_id, now=now)
    with database.transaction() as connection:
        for table in ("trip_burns", "learned_burns"):
            assert not connection.execute(f"SELECT FROM {table} WHERE company_id = %s", (fleet.company_id,)).fetchall()


@pytest.mark.parametrize("gives_up", [False, True])
def test_another_tank_leaves_the_range_until_the_truck_has_learned_again(
    connection: Connection, now: datetime, gives_up: bool
) -> None:
    """A gauge shows percents: with 240 gallons in place of 200, the same fall of the level is a fifth more fuel."""
    fleet = undeclared(connection)
    trips(connection, fleet, fleet.live, now)
    before = burn(connection, fleet, fleet.live).mpg
    connection.execute("UPDATE vehicles SET fuel_tank_capacity_gallons = 240 WHERE id = %s", (fleet.trucks[0],))
    if gives_up:
        truck = TruckToLearn(fleet.company_id, fleet.live.environment, fleet.trucks[0])
        give_up(connection, truck, now=now + timedelta(days=7))
    assert burn(connection, fleet, fleet.live).mpg == pytest.approx(before * 200 / 240, abs=0.01)
    learn(connection, fleet, fleet.live, now + timedelta(days=7))
    assert burn(connection, fleet, fleet.live).mpg == pytest.approx(before * 200 / 240, rel=0.02)
