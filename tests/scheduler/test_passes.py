"""Each pass finds what is due in the database and asks for it once; a Redis that forgets everything loses nothing."""

from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID

import msgspec
import pytest
from psycopg.errors import LockNotAvailable

from domain.accounts.companies import retire_company
from domain.database.connections import Connection
from domain.lifecycle import Environment, RouteStatus
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import QUEUES, build_plan_job
from domain.queue.redis_clients import redis_client
from domain.replay.replays import CHAINS
from domain.routes.intake import retiring
from domain.routes.intake.fleet_changes import add_mapping
from domain.routes.plans import first_plan, review_requests
from domain.routes.progress.tracking import process_vehicles
from domain.settings import Settings
from domain.stations.price_sets import begin_price_set
from domain.webhooks.delivery_log import send_test
from scheduler.passes import Passes
from tests.domain.helpers import imported, planned_by_hand, positions_at, post, pushed, status_of
from tests.domain.replay.driven import ask_for_replay
from tests.domain.webhooks.endpoints import make_endpoint
from tests.factories import DOT, JOLIET, Fleet, make_fleet
from tests.rows import named
from tests.scheduler.jobs import Enqueued, in_transaction


def test_nothing_is_enqueued_when_nothing_is_due(passes: Passes, enqueued: Enqueued) -> None:
    passes.import_pass()
    passes.sweep()
    passes.housekeeping()

    assert enqueued() == []


def test_the_import_pass_enqueues_held_routes_that_can_move_and_expires_old_ones(
    passes: Passes, enqueued: Enqueued, now: datetime
) -> None:
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        unknown = {"unitNumber": "new"}
        mapped = imported(connection, fleet.live, now=now, vehicle=unknown)
        imported(connection, fleet.live, now=now, vehicle={"unitNumber": "never"})
        entered = imported(connection, fleet.live, now=now - timedelta(days=3), start=now + timedelta(days=6))
        imported(connection, fleet.live, now=now, start=now + timedelta(days=8))
        old = imported(connection, fleet.live, now=now, start=now - timedelta(days=8), vehicle=unknown)
        add_mapping(connection, fleet.company_id, "unit_number", "new", fleet.trucks[0], DOT)

    passes.import_pass()

    ((name, payload),) = enqueued()
    assert name == "imports.run"
    assert sorted(payload["route_ids"]) == sorted([mapped.hex, entered.hex])
    assert in_transaction(passes, lambda connection: status_of(connection, old)) is RouteStatus.ERROR


def test_locked_routes_do_not_stop_a_pass_from_handling_the_others(
    passes: Passes, enqueued: Enqueued, now: datetime
) -> None:
    long_ago = now - timedelta(days=30)
    with passes.database.transaction() as connection:
        one, other = make_fleet(connection), make_fleet(connection)
        held, expired = (
            imported(connection, fleet.live, now=now, start=long_ago, vehicle={"unitNumber": "never"})
            for fleet in (one, other)
        )
        entered = imported(connection, one.live, now=now - timedelta(days=3), start=now + timedelta(days=6))
        gone = make_fleet(connection)
        of_gone_truck = imported(connection, one.live, now=now, vehicle={"unitNumber": "102"})
        of_gone_company = imported(connection, gone.live, now=now)
        connection.execute("UPDATE vehicles SET retired_at = %s WHERE id = %s", (now, one.trucks[1]))
        retire_company(connection, gone.company_id, DOT, now=now)
        stuck, dead = (imported(connection, fleet.live, now=now) for fleet in (one, other))
        connection.execute(
            "UPDATE routes SET status = 'active', imported_at = %s WHERE id = ANY(%s)", (long_ago, [stuck, dead])
        )

    with passes.database.transaction() as holder:
        holder.execute(
            "SELECT FROM routes WHERE id = ANY(%s) FOR UPDATE", ([held, stuck, of_gone_truck, of_gone_company],)
        )
        passes.import_pass()
        passes.housekeeping()

    assert [payload["route_ids"] for _, payload in enqueued()] == [[entered.hex]]
    with passes.database.transaction() as connection:
        statuses = {route_id: status_of(connection, route_id) for route_id in (held, expired, stuck, dead)}
    assert statuses == {
        held: RouteStatus.PENDING_MAPPING,
        expired: RouteStatus.ERROR,
        stuck: RouteStatus.ACTIVE,
        dead: RouteStatus.ERROR,
    }


def test_the_sweep_enqueues_every_kind_of_lost_work(
    passes: Passes, enqueued: Enqueued, now: datetime, quiet: Settings
) -> None:
    ago = now - timedelta(minutes=1)
    with passes.database.transaction() as connection:
        pending_fleet, track_fleet, plan_fleet, message_fleet = (make_fleet(connection) for _ in range(4))
        pushed(connection, pending_fleet.live, now=ago, start=now)
        imported(connection, track_fleet.live, now=ago)
        post(connection, track_fleet.live, positions_at(JOLIET, ago), now=ago)
        planless = arrived(connection, plan_fleet, quiet, ago)
        message = planned_by_hand(connection, imported(connection, message_fleet.live, now=ago), now=ago)
        for company_id in (None, plan_fleet.company_id):
            begin_price_set(connection, "deals", company_id, now=ago)

    passes.sweep()

    assert enqueued() == sorted(
        [
            ("imports.due", {"portion": 0, "company_id": pending_fleet.company_id.hex}),
            ("arrivals.process", {"environment": "live", "vehicle_ids": [track_fleet.trucks[0].hex]}),
            ("plans.build", {"route_id": planless.hex}),
            ("plans.after_prices", {"company_id": None}),
            ("plans.after_prices", {"company_id": plan_fleet.company_id.hex}),
            ("messages.send", {"message_id": message.hex}),
        ],
        key=str,
    )


def arrived(connection: Connection, fleet: Fleet, settings: Settings, moment: datetime) -> UUID:
    """A draft whose truck has arrived, and whose plan is due."""
    route_id = imported(connection, fleet.live, now=moment)
    post(connection, fleet.live, positions_at(JOLIET, moment), now=moment)
    process_vehicles(connection, Environment.LIVE, fleet.trucks, settings=settings, now=moment)
    return route_id


def test_due_work_is_enqueued_once_however_long_all_workers_are_away(
    passes: Passes, enqueued: Enqueued, now: datetime, quiet: Settings
) -> None:
    ago = now - timedelta(minutes=1)
    with passes.database.transaction() as connection:
        pushed(connection, make_fleet(connection).live, now=ago, start=now)
        track_fleet = make_fleet(connection)
        imported(connection, track_fleet.live, now=ago)
        post(connection, track_fleet.live, positions_at(JOLIET, ago), now=ago)
        arrived(connection, make_fleet(connection), quiet, ago)
        reviewed = arrived(connection, make_fleet(connection), quiet, ago)
        connection.execute("UPDATE routes SET status = 'planned', review_at = %s WHERE id = %s", (ago, reviewed))
        planned_by_hand(connection, imported(connection, make_fleet(connection).live, now=ago), now=ago)
        begin_price_set(connection, "deals", track_fleet.company_id, now=ago)
        held_fleet = make_fleet(connection)
        imported(connection, held_fleet.live, now=now, vehicle={"unitNumber": "new"})
        add_mapping(connection, held_fleet.company_id, "unit_number", "new", held_fleet.trucks[0], DOT)

    for _ in range(5):
        passes.import_pass()
        passes.sweep()
        with passes.database.transaction() as connection:
            a_minute_passes(connection)

    assert sorted(name for name, _ in enqueued()) == [
        "arrivals.process",
        "imports.due",
        "imports.run",
        "messages.send",
        "plans.after_prices",
        "plans.build",
        "plans.review",
    ]


def a_minute_passes(connection: Connection) -> None:
    """Moves all times of due work back by a minute."""
    for table, column in (
        ("routes", "retry_at"),
        ("routes", "review_at"),
        ("price_sets", "reviews_due_at"),
        ("messages", "retry_at"),
        ("tracks", "unprocessed_since"),
    ):
        connection.execute(f"UPDATE {table} SET {column} = {column} - interval '1 minute'")


def test_the_sweep_does_not_repeat_a_job_that_waits(
    passes: Passes, enqueued: Enqueued, now: datetime, quiet: Settings
) -> None:
    ago = now - timedelta(minutes=1)
    with passes.database.transaction() as connection:
        route_id = arrived(connection, make_fleet(connection), quiet, ago)
    passes.jobs.put(build_plan_job(route_id))

    passes.sweep()

    assert enqueued() == [("plans.build", {"route_id": route_id.hex})]


def test_the_sweep_leaves_fresh_work_to_its_own_job(passes: Passes, enqueued: Enqueued, now: datetime) -> None:
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        pushed(connection, fleet.live, now=now + timedelta(seconds=60), start=now)

    passes.sweep()

    assert enqueued() == []


def test_a_large_backlog_is_taken_by_several_jobs(passes: Passes, enqueued: Enqueued, now: datetime) -> None:
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        one = pushed(connection, fleet.live, now=now - timedelta(minutes=1), start=now)
        connection.execute(
            "INSERT INTO routes (id, company_id, environment, external_id, vehicle_unit_number, driver_name,"
            " scheduled_start, stops, status, pending_reason, retry_at)"
            " SELECT gen_random_uuid(), company_id, environment, external_id || n, vehicle_unit_number, driver_name,"
            " scheduled_start, stops, status, pending_reason, retry_at FROM routes, generate_series(1, 599) AS n"
            " WHERE id = %s",
            (one,),
        )

    passes.sweep()

    company = fleet.company_id.hex
    assert enqueued() == [("imports.due", {"portion": portion, "company_id": company}) for portion in range(3)], (
        "of 256 routes each"
    )


def test_the_import_pass_closes_new_routes_of_a_retired_company(
    passes: Passes, enqueued: Enqueued, now: datetime
) -> None:
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        late = imported(connection, fleet.live, now=now, vehicle={"unitNumber": "101"})
        retire_company(connection, fleet.company_id, DOT, now=now)

    passes.import_pass()

    assert in_transaction(passes, lambda connection: status_of(connection, late)) is RouteStatus.CANCELED
    assert enqueued() == []


def test_one_import_pass_closes_all_that_a_broken_off_retirement_has_left(
    passes: Passes, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retiring, "_PORTION", 2)
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        left = [imported(connection, fleet.live, now=now) for _ in range(5)]
        retire_company(connection, fleet.company_id, DOT, now=now)

    passes.import_pass()

    statuses = in_transaction(passes, lambda connection: {status_of(connection, route_id) for route_id in left})
    assert statuses == {RouteStatus.CANCELED}


def test_the_import_pass_matches_new_routes_of_a_retired_vehicle_again(
    passes: Passes, enqueued: Enqueued, now: datetime
) -> None:
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        late = imported(connection, fleet.live, now=now)
        connection.execute("UPDATE vehicles SET retired_at = %s WHERE id = %s", (now, fleet.trucks[0]))

    passes.import_pass()

    assert enqueued() == [("imports.run", {"route_ids": [late.hex], "reply_to": None})]


@pytest.mark.parametrize("retired", ["vehicle", "company"])
def test_a_locked_route_of_a_retired_record_stops_no_other_import(
    passes: Passes, enqueued: Enqueued, now: datetime, retired: str
) -> None:
    with passes.database.transaction() as connection:
        fleet, other = make_fleet(connection), make_fleet(connection)
        held = imported(connection, fleet.live, now=now)
        entered = imported(connection, other.live, now=now - timedelta(days=3), start=now + timedelta(days=6))
        if retired == "vehicle":
            connection.execute("UPDATE vehicles SET retired_at = %s WHERE id = %s", (now, fleet.trucks[0]))
        else:
            retire_company(connection, fleet.company_id, DOT, now=now)

    with passes.database.transaction() as holder:
        holder.execute("SELECT FROM routes WHERE id = %s FOR UPDATE", (held,))
        with suppress(LockNotAvailable):
            passes.import_pass()

    assert [payload["route_ids"] for _, payload in enqueued()] == [[entered.hex]]


def test_passes_without_redis_go_on_and_due_work_stays_due(passes: Passes, enqueued: Enqueued, now: datetime) -> None:
    with passes.database.transaction() as connection:
        pending = pushed(connection, make_fleet(connection).live, now=now - timedelta(minutes=5), start=now)
    away = JobQueue(redis_client("redis://127.0.0.1:9/0"))

    Passes(passes.settings, passes.database, away).sweep()

    assert enqueued() == []
    with passes.database.transaction() as connection:
        (row,) = named(connection).execute("SELECT retry_at FROM routes WHERE id = %s", (pending,)).fetchall()
    assert row.retry_at < now + timedelta(minutes=2)


def test_jobs_of_the_sweep_wait_in_the_backlog_of_their_company(
    passes: Passes, enqueued: Enqueued, now: datetime, quiet: Settings
) -> None:
    ago = now - timedelta(minutes=1)
    with passes.database.transaction() as connection:
        fleets = {queue: make_fleet(connection) for queue in QUEUES}
        pushed(connection, fleets["imports"].live, now=ago, start=now)
        imported(connection, fleets["arrivals"].live, now=ago)
        post(connection, fleets["arrivals"].live, positions_at(JOLIET, ago), now=ago)
        arrived(connection, fleets["plans"], quiet, ago)
        planned_by_hand(connection, imported(connection, fleets["messages"].live, now=ago), now=ago)
        endpoint = make_endpoint(connection, fleets["webhooks"].live).endpoint
        send_test(connection, endpoint.company_id, endpoint.id, DOT, now=ago)
        ask_for_replay(connection, fleets["replays"], now=ago)

    passes.sweep()

    for queue, fleet in fleets.items():
        messages = passes.jobs.client.hvals(f"dramatiq:{queue}.msgs")
        companies = [msgspec.json.decode(message)["options"]["company_id"] for message in messages]
        assert companies == [fleet.company_id.hex] * (CHAINS if queue == "replays" else 1)
    assert len(enqueued()) == len(QUEUES) - 1 + CHAINS


def test_due_work_of_one_company_does_not_hide_another_s(passes: Passes, now: datetime) -> None:
    """However much is due, and however long: each company's first comes before any company's second."""
    with passes.database.transaction() as connection:
        much, little = make_fleet(connection), make_fleet(connection)
        routes: dict[UUID, list[UUID]] = {}
        for fleet, ago, count in ((much, 10, 30), (little, 2, 1)):
            due = now - timedelta(minutes=ago)
            routes[fleet.company_id] = [
                imported(connection, fleet.live, now=due, externalId=f"{n}") for n in range(count)
            ]
            connection.execute(
                "UPDATE routes SET arrived_at = %(due)s, retry_at = %(due)s, review_at = %(due)s"
                " WHERE company_id = %(company)s",
                {"due": due, "company": fleet.company_id},
            )
        plans = first_plan.due_plans(connection, now=now, limit=2)
        reviews = review_requests.due_reviews(connection, now=now, limit=2)

    (hidden,) = routes[little.company_id]
    assert plans[hidden] == reviews[hidden] == little.company_id
    assert len(plans) == len(reviews) == 2
