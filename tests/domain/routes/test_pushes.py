"""Pushes and cancels on real PostgreSQL: batches, re-pushes, superseding, and two processes at once (decisions 4-6)."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from math import nextafter
from threading import Barrier
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.contract.shapes import RouteStopInput
from domain.database import SUPERSEDING_LOCKS, Connection, Database, Tenant
from domain.lifecycle import RouteStatus
from domain.queue.jobs import process_positions_job, review_plan_job
from domain.routes.events import Requester
from domain.routes.intake.imports import import_routes
from domain.routes.intake.pushes import Push, Pushed, store_pushes
from domain.routes.intake.updates import stops_that_stay
from domain.routes.plans import review_requests
from domain.routes.progress.dispatcher_entries import plan_again
from domain.routes.transitions import cancel_route, end_routes
from domain.settings import Settings
from tests.domain.helpers import (
    corrected_by_hand,
    deliver,
    imported,
    planned_by_hand,
    positions_at,
    post,
    pushed,
    route_row,
    status_of,
    visits_of,
)
from tests.domain.trucks import activate, stand_at
from tests.factories import JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet, route_input
from tests.rows import named

BOSTON = {"name": "Boston dock", "latitude": 42.361, "longitude": -71.057}


def push(connection: Connection, tenant: Tenant, *bodies: dict[str, Any], now: datetime) -> list[Pushed]:
    """These changes of a valid body as one batch."""
    return store_pushes(connection, [Push(tenant, route_input(now, **body)) for body in bodies], now=now)[0]


def effects(results: Sequence[Pushed]) -> list[str]:
    return [result.effect for result in results]


def open_routes(connection: Connection, tenant: Tenant) -> list[str]:
    rows = (
        named(connection)
        .execute(
            "SELECT external_id FROM routes WHERE company_id = %s AND environment = %s AND status <> 'canceled'"
            " ORDER BY external_id",
            tenant,
        )
        .fetchall()
    )
    return [row.external_id for row in rows]


def visit(connection: Connection, route_id: UUID, stop: int, arrived_at: datetime) -> None:
    connection.execute(
        "INSERT INTO visits (company_id, environment, route_id, stop, vehicle_id, arrived_at, arrival_evidence)"
        " SELECT company_id, environment, id, %s, vehicle_id, %s, '{}' FROM routes WHERE id = %s",
        (stop, arrived_at, route_id),
    )
    connection.execute("UPDATE routes SET arrived_at = least(arrived_at, %s) WHERE id = %s", (arrived_at, route_id))


# --- Batches ---------------------------------------------------------------------------------------------------


def test_a_push_is_stored_as_pending_and_not_attempted(connection: Connection, fleet: Fleet, now: datetime) -> None:
    row = route_row(connection, pushed(connection, fleet.live, now=now, start=now))

    assert (row.status, row.pending_reason) == ("pending", "not_attempted")
    assert row.retry_at == now + timedelta(seconds=10)


def test_the_same_external_id_several_times_in_a_batch_is_applied_in_order(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    load = {"externalId": "LOAD"}
    results = push(
        connection,
        fleet.live,
        {**load, "reference": "first"},
        {"externalId": "OTHER"},
        {**load, "reference": "first"},
        {**load, "reference": "second"},
        {**load, "reference": "third"},
        now=now,
    )

    assert effects(results) == ["create", "create", "unchanged", "replace", "replace"]
    assert len({result.route_id for result in results}) == 2
    assert route_row(connection, results[0].route_id).reference == "third"
    assert route_row(connection, results[0].route_id).revision == 3


def test_a_batch_mixes_creations_updates_repeats_and_refusals(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    for number in range(3):
        pushed(connection, fleet.live, now=now, start=now, externalId=f"LOAD-{number}")
    connection.execute(
        "UPDATE routes SET status = 'active' WHERE company_id = %s AND external_id = 'LOAD-2'", (fleet.company_id,)
    )

    results = push(
        connection,
        fleet.live,
        {"externalId": "LOAD-2", "reference": "changed"},
        {"externalId": "LOAD-1", "reference": "changed"},
        {"externalId": "NEW"},
        {"externalId": "LOAD-0"},
        now=now,
    )

    assert effects(results) == ["refuse", "replace", "create", "unchanged"]
    assert route_row(connection, results[0].route_id).reference is None


def test_tenants_and_environments_do_not_share_external_ids(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    other = make_fleet(connection)
    tenants = (fleet.live, fleet.sandbox, other.live, other.sandbox)

    results, _ = store_pushes(
        connection, [Push(tenant, route_input(now, externalId="LOAD")) for tenant in tenants], now=now
    )

    assert effects(results) == ["create"] * 4
    for tenant, result in zip(tenants, results, strict=True):
        row = route_row(connection, result.route_id)
        assert (row.company_id, row.environment) == tenant


def test_an_empty_batch_is_nothing(connection: Connection, now: datetime) -> None:
    assert store_pushes(connection, [], now=now) == ([], [])


# --- Pushing again ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", list(RouteStatus))
@pytest.mark.parametrize("changed", [False, True])
def test_what_a_second_push_does_depends_on_the_status(
    connection: Connection, fleet: Fleet, now: datetime, status: RouteStatus, changed: bool
) -> None:
    first = pushed(connection, fleet.live, now=now, start=now, externalId="LOAD")
    connection.execute("UPDATE routes SET status = %s WHERE id = %s", (status, first))

    (second,) = push(
        connection, fleet.live, {"externalId": "LOAD", **({"reference": "changed"} if changed else {})}, now=now
    )

    if status is RouteStatus.CANCELED:
        assert second.effect == "create"
        assert second.route_id != first
    elif status in (RouteStatus.ACTIVE, RouteStatus.COMPLETED):
        assert second == Pushed(first, "refuse")
        assert status_of(connection, first) is status
    elif changed or status is RouteStatus.ERROR:
        assert second == Pushed(first, "replace", revision=2)
        assert status_of(connection, first) is RouteStatus.PENDING
    else:
        assert second == Pushed(first, "unchanged")
        assert status_of(connection, first) is status


@pytest.mark.parametrize(
    "changes",
    [
        {"scheduledStart": "2026-03-01T08:00:00.000Z"},
        {"scheduledStart": "2026-03-01T09:00:00+01:00"},
        {"unknown": "fields are ignored"},
        {"reference": None},
        {"vehicle": {"unitNumber": "101", "vin": None}},
    ],
)
def test_the_same_content_written_differently_is_no_change(
    connection: Connection, fleet: Fleet, now: datetime, changes: dict[str, Any]
) -> None:
    body = {"externalId": "LOAD", "scheduledStart": "2026-03-01T08:00:00Z"}

    assert effects(push(connection, fleet.live, body, {**body, **changes}, now=now)) == ["create", "unchanged"]


@pytest.mark.parametrize(
    "changes",
    [
        {"scheduledStart": "2026-03-01T08:00:01Z"},
        {"reference": ""},
        {"vehicle": {"unitNumber": "102"}},
        {"driver": {"name": "Ann Lee", "externalId": "D-1"}},
        {"stops": [NEWARK, JOLIET]},
        {"stops": [JOLIET, {**NEWARK, "name": "Elsewhere"}]},
        {"stops": [JOLIET, {**NEWARK, "address": ""}]},
        {"stops": [JOLIET, {**NEWARK, "arrivalWindow": {"start": "2026-03-01T08:00:00Z"}}]},
    ],
)
def test_changed_content_starts_the_import_again(
    connection: Connection, fleet: Fleet, now: datetime, changes: dict[str, Any]
) -> None:
    body = {"externalId": "LOAD", "scheduledStart": "2026-03-01T08:00:00Z"}

    assert effects(push(connection, fleet.live, body, {**body, **changes}, now=now)) == ["create", "replace"]


@pytest.mark.parametrize("latitude", [41.462000000000003, 5e-324, 1e-7, -0.0, 90, -90.0, 1 / 3])
def test_the_same_coordinates_and_windows_are_no_change(
    connection: Connection, fleet: Fleet, now: datetime, latitude: float
) -> None:
    def body(latitude: float, start: str) -> dict[str, Any]:
        stop = {**JOLIET, "latitude": latitude, "arrivalWindow": {"start": start, "end": None}}
        return {"externalId": "LOAD", "stops": [stop, {**NEWARK, "arrivalWindow": {}}]}

    first, again = body(latitude, "2026-03-01T08:00:00.5Z"), body(latitude, "2026-03-01T02:00:00.500-06:00")
    later, beside = (
        body(latitude, "2026-03-01T02:00:00.51-06:00"),
        body(nextafter(latitude, 0.5), "2026-03-01T08:00:00Z"),
    )
    results = push(connection, fleet.live, first, again, later, beside, now=now)

    assert effects(results) == ["create", "unchanged", "replace", "replace"]


def test_an_update_discards_the_plan_and_its_message(connection: Connection, fleet: Fleet, now: datetime) -> None:
    route_id = imported(connection, fleet.live, now=now, externalId="LOAD")
    message_id = planned_by_hand(connection, route_id, now=now)

    push(connection, fleet.live, {"externalId": "LOAD", "reference": "changed"}, now=now)

    row = route_row(connection, route_id)
    assert (row.status, row.plan_id, row.vehicle_id, row.driver_id) == ("pending", None, None, None)
    (message,) = named(connection).execute("SELECT * FROM messages WHERE id = %s", (message_id,)).fetchall()
    assert (message.status, message.retry_at) == ("failed", None)


def test_after_a_cancel_the_same_external_id_is_a_fresh_route(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    first = pushed(connection, fleet.live, now=now, start=now, externalId="LOAD")
    cancel_route(connection, fleet.live, first, now=now)

    results = push(connection, fleet.live, {"externalId": "LOAD"}, {"externalId": "LOAD"}, now=now)

    assert effects(results) == ["create", "unchanged"]
    assert results[0].route_id != first


def test_a_route_that_is_begun_anew_has_its_reviews_before_it(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now, externalId="LOAD")
    stand_at(connection, settings, fleet, JOLIET, now)
    activate(connection, settings, route_id, now=now)
    correction = corrected_by_hand(connection, route_id, now=now)
    deliver(connection, correction, settings=settings, now=now)
    review_requests.after_new_prices(connection, fleet.company_id, now=now)
    connection.execute("UPDATE routes SET review_at = %s, review_cause = 'dispatcher' WHERE id = %s", (now, route_id))
    end_routes(connection, [route_id], "it broke down", now=now)

    push(connection, fleet.live, {"externalId": "LOAD"}, now=now)

    row = route_row(connection, route_id)
    assert (row.corrected_at, row.review_at, row.review_cause) == (None, None, None)
    import_routes(connection, [route_id], now=now)
    planned_by_hand(connection, route_id, now=now)
    assert plan_again(connection, fleet.live, route_id, Requester("ann@example.com", "prices"), now=now) == [
        review_plan_job(route_id)
    ]


# --- Superseding -----------------------------------------------------------------------------------------------


def test_without_superseding_a_load_may_come_back_beside_itself(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    push(connection, fleet.live, {"externalId": "A", "reference": "R"}, {"externalId": "B", "reference": "R"}, now=now)

    assert open_routes(connection, fleet.live) == ["A", "B"]


@pytest.fixture
def superseding(connection: Connection) -> Fleet:
    """A company that has superseding enabled."""
    return make_fleet(connection, superseding=True)


def test_the_older_route_of_a_reference_is_superseded(
    connection: Connection, superseding: Fleet, now: datetime
) -> None:
    old = imported(connection, superseding.live, now=now, externalId="A", reference="R")

    push(connection, superseding.live, {"externalId": "B", "reference": "R"}, now=now)

    row = route_row(connection, old)
    assert (row.status, row.closed_reason) == ("canceled", "Superseded by B")


def test_within_one_batch_the_last_of_a_reference_stays(
    connection: Connection, superseding: Fleet, now: datetime
) -> None:
    bodies = [{"externalId": name, "reference": "R"} for name in "DBCA"]

    results = push(connection, superseding.live, *bodies, now=now)

    assert effects(results) == ["create"] * 4
    assert open_routes(connection, superseding.live) == ["A"]


@pytest.mark.parametrize("status", list(RouteStatus))
def test_only_what_has_not_started_is_superseded(
    connection: Connection, superseding: Fleet, now: datetime, status: RouteStatus
) -> None:
    old = imported(connection, superseding.live, now=now, externalId="A", reference="R")
    connection.execute("UPDATE routes SET status = %s WHERE id = %s", (status, old))

    push(connection, superseding.live, {"externalId": "B", "reference": "R"}, now=now)

    gone = status not in (RouteStatus.ACTIVE, RouteStatus.COMPLETED, RouteStatus.ERROR)
    assert status_of(connection, old) is (RouteStatus.CANCELED if gone else status)


@pytest.mark.parametrize("reference", [None, "", "r", "R "])
def test_only_the_same_and_not_an_empty_reference_supersedes(
    connection: Connection, superseding: Fleet, now: datetime, reference: str | None
) -> None:
    for body in ({"externalId": "A", "reference": reference}, {"externalId": "B", "reference": "R"}):
        push(connection, superseding.live, body, now=now)
    push(connection, superseding.live, {"externalId": "C", "reference": reference}, now=now)

    expected = ["A", "B", "C"] if not reference else ["B", "C"]
    assert open_routes(connection, superseding.live) == expected


def test_superseding_stays_within_a_company_and_an_environment(
    connection: Connection, superseding: Fleet, now: datetime
) -> None:
    other = make_fleet(connection, superseding=True)
    push(connection, superseding.sandbox, {"externalId": "A", "reference": "R"}, now=now)
    push(connection, other.live, {"externalId": "A", "reference": "R"}, now=now)

    push(connection, superseding.live, {"externalId": "B", "reference": "R"}, now=now)

    assert open_routes(connection, superseding.sandbox) == ["A"]
    assert open_routes(connection, other.live) == ["A"]


def test_an_update_that_brings_a_reference_supersedes_like_a_push(
    connection: Connection, superseding: Fleet, now: datetime
) -> None:
    push(connection, superseding.live, {"externalId": "A", "reference": "R"}, {"externalId": "B"}, now=now)

    push(connection, superseding.live, {"externalId": "B", "reference": "R"}, now=now)

    assert open_routes(connection, superseding.live) == ["B"]


def test_a_superseded_route_frees_its_truck_for_the_next_one(
    connection: Connection, superseding: Fleet, now: datetime
) -> None:
    imported(connection, superseding.live, now=now, externalId="A", reference="R")
    imported(connection, superseding.live, now=now, externalId="NEXT", start=now + timedelta(hours=2))
    post(connection, superseding.live, positions_at(JOLIET, now - timedelta(minutes=5)), now=now)

    _, jobs = store_pushes(
        connection, [Push(superseding.live, route_input(now, externalId="B", reference="R"))], now=now
    )

    assert jobs == [process_positions_job("live", [superseding.trucks[0]])]


# --- Visits that outlast an update -----------------------------------------------------------------------------


def test_an_update_keeps_the_visits_of_the_stops_that_stay(connection: Connection, fleet: Fleet, now: datetime) -> None:
    stops = [JOLIET, PERRYSBURG, NEWARK]
    route_id = imported(connection, fleet.live, now=now, externalId="LOAD", stops=stops)
    visit(connection, route_id, 0, now)
    visit(connection, route_id, 1, now + timedelta(hours=4))

    push(connection, fleet.live, {"externalId": "LOAD", "stops": [JOLIET, BOSTON, PERRYSBURG, NEWARK]}, now=now)

    assert visits_of(connection, route_id) == {0: (now, None), 2: (now + timedelta(hours=4), None)}
    assert route_row(connection, route_id).arrived_at == now


def test_an_update_forgets_the_visits_of_the_stops_that_go(connection: Connection, fleet: Fleet, now: datetime) -> None:
    route_id = imported(connection, fleet.live, now=now, externalId="LOAD")
    visit(connection, route_id, 0, now)

    push(connection, fleet.live, {"externalId": "LOAD", "stops": [BOSTON, PERRYSBURG]}, now=now)

    assert visits_of(connection, route_id) == {}
    assert route_row(connection, route_id).arrived_at is None


def test_a_stop_that_gets_another_name_stays(connection: Connection, fleet: Fleet, now: datetime) -> None:
    route_id = imported(connection, fleet.live, now=now, externalId="LOAD")
    visit(connection, route_id, 0, now)

    push(connection, fleet.live, {"externalId": "LOAD", "stops": [{**JOLIET, "name": "Gate 4"}, NEWARK]}, now=now)

    assert visits_of(connection, route_id) == {0: (now, None)}


def test_an_updated_route_whose_truck_has_arrived_is_planned_again_after_its_import(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now, externalId="LOAD")
    visit(connection, route_id, 0, now)
    push(connection, fleet.live, {"externalId": "LOAD", "stops": [JOLIET, BOSTON]}, now=now)

    _, jobs = import_routes(connection, [route_id], now=now)

    assert [job.name for job in jobs] == ["plans.build"]


def test_a_visit_of_the_start_does_not_become_one_of_the_destination(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now, externalId="LOAD")
    visit(connection, route_id, 0, now)

    push(connection, fleet.live, {"externalId": "LOAD", "stops": [PERRYSBURG, JOLIET]}, now=now)

    assert 1 not in visits_of(connection, route_id)


places = st.sampled_from([RouteStopInput("stop", latitude, 0.0) for latitude in range(4)])
stop_lists = st.lists(places, max_size=6)


@hypothesis_settings(deadline=None)
@given(stop_lists, stop_lists)
def test_stops_that_stay_are_the_same_places_in_the_same_order(
    old: list[RouteStopInput], new: list[RouteStopInput]
) -> None:
    moves = stops_that_stay(old, new)

    assert list(moves) == sorted(moves)
    targets = list(moves.values())
    assert targets == sorted(set(targets))
    assert all(old[source] == new[target] for source, target in moves.items())


@hypothesis_settings(deadline=None)
@given(stop_lists, st.lists(st.tuples(st.integers(0, 6), st.integers(10, 19)), max_size=4))
def test_stops_that_are_only_added_to_all_stay(old: list[RouteStopInput], added: list[tuple[int, int]]) -> None:
    new = list(old)
    for position, latitude in added:
        new.insert(position, RouteStopInput("stop", latitude, 0.0))

    assert set(stops_that_stay(old, new)) == set(range(len(old)))
    assert stops_that_stay(old, old) == {position: position for position in range(len(old))}


# --- Cancels ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", list(RouteStatus))
def test_what_a_cancel_does_depends_on_the_status(
    connection: Connection, fleet: Fleet, now: datetime, status: RouteStatus
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    connection.execute("UPDATE routes SET status = %s WHERE id = %s", (status, route_id))

    effect, _ = cancel_route(connection, fleet.live, route_id, now=now)

    row = route_row(connection, route_id)
    if status in (RouteStatus.ACTIVE, RouteStatus.COMPLETED, RouteStatus.ERROR):
        assert (effect, row.status) == ("refuse", status)
    elif status is RouteStatus.CANCELED:
        assert (effect, row.status) == ("already_canceled", "canceled")
    else:
        assert (effect, row.status, row.closed_reason) == ("cancel", "canceled", "Canceled via API")
        assert (row.pending_reason, row.pending_detail, row.retry_at) == (None, None, None)


def test_nobody_cancels_a_route_of_another_company_or_environment(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)

    for tenant in (fleet.sandbox, make_fleet(connection).live):
        assert cancel_route(connection, tenant, route_id, now=now) == (None, [])
    assert status_of(connection, route_id) is RouteStatus.DRAFT


def test_a_cancel_discards_the_message_that_is_not_out_yet(connection: Connection, fleet: Fleet, now: datetime) -> None:
    route_id = imported(connection, fleet.live, now=now)
    message_id = planned_by_hand(connection, route_id, now=now)

    cancel_route(connection, fleet.live, route_id, now=now)

    (message,) = named(connection).execute("SELECT status, error FROM messages WHERE id = %s", (message_id,)).fetchall()
    assert message.status == "failed"
    assert "canceled" in message.error


# --- Two processes at once -------------------------------------------------------------------------------------


@pytest.fixture
def own_fleet(database: Database) -> Callable[..., Fleet]:
    """Makes a company that other connections can see."""

    def make(**policy: Any) -> Fleet:
        with database.transaction() as connection:
            return make_fleet(connection, **policy)

    return make


def at_once(database: Database, *work: Callable[[Connection], Any]) -> list[Any]:
    """Each in a transaction and a thread of its own, begun together."""
    barrier = Barrier(len(work))

    def run(one: Callable[[Connection], Any]) -> Any:
        with database.transaction() as connection:
            connection.execute("SELECT 1")
            barrier.wait(10)
            return one(connection)

    with ThreadPoolExecutor(len(work)) as threads:
        return list(threads.map(run, work))


@pytest.mark.parametrize("round_number", range(5))
def test_of_two_pushes_of_one_external_id_at_once_exactly_one_creates(
    database: Database, own_fleet: Callable[..., Fleet], now: datetime, round_number: int
) -> None:
    fleet = own_fleet()
    names = [f"LOAD-{number}" for number in range(20)]

    def pusher(order: Sequence[str], reference: str) -> Callable[[Connection], list[Pushed]]:
        bodies = [{"externalId": name, "reference": reference} for name in order]
        return lambda connection: push(connection, fleet.live, *bodies, now=now)

    one, other = at_once(database, pusher(names, "one"), pusher(names[::-1], "other"))

    by_name = [sorted(pair) for pair in zip(effects(one), effects(other[::-1]), strict=True)]
    assert by_name == [["create", "replace"]] * 20
    assert [result.route_id for result in one] == [result.route_id for result in other[::-1]]


def test_a_push_that_waited_for_another_is_compared_with_what_that_one_stored(
    database: Database, own_fleet: Callable[..., Fleet], now: datetime
) -> None:
    fleet = own_fleet()
    old, new = {"externalId": "LOAD", "reference": "old"}, {"externalId": "LOAD", "reference": "new"}
    with database.transaction() as connection:
        push(connection, fleet.live, old, now=now)

    def push_later(body: dict[str, Any]) -> list[str]:
        with database.transaction() as connection:
            return effects(push(connection, fleet.live, body, now=now))

    with ThreadPoolExecutor(1) as threads:
        for body, effect in (new, "unchanged"), (new, "replace"):
            with database.transaction() as connection:
                push(connection, fleet.live, new if effect == "unchanged" else old, now=now)
                waiting = threads.submit(push_later, body)
                while not connection.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall():
                    assert not waiting.done()
            assert waiting.result(10) == [effect]


@pytest.mark.parametrize("round_number", range(5))
def test_of_two_pushes_of_one_reference_at_once_exactly_one_stays_open(
    database: Database, own_fleet: Callable[..., Fleet], now: datetime, round_number: int
) -> None:
    fleet = own_fleet(superseding=True)

    def pusher(name: str) -> Callable[[Connection], list[Pushed]]:
        body = {"externalId": name, "reference": "R"}
        return lambda connection: push(connection, fleet.live, body, now=now)

    at_once(database, *(pusher(name) for name in "ABCD"))

    with database.transaction() as connection:
        assert len(open_routes(connection, fleet.live)) == 1


@pytest.mark.parametrize("round_number", range(5))
def test_batches_with_the_same_references_in_another_order_wait_for_one_another_and_never_deadlock(
    database: Database, own_fleet: Callable[..., Fleet], now: datetime, round_number: int
) -> None:
    fleet = own_fleet(superseding=True)

    def pusher(name: str, *references: str) -> Callable[[Connection], list[Pushed]]:
        bodies = [{"externalId": name, "reference": reference} for reference in references]
        return lambda connection: push(connection, fleet.live, *bodies, now=now)

    one, other = at_once(database, pusher("A", "R", "S"), pusher("B", "S", "R"))

    assert (effects(one), effects(other)) == (["create", "replace"], ["create", "replace"])


@pytest.mark.parametrize("repeated", [False, True])
def test_a_push_locks_the_older_route_before_its_own_as_imports_do(
    database: Database, own_fleet: Callable[..., Fleet], now: datetime, repeated: bool
) -> None:
    """Whoever locks several routes locks them in the order of their ids."""
    fleet = own_fleet(superseding=True)
    with database.transaction() as connection:
        older = imported(connection, fleet.live, now=now, externalId="A", reference="R")
        own = imported(connection, fleet.live, now=now, externalId="B")
    bodies = [{"externalId": "B", "reference": "S"}] * repeated + [{"externalId": "B", "reference": "R"}]

    def push_own() -> list[str]:
        with database.transaction() as connection:
            return effects(push(connection, fleet.live, *bodies, now=now))

    with ThreadPoolExecutor(1) as threads:
        with database.transaction() as importing:
            importing.execute("SELECT FROM routes WHERE id = %s FOR UPDATE", (older,))
            waiting = threads.submit(push_own)
            while not importing.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall():
                assert not waiting.done()
            importing.execute("SELECT FROM routes WHERE id = %s FOR UPDATE NOWAIT", (own,))
        assert waiting.result(10) == ["replace"] * len(bodies)

    with database.transaction() as connection:
        assert open_routes(connection, fleet.live) == ["B"]


@pytest.mark.parametrize("numbers", ["%(key)s::bigint", "0, %(key)s::bigint::bit(32)::int"])
def test_no_lock_outside_of_its_class_stops_a_push_whatever_its_reference(
    database: Database, own_fleet: Callable[..., Fleet], now: datetime, numbers: str
) -> None:
    """A caller can choose a reference that hashes to any number, such as that of the scheduler's lead."""
    fleet = own_fleet(superseding=True)
    with database.transaction() as holder, database.transaction() as connection:
        for hashed in ("hashtextextended(%(text)s, 0)", "hashtext(%(text)s)"):
            text = f"{fleet.company_id} live R"
            key = named(holder).execute(f"SELECT {hashed} AS key", {"text": text}).fetchall()[0].key
            holder.execute(f"SELECT pg_advisory_xact_lock({numbers})", {"key": key})
        connection.execute("SET LOCAL lock_timeout = '1s'")

        assert effects(push(connection, fleet.live, {"externalId": "A", "reference": "R"}, now=now)) == ["create"]

        held = (
            named(connection)
            .execute("SELECT classid, objsubid FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
            .fetchall()
        )
        assert held == [(SUPERSEDING_LOCKS, 2)]


def test_a_route_whose_message_waits_takes_an_update(
    database: Database, own_fleet: Callable[..., Fleet], now: datetime
) -> None:
    fleet = own_fleet()
    with database.transaction() as connection:
        route_id = imported(connection, fleet.live, now=now, externalId="LOAD")
        planned_by_hand(connection, route_id, now=now)

    with database.transaction() as connection:
        changed = {"externalId": "LOAD", "reference": "changed"}
        assert push(connection, fleet.live, changed, now=now) == [Pushed(route_id, "replace", revision=2)]
