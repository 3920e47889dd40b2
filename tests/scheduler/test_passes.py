"""Each pass finds what is due in the database and asks for it once; a Redis that forgets everything loses nothing."""

import base64
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from psycopg.errors import LockNotAvailable
from pydantic import SecretStr

from deploy.embedded import EmbeddedRedis, running
from domain.accounts.companies import retire_company
from domain.database import Connection, Database
from domain.database_options import SERVING
from domain.lifecycle import Environment, RouteStatus
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import QUEUES, build_plan_job
from domain.queue.redis_clients import redis_client
from domain.routes.intake.fleet_changes import add_mapping
from domain.routes.plans import first_plan, review_requests
from domain.routes.progress.tracking import process_vehicles
from domain.settings import Settings
from domain.telematics.position_partitions import maintain_partitions
from scheduler.passes import Passes
from tests.conftest import make_database
from tests.domain.helpers import imported, planned_by_hand, positions_at, post, pushed, status_of
from tests.domain.requests.entries import entry_of, new_caller, store
from tests.factories import JOLIET, Fleet, make_fleet
from tests.rows import named
from tests.service import eventually


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(EmbeddedRedis(Path(tmp_path_factory.mktemp("redis")), durable=False)) as url:
        yield url


@pytest.fixture(scope="module")
def quiet(settings: Settings, redis_url: str) -> Settings:
    """The settings of a database and a Redis that no other scheduler or worker touches."""
    return settings.model_copy(
        update={"database_url": make_database("passes"), "redis_url": redis_url, "data": Path("nowhere")}
    )


@pytest.fixture
def passes(quiet: Settings) -> Iterator[Passes]:
    with Database.of(quiet) as database, redis_client(quiet.require_redis_url()) as client:
        client.flushdb()
        with database.transaction() as connection:
            connection.execute(
                "TRUNCATE messages, visits, plans, routes, positions, tracks, mappings, dropped_fixes, drivers,"
                " vehicles, companies CASCADE"
            )
        yield Passes(quiet, database, JobQueue(client))


Enqueued = Callable[[], list[tuple[str, dict[str, Any]]]]


@pytest.fixture
def enqueued(passes: Passes) -> Enqueued:
    """The jobs that the passes have put into Redis since the last call: names and payloads."""

    def look() -> list[tuple[str, dict[str, Any]]]:
        client = passes.jobs.client
        found = []
        for queue in QUEUES:
            messages: dict[bytes, bytes] = client.hgetall(f"dramatiq:{queue}.msgs")  # type: ignore[assignment]
            for body in messages.values():
                message = msgspec.json.decode(body)
                found.append((message["actor_name"], message["kwargs"]))
        client.flushdb()
        return sorted(found, key=str)

    return look


def in_transaction(passes: Passes, arrange: Callable[[Connection], Any]) -> Any:
    with passes.database.transaction() as connection:
        return arrange(connection)


def test_when_nothing_is_due_nothing_is_enqueued(passes: Passes, enqueued: Enqueued) -> None:
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
        add_mapping(connection, fleet.company_id, "unit_number", "new", fleet.trucks[0])

    passes.import_pass()

    ((name, payload),) = enqueued()
    assert name == "imports.run"
    assert sorted(payload["route_ids"]) == sorted([mapped.hex, entered.hex])
    assert in_transaction(passes, lambda connection: status_of(connection, old)) is RouteStatus.ERROR


def test_locked_routes_do_not_keep_a_pass_from_the_others(passes: Passes, enqueued: Enqueued, now: datetime) -> None:
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
        retire_company(connection, gone.company_id, now=now)
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


def test_the_sweep_finds_every_kind_of_lost_work(
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

    passes.sweep()

    assert enqueued() == sorted(
        [
            ("imports.due", {"portion": 0, "company_id": pending_fleet.company_id.hex}),
            ("arrivals.process", {"environment": "live", "vehicle_ids": [track_fleet.trucks[0].hex]}),
            ("plans.build", {"route_id": planless.hex}),
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


def test_with_all_workers_away_each_thing_due_is_one_job_however_long_it_lasts(
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
        held_fleet = make_fleet(connection)
        imported(connection, held_fleet.live, now=now, vehicle={"unitNumber": "new"})
        add_mapping(connection, held_fleet.company_id, "unit_number", "new", held_fleet.trucks[0])

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
        "plans.build",
        "plans.review",
    ]


def a_minute_passes(connection: Connection) -> None:
    """Moves all times of due work back by a minute."""
    for table, column in (
        ("routes", "retry_at"),
        ("routes", "review_at"),
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


def test_fresh_work_is_left_to_its_own_job(passes: Passes, enqueued: Enqueued, now: datetime) -> None:
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


def test_housekeeping_forgets_old_positions_and_frees_trucks_of_dead_routes(
    passes: Passes, now: datetime, quiet: Settings
) -> None:
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        post(connection, fleet.live, positions_at(JOLIET, now - timedelta(days=31)), now=now)
        post(connection, fleet.live, positions_at(JOLIET, now - timedelta(days=1)), now=now)
        dead, living = (imported(connection, fleet.live, now=now) for _ in range(2))
        for route_id, days in ((dead, 15), (living, 13)):
            connection.execute(
                "UPDATE routes SET status = 'active', imported_at = %s WHERE id = %s",
                (now - timedelta(days=days), route_id),
            )

    passes.housekeeping()

    with passes.database.transaction() as connection:
        assert status_of(connection, dead) is RouteStatus.ERROR
        assert status_of(connection, living) is RouteStatus.ACTIVE
        (row,) = named(connection).execute("SELECT count(*) AS count FROM positions").fetchall()
    assert row.count == 3


def test_housekeeping_forgets_old_requests_and_makes_room_for_the_next(
    passes: Passes, now: datetime, quiet: Settings
) -> None:
    with passes.database.transaction() as connection:
        caller = new_caller(connection, make_fleet(connection).company_id)
        moments = [now - timedelta(days=8), now - timedelta(days=6), now]
        store(connection, [entry_of(caller=caller, at=moment) for moment in moments])

    passes.housekeeping()

    with passes.database.transaction() as connection:
        tomorrow = entry_of(caller=caller, at=now + timedelta(days=1))
        store(connection, [tomorrow])
        rows = connection.execute(
            "SELECT id, tableoid::regclass::text FROM request_log WHERE key_id = %s ORDER BY id", (caller.key_id,)
        ).fetchall()
    assert len(rows) == 3
    assert (rows[-1][0].hex, rows[-1][1]) == (tomorrow.id, f"request_log_{now + timedelta(days=1):%Y%m%d}")


def test_a_table_that_housekeeping_waits_for_is_no_reason_to_refuse_positions(
    passes: Passes, quiet: Settings, now: datetime
) -> None:
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        long_ago = now - timedelta(days=40)
        maintain_partitions(connection, retention_days=30, now=long_ago)
        post(connection, fleet.sandbox, positions_at(JOLIET, long_ago), now=long_ago)

    with (
        Database.of(quiet, SERVING) as serving,
        ThreadPoolExecutor(1) as threads,
        passes.database.transaction() as observer,
        passes.database.transaction() as reader,
    ):
        reader.execute("SELECT FROM positions")
        housekeeping = threads.submit(passes.housekeeping)
        eventually(lambda: observer.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount, bool)
        with serving.transaction() as connection:
            assert post(connection, fleet.live, positions_at(JOLIET, now), now=now).accepted == 3
        with pytest.raises(LockNotAvailable):
            housekeeping.result()
    with passes.database.transaction() as connection:
        old = named(connection).execute("SELECT FROM positions WHERE environment = 'sandbox'").rowcount
    assert old == 0  # what needs no such lock is done all the same


def test_housekeeping_forgets_old_data_of_finished_routes_in_portions(
    passes: Passes, now: datetime, quiet: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.passes._PORTION", 2)
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        for days_ago in (91, 91, 91, 366, 0):
            recent = imported(connection, fleet.live, now=now)
            ended = now - timedelta(days=days_ago)
            route_id = UUID(f"{int(ended.timestamp() * 1000):012x}{recent.hex[12:]}")  # as if it was pushed then
            connection.execute("UPDATE routes SET id = %s WHERE id = %s", (route_id, recent))
            planned_by_hand(connection, route_id, now=now)
            connection.execute("UPDATE messages SET status = 'sent' WHERE route_id = %s", (route_id,))
            connection.execute("UPDATE plans SET explanation = %s WHERE route_id = %s", (b"packed", route_id))
            connection.execute(
                "UPDATE routes SET status = 'completed', updated_at = %s WHERE id = %s", (ended, route_id)
            )

    passes.housekeeping()
    assert in_transaction(passes, count_of("messages", "text IS NOT NULL")) == 1
    assert in_transaction(passes, count_of("plans", "explanation IS NOT NULL")) == 1
    assert in_transaction(passes, count_of("routes", "true")) == 5

    keeping_a_year = passes.settings.model_copy(update={"route_retention_days": 365})
    Passes(keeping_a_year, passes.database, passes.jobs).housekeeping()
    assert in_transaction(passes, count_of("routes", "true")) == 4


def count_of(table: str, condition: str) -> Callable[[Connection], int]:
    return lambda connection: named(connection).execute(f"SELECT FROM {table} WHERE {condition}").rowcount


def test_the_sweep_sums_up_counts_and_housekeeping_holds_them_against_the_routes(
    passes: Passes, now: datetime, capsys: pytest.CaptureFixture[str]
) -> None:
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        for _ in range(2):
            imported(connection, fleet.live, now=now)

    def counted(connection: Connection) -> list[tuple[Any, ...]]:
        return connection.execute("SELECT company_id, environment, status, routes FROM route_counts").fetchall()

    assert in_transaction(passes, counted) == []
    passes.sweep()
    assert in_transaction(passes, counted) == [(*fleet.live, "draft", 2)]

    in_transaction(passes, lambda connection: connection.execute("UPDATE route_counts SET routes = 5"))
    passes.housekeeping()
    passes.sweep()

    assert in_transaction(passes, counted) == [(*fleet.live, "draft", 2)]
    assert "counts.corrected" in capsys.readouterr().out


def test_housekeeping_encrypts_contacts_that_were_stored_in_the_clear(passes: Passes) -> None:
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        connection.execute("UPDATE drivers SET contact = 'mailto://a:secret@example.org'")
    key = SecretStr(base64.urlsafe_b64encode(os.urandom(32)).decode())
    with_key = passes.settings.model_copy(update={"contact_key": key})

    Passes(with_key, passes.database, passes.jobs).housekeeping()

    assert in_transaction(passes, count_of("drivers", "starts_with(contact, 'sealed:')")) == len(fleet.drivers)


def test_the_import_pass_closes_new_routes_of_a_retired_company(
    passes: Passes, enqueued: Enqueued, now: datetime
) -> None:
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        late = imported(connection, fleet.live, now=now, vehicle={"unitNumber": "101"})
        retire_company(connection, fleet.company_id, now=now)

    passes.import_pass()

    assert in_transaction(passes, lambda connection: status_of(connection, late)) is RouteStatus.CANCELED
    assert enqueued() == []


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
def test_a_locked_route_of_a_retired_record_keeps_no_other_from_its_import(
    passes: Passes, enqueued: Enqueued, now: datetime, retired: str
) -> None:
    with passes.database.transaction() as connection:
        fleet, other = make_fleet(connection), make_fleet(connection)
        held = imported(connection, fleet.live, now=now)
        entered = imported(connection, other.live, now=now - timedelta(days=3), start=now + timedelta(days=6))
        if retired == "vehicle":
            connection.execute("UPDATE vehicles SET retired_at = %s WHERE id = %s", (now, fleet.trucks[0]))
        else:
            retire_company(connection, fleet.company_id, now=now)

    with passes.database.transaction() as holder:
        holder.execute("SELECT FROM routes WHERE id = %s FOR UPDATE", (held,))
        with suppress(LockNotAvailable):
            passes.import_pass()

    assert [payload["route_ids"] for _, payload in enqueued()] == [[entered.hex]]


def test_without_redis_the_passes_go_on_and_due_work_stays_due(
    passes: Passes, enqueued: Enqueued, now: datetime
) -> None:
    with passes.database.transaction() as connection:
        pending = pushed(connection, make_fleet(connection).live, now=now - timedelta(minutes=5), start=now)
    away = JobQueue(redis_client("redis://127.0.0.1:9/0"))

    Passes(passes.settings, passes.database, away).sweep()

    assert enqueued() == []
    with passes.database.transaction() as connection:
        (row,) = named(connection).execute("SELECT retry_at FROM routes WHERE id = %s", (pending,)).fetchall()
    assert row.retry_at < now + timedelta(minutes=2)


def test_jobs_of_the_sweep_wait_in_the_lane_of_their_company(
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

    passes.sweep()

    for queue, fleet in fleets.items():
        (message,) = passes.jobs.client.hvals(f"dramatiq:{queue}.msgs")
        assert msgspec.json.decode(message)["options"]["company_id"] == fleet.company_id.hex
    assert len(enqueued()) == len(QUEUES)


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
