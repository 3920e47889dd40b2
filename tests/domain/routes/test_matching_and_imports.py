"""From pushed to held or draft: the rules by themselves, then batches on real PostgreSQL (decisions 1 to 3)."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.database import Connection
from domain.fleet.matching import GivenReference, MappingKind, unclear_references, why_unclear
from domain.fleet.records import UnknownTarget
from domain.ids import new_id
from domain.lifecycle import RouteStatus
from domain.queue.jobs import import_routes_job
from domain.routes.intake import holds
from domain.routes.intake.failed_imports import record_failed_import
from domain.routes.intake.fleet_changes import add_mapping
from domain.routes.intake.imports import import_routes, revisions_settled
from tests.conftest import own_database
from tests.domain.helpers import imported, pushed, route_row, status_of
from tests.factories import Fleet, make_fleet
from tests.rows import rows_read

# --- The rules -------------------------------------------------------------------------------------------------

A, B, C = (UUID(int=number) for number in range(1, 4))

candidates = st.lists(st.sampled_from([A, B, C]), max_size=2, unique=True)
references = st.lists(
    st.builds(GivenReference, st.sampled_from(["unit number", "VIN"]), st.text(max_size=5), candidates),
    min_size=1,
    max_size=2,
)


@hypothesis_settings(deadline=None)
@given(references)
def test_references_are_clear_only_if_each_leads_to_the_same_one_record(
    given_references: Sequence[GivenReference],
) -> None:
    records = {tuple(reference.candidates) for reference in given_references}
    agreed = len(records) == 1 and len(records.pop()) == 1

    unclear = unclear_references(given_references)

    assert (unclear == []) is agreed
    assert agreed or why_unclear("vehicle", unclear)


def test_the_detail_names_the_reference_that_failed_and_what_to_do() -> None:
    unknown = why_unclear("vehicle", [GivenReference("VIN", "1XK", [])])
    ambiguous = why_unclear("driver", [GivenReference("name", "Ann Lee", [A, B])])
    different = why_unclear(
        "driver", [GivenReference("name", "Ann Lee", [A]), GivenReference("external id", "D-2", [B])]
    )

    assert "the VIN '1XK'" in unknown
    assert "map it in the vehicle matching screen" in unknown
    assert "'Ann Lee' fits more than one driver" in ambiguous
    assert "The name 'Ann Lee' and the external id 'D-2' lead to different drivers" in different


# --- One import attempt ----------------------------------------------------------------------------------------


def held(connection: Connection, route_id: UUID) -> tuple[str, str | None]:
    row = route_row(connection, route_id)
    return row.status, row.pending_reason


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
    assert held(connection, route_id) == ("pending_mapping", "vehicle_unmapped")

    add_mapping(connection, fleet.company_id, "unit_number", "new truck", fleet.trucks[0])
    import_routes(connection, [route_id], now=now)
    assert held(connection, route_id) == ("pending_mapping", "driver_unmapped")

    add_mapping(connection, fleet.company_id, "driver_name", "new driver", fleet.drivers[0])
    import_routes(connection, [route_id], now=now)
    assert held(connection, route_id) == ("pending_window", "outside_import_window")

    import_routes(connection, [route_id], now=now + timedelta(days=4))
    assert held(connection, route_id) == ("draft", None)


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
    add_mapping(connection, fleet.company_id, kind, next(iter(next(iter(body.values())).values())), target)

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
    assert held(connection, imported(connection, fleet.live, now=now, vehicle=vehicle)) == (
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
    assert held(connection, imported(connection, fleet.live, now=now, **body)) == ("pending_mapping", reason)


def test_a_name_of_two_drivers_is_unmapped_until_it_is_mapped(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    connection.execute(
        "INSERT INTO drivers (id, company_id, name) VALUES (%s, %s, 'Ann Lee')", (new_id(), fleet.company_id)
    )
    route_id = imported(connection, fleet.live, now=now)
    assert held(connection, route_id) == ("pending_mapping", "driver_unmapped")

    add_mapping(connection, fleet.company_id, "driver_name", "Ann Lee", fleet.drivers[0])
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
    add_mapping(connection, other.company_id, "unit_number", "mapped", other.trucks[0])

    row = route_row(connection, imported(connection, fleet.live, now=now, vehicle=body))

    assert (row.status, row.vehicle_id) == ("pending_mapping", None)


def test_a_driver_of_another_company_never_matches(connection: Connection, fleet: Fleet, now: datetime) -> None:
    other = make_fleet(connection)
    connection.execute(
        "UPDATE drivers SET name = 'Only Theirs', external_id = 'X-9' WHERE id = %s", (other.drivers[0],)
    )
    for reference in ({"name": "Only Theirs"}, {"externalId": "X-9"}):
        route_id = imported(connection, fleet.live, now=now, driver=reference)
        assert held(connection, route_id) == ("pending_mapping", "driver_unmapped")


def test_a_value_cannot_be_mapped_to_a_record_of_another_company(connection: Connection, fleet: Fleet) -> None:
    other = make_fleet(connection)

    with pytest.raises(UnknownTarget):
        add_mapping(connection, fleet.company_id, "unit_number", "x", other.trucks[0])
    with pytest.raises(UnknownTarget):
        add_mapping(connection, fleet.company_id, "unit_number", "x", fleet.drivers[0])


def test_a_start_in_the_past_is_imported_as_a_draft(connection: Connection, fleet: Fleet, now: datetime) -> None:
    route_id = imported(connection, fleet.live, now=now, start=now - timedelta(days=3))

    assert status_of(connection, route_id) is RouteStatus.DRAFT


def test_the_window_is_the_company_s_own(connection: Connection, now: datetime) -> None:
    fleet = make_fleet(connection, import_window_days=0.5)

    near = imported(connection, fleet.live, now=now, start=now + timedelta(hours=12))
    far = imported(connection, fleet.live, now=now, start=now + timedelta(hours=13))

    assert status_of(connection, near) is RouteStatus.DRAFT
    assert held(connection, far) == ("pending_window", "outside_import_window")


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

    outcomes, jobs = import_routes(connection, [*ids, *ids, new_id()], now=now + timedelta(minutes=1))

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

    outcomes, _ = import_routes(connection, [route_id], now=now)

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

    assert import_routes(connection, [route_id], now=now) == ({}, [])
    assert status_of(connection, route_id) == status


def test_a_batch_mixes_companies_without_mixing_their_fleets(connection: Connection, now: datetime) -> None:
    fleets = [make_fleet(connection) for _ in range(3)]
    ids = {pushed(connection, fleet.live, now=now, start=now): fleet for fleet in fleets}

    import_routes(connection, list(ids), now=now)

    for route_id, fleet in ids.items():
        row = route_row(connection, route_id)
        assert (row.vehicle_id, row.driver_id) == (fleet.trucks[0], fleet.drivers[0])


# --- Attempts that fail ----------------------------------------------------------------------------------------


def test_a_failed_attempt_is_retried_with_backoff_and_the_last_one_is_an_error(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    route_id = pushed(connection, fleet.live, now=now, start=now)
    waits = []
    for _ in range(3):
        outcome, _ = record_failed_import(connection, route_id, max_attempts=4, now=now)
        assert outcome is not None
        assert outcome.status is RouteStatus.PENDING
        row = route_row(connection, route_id)
        assert row.pending_reason == "error"
        waits.append((row.retry_at - now).total_seconds())

    assert waits == [10, 20, 40]
    last, _ = record_failed_import(connection, route_id, max_attempts=4, now=now)
    assert last is not None
    assert last.status is RouteStatus.ERROR
    row = route_row(connection, route_id)
    assert (row.pending_reason, row.pending_detail, row.retry_at) == (None, None, None)
    assert "4 times" in row.closed_reason
    assert record_failed_import(connection, route_id, max_attempts=4, now=now) == (None, [])


def test_an_attempt_that_succeeds_forgets_the_failed_ones(connection: Connection, fleet: Fleet, now: datetime) -> None:
    route_id = pushed(connection, fleet.live, now=now, start=now + timedelta(days=30))
    record_failed_import(connection, route_id, max_attempts=8, now=now)

    import_routes(connection, [route_id], now=now)

    row = route_row(connection, route_id)
    assert (row.status, row.attempts, row.retry_at) == ("pending_window", 0, None)


def test_the_backoff_is_capped_at_a_quarter_of_an_hour(connection: Connection, fleet: Fleet, now: datetime) -> None:
    route_id = pushed(connection, fleet.live, now=now, start=now)
    for _ in range(12):
        record_failed_import(connection, route_id, max_attempts=100, now=now)

    assert route_row(connection, route_id).retry_at == now + timedelta(minutes=15)


# --- The passes ------------------------------------------------------------------------------------------------


def test_the_pass_finds_every_held_route_that_can_move_and_beside_them_only_ambiguous_ones(
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
    add_mapping(connection, fleet.company_id, "unit_number", "mapped", fleet.trucks[0])
    add_mapping(connection, fleet.company_id, "driver_external_id", "mapped", fleet.drivers[0])
    later = now + timedelta(days=3)

    found = holds.routes_that_can_move(connection, now=later)

    before = {route_id: held(connection, route_id) for route_id in ids}
    import_routes(connection, ids, now=later)
    moved = {route_id for route_id in ids if held(connection, route_id) != before[route_id]}
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


def test_a_mapping_imports_at_once_what_waited_for_its_value(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    waiting = [
        imported(connection, tenant, now=now, start=now + timedelta(hours=hour), vehicle={"unitNumber": "new"})
        for hour, tenant in ((2, fleet.live), (1, fleet.sandbox))
    ]
    imported(connection, fleet.live, now=now, vehicle={"unitNumber": "other"})
    other = make_fleet(connection)
    imported(connection, other.live, now=now, vehicle={"unitNumber": "new"})

    count, jobs = add_mapping(connection, fleet.company_id, "unit_number", "new", fleet.trucks[1])

    assert count == 2
    assert jobs == [import_routes_job(waiting[::-1])]


def test_a_mapping_made_again_replaces_the_one_before(connection: Connection, fleet: Fleet, now: datetime) -> None:
    for truck in fleet.trucks:
        add_mapping(connection, fleet.company_id, "unit_number", "unit", truck)

    row = route_row(connection, imported(connection, fleet.live, now=now, vehicle={"unitNumber": "unit"}))

    assert row.vehicle_id == fleet.trucks[1]


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
        with database.transaction_by_key() as connection:
            routes = [
                pushed(connection, fleet.live, now=start, start=start, driver={"name": f"Driver {n}"})
                for n in range(1, 21)
            ]

            outcomes, _ = import_routes(connection, routes, now=start)

            assert {outcome.status for outcome in outcomes.values()} == {RouteStatus.DRAFT}
            read = rows_read(connection)
        tables = ("companies", "drivers", "routes", "mappings", "tracks")
        assert {table: read[table] for table in tables if read[table] >= 300} == {}
