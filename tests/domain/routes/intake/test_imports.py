"""From pushed to held or draft: batches of imports on real PostgreSQL (decisions 1 to 3)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from domain.database.connections import Connection
from domain.fleet.matching import MappingKind
from domain.fleet.records import UnknownTarget
from domain.ids import new_id
from domain.lifecycle import RouteStatus
from domain.routes.intake.fleet_changes import add_mapping
from domain.routes.intake.imports import import_routes, revisions_settled
from tests.conftest import own_database
from tests.domain.helpers import imported, pushed, route_row, status_and_reason, status_of
from tests.factories import DOT, Fleet, make_fleet
from tests.jobs import jobs_of
from tests.rows import rows_read


def test_a_route_whose_vehicle_and_driver_are_known_becomes_a_draft(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    row = route_row(connection, imported(connection, fleet.live, now=now))

    assert (row.status, row.vehicle_id, row.driver_id) == ("draft", fleet.trucks[0], fleet.drivers[0])
    assert (row.pending_reason, row.pending_detail, row.imported_at) == (None, None, now)


def test_holds_are_reported_in_order_and_resolved_one_after_the_other(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    route_id = imported(
        connection,
        fleet.live,
        now=now,
        start=now + timedelta(days=10),
        vehicle={"unitNumber": "new truck"},
        driver={"name": "new driver"},
    )
    assert status_and_reason(connection, route_id) == ("pending_mapping", "vehicle_unmapped")

    add_mapping(connection, fleet.company_id, "unit_number", "new truck", fleet.trucks[0], DOT)
    import_routes(connection, [route_id], now=now)
    assert status_and_reason(connection, route_id) == ("pending_mapping", "driver_unmapped")

    add_mapping(connection, fleet.company_id, "driver_name", "new driver", fleet.drivers[0], DOT)
    import_routes(connection, [route_id], now=now)
    assert status_and_reason(connection, route_id) == ("pending_window", "outside_import_window")

    import_routes(connection, [route_id], now=now + timedelta(days=4))
    assert status_and_reason(connection, route_id) == ("draft", None)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("unit_number", {"vehicle": {"unitNumber": "102"}}),
        ("vin", {"vehicle": {"vin": "1XKAD49X0CJ000102"}}),
        ("driver_name", {"driver": {"name": "Bo Diaz"}}),
        ("driver_external_id", {"driver": {"externalId": "D-2"}}),
    ],
)
def test_a_mapping_beats_the_stored_value(
    connection: Connection, fleet: Fleet, now: datetime, kind: MappingKind, body: dict[str, Any]
) -> None:
    target = fleet.trucks[0] if "vehicle" in body else fleet.drivers[0]
    add_mapping(connection, fleet.company_id, kind, next(iter(next(iter(body.values())).values())), target, DOT)

    row = route_row(connection, imported(connection, fleet.live, now=now, **body))

    assert target in (row.vehicle_id, row.driver_id)
    assert row.status == "draft"


@pytest.mark.parametrize(
    "vehicle",
    [
        {"unitNumber": "101", "vin": "1XKAD49X0CJ000102"},
        {"unitNumber": "101", "vin": "1XKAD49X0CJ999999"},
        {"unitNumber": "999", "vin": "1XKAD49X0CJ000101"},
    ],
)
def test_two_references_must_lead_to_the_same_vehicle(
    connection: Connection, fleet: Fleet, now: datetime, vehicle: dict[str, str]
) -> None:
    assert status_and_reason(connection, imported(connection, fleet.live, now=now, vehicle=vehicle)) == (
        "pending_mapping",
        "vehicle_unmapped",
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"vehicle": {"unitNumber": "101 "}}, "vehicle_unmapped"),
        ({"vehicle": {"unitNumber": "0101"}}, "vehicle_unmapped"),
        ({"vehicle": {"vin": "1xkad49x0cj000101"}}, "vehicle_unmapped"),
        ({"driver": {"name": "ann lee"}}, "driver_unmapped"),
        ({"driver": {"externalId": "d-1"}}, "driver_unmapped"),
    ],
)
def test_stored_values_compare_exactly(
    connection: Connection, fleet: Fleet, now: datetime, body: dict[str, Any], reason: str
) -> None:
    assert status_and_reason(connection, imported(connection, fleet.live, now=now, **body)) == (
        "pending_mapping",
        reason,
    )


def test_a_name_of_two_drivers_stays_unmapped_until_a_mapping_is_made(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    connection.execute(
        "INSERT INTO drivers (id, company_id, name) VALUES (%s, %s, 'Ann Lee')", (new_id(), fleet.company_id)
    )
    route_id = imported(connection, fleet.live, now=now)
    assert status_and_reason(connection, route_id) == ("pending_mapping", "driver_unmapped")

    add_mapping(connection, fleet.company_id, "driver_name", "Ann Lee", fleet.drivers[0], DOT)
    import_routes(connection, [route_id], now=now)
    assert route_row(connection, route_id).driver_id == fleet.drivers[0]


@pytest.mark.parametrize("body", [{"unitNumber": "theirs"}, {"vin": "1XKAD49X0CJ777777"}, {"unitNumber": "mapped"}])
def test_a_vehicle_of_another_company_never_matches(
    connection: Connection, fleet: Fleet, now: datetime, body: dict[str, str]
) -> None:
    other = make_fleet(connection)
    connection.execute(
        "UPDATE vehicles SET unit_number = 'theirs', vin = '1XKAD49X0CJ777777' WHERE id = %s", (other.trucks[0],)
    )
    add_mapping(connection, other.company_id, "unit_number", "mapped", other.trucks[0], DOT)

    row = route_row(connection, imported(connection, fleet.live, now=now, vehicle=body))

    assert (row.status, row.vehicle_id) == ("pending_mapping", None)


def test_a_driver_of_another_company_never_matches(connection: Connection, fleet: Fleet, now: datetime) -> None:
    other = make_fleet(connection)
    connection.execute(
        "UPDATE drivers SET name = 'Only Theirs', external_id = 'X-9' WHERE id = %s", (other.drivers[0],)
    )
    for reference in ({"name": "Only Theirs"}, {"externalId": "X-9"}):
        route_id = imported(connection, fleet.live, now=now, driver=reference)
        assert status_and_reason(connection, route_id) == ("pending_mapping", "driver_unmapped")


def test_a_value_cannot_be_mapped_to_a_record_of_another_company(connection: Connection, fleet: Fleet) -> None:
    other = make_fleet(connection)

    with pytest.raises(UnknownTarget):
        add_mapping(connection, fleet.company_id, "unit_number", "x", other.trucks[0], DOT)
    with pytest.raises(UnknownTarget):
        add_mapping(connection, fleet.company_id, "unit_number", "x", fleet.drivers[0], DOT)


def test_a_start_in_the_past_is_imported_as_a_draft(connection: Connection, fleet: Fleet, now: datetime) -> None:
    route_id = imported(connection, fleet.live, now=now, start=now - timedelta(days=3))

    assert status_of(connection, route_id) is RouteStatus.DRAFT


def test_the_window_is_the_company_s_own(connection: Connection, now: datetime) -> None:
    fleet = make_fleet(connection, import_window_days=0.5)

    near = imported(connection, fleet.live, now=now, start=now + timedelta(hours=12))
    far = imported(connection, fleet.live, now=now, start=now + timedelta(hours=13))

    assert status_of(connection, near) is RouteStatus.DRAFT
    assert status_and_reason(connection, far) == ("pending_window", "outside_import_window")


@pytest.mark.parametrize(("days", "words"), [(0.5, "0.5 days"), (1, "1 day"), (7, "7 days")])
def test_the_detail_names_the_window(connection: Connection, now: datetime, days: float, words: str) -> None:
    fleet = make_fleet(connection, import_window_days=days)

    route_id = imported(connection, fleet.live, now=now, start=now + timedelta(days=8))

    detail = route_row(connection, route_id).pending_detail
    assert detail is not None
    assert detail.startswith(f"The scheduled start is more than {words} ahead.")


def test_the_window_includes_its_last_moment(connection: Connection, now: datetime) -> None:
    fleet = make_fleet(connection, import_window_days=7)
    last = now + timedelta(days=7)

    at_the_edge = imported(connection, fleet.live, now=now, start=last)
    after_it = imported(connection, fleet.live, now=now, start=last + timedelta(microseconds=1))

    assert status_of(connection, at_the_edge) is RouteStatus.DRAFT
    assert status_of(connection, after_it) is RouteStatus.PENDING_WINDOW


def test_a_second_run_of_the_same_job_changes_nothing(connection: Connection, fleet: Fleet, now: datetime) -> None:
    ids = [
        pushed(connection, fleet.live, now=now, start=now),
        pushed(connection, fleet.live, now=now, start=now, vehicle={"unitNumber": "999"}),
        pushed(connection, fleet.live, now=now, start=now + timedelta(days=30)),
    ]
    import_routes(connection, ids, now=now)
    before = [route_row(connection, route_id) for route_id in ids]

    outcomes = import_routes(connection, [*ids, *ids, new_id()], now=now + timedelta(minutes=1))
    jobs = jobs_of(connection)

    assert [route_row(connection, route_id) for route_id in ids] == before
    assert {route_id: outcome.status for route_id, outcome in outcomes.items()} == {
        ids[1]: RouteStatus.PENDING_MAPPING,
        ids[2]: RouteStatus.PENDING_WINDOW,
    }
    assert jobs == []


def test_an_outcome_tells_which_input_was_imported(connection: Connection, fleet: Fleet, now: datetime) -> None:
    held: dict[str, Any] = {"externalId": "HELD", "vehicle": {"unitNumber": "999"}}
    route_id = pushed(connection, fleet.live, now=now, start=now, **held)
    assert pushed(connection, fleet.live, now=now, start=now, **held, driver={"name": "Bo Diaz"}) == route_id

    outcomes = import_routes(connection, [route_id], now=now)

    assert outcomes[route_id].revision == 2
    assert revisions_settled(connection, [route_id, new_id()]) == {}
    connection.execute("UPDATE routes SET status = 'draft' WHERE id = %s", (route_id,))
    assert revisions_settled(connection, [route_id, new_id()]) == {route_id: 2}


@pytest.mark.parametrize("status", ["draft", "planned", "active", "completed", "error", "canceled"])
def test_a_route_that_is_not_held_is_left_alone(
    connection: Connection, fleet: Fleet, now: datetime, status: str
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    connection.execute("UPDATE routes SET status = %s WHERE id = %s", (status, route_id))

    assert import_routes(connection, [route_id], now=now) == {}
    assert jobs_of(connection) == []
    assert status_of(connection, route_id) == status


def test_a_batch_mixes_companies_without_mixing_their_fleets(connection: Connection, now: datetime) -> None:
    fleets = [make_fleet(connection) for _ in range(3)]
    ids = {pushed(connection, fleet.live, now=now, start=now): fleet for fleet in fleets}

    import_routes(connection, list(ids), now=now)

    for route_id, fleet in ids.items():
        row = route_row(connection, route_id)
        assert (row.vehicle_id, row.driver_id) == (fleet.trucks[0], fleet.drivers[0])


def test_an_import_reads_by_key_also_before_the_first_statistics() -> None:
    with own_database("matching") as database:
        with database.transaction() as connection:
            fleet = make_fleet(connection)
            for insert in (
                "INSERT INTO companies (id, name) SELECT gen_random_uuid(), %s::text FROM generate_series(1, 500)",
                "INSERT INTO vehicles (id, company_id, unit_number)"
                " SELECT gen_random_uuid(), %s, 'T' || n FROM generate_series(1, 500) AS n",
                "INSERT INTO drivers (id, company_id, name, external_id)"
                " SELECT gen_random_uuid(), %s, 'Driver ' || n, 'E-' || n FROM generate_series(1, 500) AS n",
                "INSERT INTO routes (id, company_id, environment, external_id, scheduled_start, stops, status)"
                " SELECT gen_random_uuid(), %s, 'live', n::text, now(), '[]', 'draft'"
                " FROM generate_series(1, 500) AS n",
            ):
                connection.execute(insert, (fleet.company_id,))
        start = datetime.now(UTC)
        with database.pipelined_transaction() as connection:
            routes = [
                pushed(connection, fleet.live, now=start, start=start, driver={"name": f"Driver {n}"})
                for n in range(1, 21)
            ]

            outcomes = import_routes(connection, routes, now=start)

            assert {outcome.status for outcome in outcomes.values()} == {RouteStatus.DRAFT}
            read = rows_read(connection)
        tables = ("companies", "drivers", "routes", "mappings", "tracks")
        assert {table: read[table] for table in tables if read[table] >= 300} == {}
