"""The import pass finds the held routes that can move, and a mapping imports them at once."""

from datetime import datetime, timedelta

from domain.database.connections import Connection
from domain.ids import new_id
from domain.lifecycle import RouteStatus
from domain.queue.jobs import import_routes_job
from domain.routes.intake import holds
from domain.routes.intake.fleet_changes import add_mapping
from domain.routes.intake.imports import import_routes
from tests.domain.helpers import imported, pushed, route_row, status_and_reason, status_of
from tests.factories import DOT, Fleet, make_fleet
from tests.jobs import jobs_of


def test_the_pass_finds_every_held_route_that_can_move_and_no_others_but_ambiguous_ones(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    vehicles = [
        {"unitNumber": "101"},
        {"unitNumber": "later"},
        {"unitNumber": "never"},
        {"unitNumber": "mapped"},
        {"vin": "1XKAD49X0CJ222222"},
        {"vin": "1XKAD49X0CJ555555"},
        {"unitNumber": "never", "vin": "1XKAD49X0CJ555555"},
    ]
    drivers = [{"name": "Ann Lee"}, {"name": "Later"}, {"externalId": "never"}, {"externalId": "mapped"}]
    ids = [
        imported(connection, tenant, now=now, start=now + timedelta(days=days), vehicle=vehicle, driver=driver)
        for tenant in (fleet.live, fleet.sandbox)
        for vehicle in vehicles
        for driver in drivers
        for days in (1, 8, 30)
    ]
    for unit_number, vin in (
        ("later", None),
        ("one", "1XKAD49X0CJ222222"),
        ("two", "1XKAD49X0CJ222222"),
        (None, "1XKAD49X0CJ555555"),
    ):
        connection.execute(
            "INSERT INTO vehicles (id, company_id, unit_number, vin) VALUES (%s, %s, %s, %s)",
            (new_id(), fleet.company_id, unit_number, vin),
        )
    connection.execute(
        "INSERT INTO drivers (id, company_id, name) VALUES (%s, %s, 'Later')", (new_id(), fleet.company_id)
    )
    add_mapping(connection, fleet.company_id, "unit_number", "mapped", fleet.trucks[0], DOT)
    add_mapping(connection, fleet.company_id, "driver_external_id", "mapped", fleet.drivers[0], DOT)
    later = now + timedelta(days=3)

    found = holds.routes_that_can_move(connection, now=later)

    before = {route_id: status_and_reason(connection, route_id) for route_id in ids}
    import_routes(connection, ids, now=later)
    moved = {route_id for route_id in ids if status_and_reason(connection, route_id) != before[route_id]}
    assert len(found) == len(set(found))
    assert moved <= set(found)
    stuck = [route_row(connection, route_id) for route_id in set(found) & set(ids) - moved]
    assert all(row.vehicle_vin is not None for row in stuck)


def test_the_pass_and_the_import_agree_on_the_edge_of_the_window(connection: Connection, now: datetime) -> None:
    for days in (7.0, 0.1, 2.7, 31.4159):
        fleet = make_fleet(connection, import_window_days=days)
        edge = now + timedelta(days=days)
        microsecond = timedelta(microseconds=1)
        inside = imported(connection, fleet.live, now=now - timedelta(days=1), start=edge)
        outside = imported(connection, fleet.live, now=now - timedelta(days=1), start=edge + microsecond)

        found = holds.routes_that_can_move(connection, now=now)

        assert inside in found
        assert outside not in found


def test_a_held_route_a_week_past_its_start_becomes_an_error(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    unknown = {"unitNumber": "999"}
    old = imported(connection, fleet.live, now=now, start=now - timedelta(days=7.1), vehicle=unknown)
    recent = imported(connection, fleet.live, now=now, start=now - timedelta(days=6.9), vehicle=unknown)
    draft = imported(connection, fleet.live, now=now, start=now - timedelta(days=9))

    holds.expire_held_routes(connection, expiry_days=7, now=now)

    assert [status_of(connection, route_id) for route_id in (old, recent, draft)] == [
        RouteStatus.ERROR,
        RouteStatus.PENDING_MAPPING,
        RouteStatus.DRAFT,
    ]
    row = route_row(connection, old)
    assert row.pending_reason is None
    assert "No vehicle has the unit number '999'" in row.closed_reason


def test_an_import_is_due_until_it_was_tried(connection: Connection, fleet: Fleet, now: datetime) -> None:
    route_id = pushed(connection, fleet.live, now=now, start=now)

    def due(seconds: float) -> bool:
        moment = now + timedelta(seconds=seconds)
        taken = holds.take_due_imports(connection, now=moment, limit=10_000)
        counted = holds.count_due_imports(connection, now=moment, maximum=10_000)
        assert sum(counted.values()) == len(taken)
        assert (fleet.company_id in counted) == (route_id in taken)
        return route_id in taken

    assert [due(seconds) for seconds in (9, 10, 11)] == [False, True, True]
    import_routes(connection, [route_id], now=now)
    assert not due(11)


def test_a_mapping_imports_at_once_the_routes_that_waited_for_its_value(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    waiting = [
        imported(connection, tenant, now=now, start=now + timedelta(hours=hour), vehicle={"unitNumber": "new"})
        for hour, tenant in ((2, fleet.live), (1, fleet.sandbox))
    ]
    imported(connection, fleet.live, now=now, vehicle={"unitNumber": "other"})
    other = make_fleet(connection)
    imported(connection, other.live, now=now, vehicle={"unitNumber": "new"})

    held = add_mapping(connection, fleet.company_id, "unit_number", "new", fleet.trucks[1], DOT)
    jobs = jobs_of(connection)

    assert len(held) == 2
    assert jobs == [import_routes_job(waiting[::-1])]


def test_a_mapping_made_again_replaces_the_one_before(connection: Connection, fleet: Fleet, now: datetime) -> None:
    for truck in fleet.trucks:
        add_mapping(connection, fleet.company_id, "unit_number", "unit", truck, DOT)

    row = route_row(connection, imported(connection, fleet.live, now=now, vehicle={"unitNumber": "unit"}))

    assert row.vehicle_id == fleet.trucks[1]
