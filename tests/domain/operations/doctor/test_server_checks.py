"""Checks of PostgreSQL, Redis, the schema and the machines, each with its fault planted in real servers."""

import math
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
import redis
from structlog.testing import capture_logs

from domain.database.checks import check_server
from domain.database.connections import LEADER_LOCKS, Connection, open_session
from domain.database.options import COMMANDING
from domain.operations.alerts import find_alerts
from domain.operations.archives import ARCHIVE_SLOT, BACKUP_OLD_AFTER
from domain.operations.doctor import machines, postgres
from domain.operations.doctor.checks import Examined, NoSchema
from domain.operations.doctor.redis_server import check_redis_server
from domain.operations.doctor.schema import check_schema
from domain.operations.measurements import measure
from domain.operations.server_checks import QueueCheck
from domain.queue.job_queue import JobQueue
from domain.queue.redis_clients import redis_client
from domain.settings import Settings
from domain.telemetry.health import Unhealthy
from tests.conftest import make_database
from tests.domain.operations.doctor.conftest import Examine, texts
from tests.servers import own_redis
from tests.service import eventually


@pytest.fixture
def stranger(own_settings: Settings) -> Iterator[psycopg.Connection]:
    """Another session in the same database."""
    with psycopg.connect(own_settings.require_database_url(), application_name="a stranger") as opened:
        yield opened
        opened.rollback()


# --- Connections and sessions ------------------------------------------------------------------------------------


def test_pools_that_the_server_has_no_room_for_are_found(examine: Examine, own_settings: Settings) -> None:
    names = ("fuelroute ingress 1@alpha", "fuelroute ingress 1@alpha", "fuelroute ingress 2@alpha", "psql")
    sessions = [psycopg.connect(own_settings.require_database_url(), application_name=name) for name in names]
    try:
        assert examine(postgres.check_connections, database_pool_size=8) == []

        with psycopg.connect(own_settings.require_database_url()) as asking:
            row = asking.execute("SELECT current_setting('max_connections')::int").fetchone()
            assert row is not None
        pool_size = row[0]

        (found,) = examine(postgres.check_connections, database_pool_size=pool_size)

        opened = 6 * pool_size + 8  # with two of each preview process
        assert found.is_problem
        assert f"(2 ingress) may open {opened}" in found.what
        assert f"max_connections to {opened + 13} or more" in found.what_to_do
    finally:
        for session in sessions:
            session.close()


def test_a_missing_scheduler_ingress_and_console_are_told(
    examine: Examine, own_settings: Settings, stranger: psycopg.Connection
) -> None:
    def missing() -> list[tuple[bool, str]]:
        return [(one.is_problem, one.what.partition(":")[0]) for one in examine(postgres.check_processes)]

    all_three = [
        (False, "No process takes routes and positions"),
        (False, "No process serves the pages for people"),
        (True, "No scheduler leads"),
    ]
    eventually(missing, lambda found: found == all_three)  # sessions of the test before take a moment to end
    stranger.execute("SELECT pg_advisory_xact_lock(%s, 0)", (LEADER_LOCKS,))
    stranger.execute("SET application_name = 'fuelroute console 7@alpha'")

    assert texts(examine(postgres.check_processes)) == [
        "No process takes routes and positions: none has a connection as ingress"
    ]


def test_an_old_transaction_is_found(
    examine: Examine, stranger: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "OLD_TRANSACTION", timedelta(milliseconds=50))
    stranger.execute("SELECT 1")

    (found,) = eventually(lambda: examine(postgres.check_transactions), bool)

    assert found.what.startswith("1 transaction open for more than 10 minutes")
    assert f"pid {stranger.info.backend_pid} a stranger since " in found.examples[0]


@pytest.mark.parametrize(
    ("role", "shown"), [("fuelroute", "a stranger since "), ("postgres", "a stranger of another role")]
)
def test_who_holds_a_lock_that_others_wait_for_is_found(
    examine: Examine, own_settings: Settings, role: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "LONG_LOCK", timedelta(0))
    url = own_settings.require_database_url()
    with (
        psycopg.connect(url.replace("//fuelroute@", f"//{role}@"), application_name="a stranger") as holding,
        psycopg.connect(url) as waiting,
    ):
        pid = holding.info.backend_pid
        holding.execute("LOCK TABLE former_names")
        thread = threading.Thread(target=lambda: waiting.execute("SELECT 1 FROM former_names"))
        thread.start()
        try:
            (found,) = eventually(lambda: examine(postgres.check_transactions), bool)
        finally:
            holding.rollback()
            thread.join()

    assert found.what == "Others wait for locks of 1 transaction open for more than 10 seconds"
    assert f"pid {pid} {shown}" in found.examples[0]


# --- Vacuum, indexes, the log ------------------------------------------------------------------------------------


def test_a_table_without_autovacuum_is_found(examine: Examine, connection: Connection) -> None:
    assert examine(postgres.check_vacuum) == []
    connection.execute("ALTER TABLE mappings SET (autovacuum_enabled = off)")

    (found,) = examine(postgres.check_vacuum)

    assert (found.what, found.examples) == ("Autovacuum is off for tables", ("mappings",))


def test_old_transaction_ids_are_found(examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "MOST_TRANSACTION_AGE", 0)
    (found,) = examine(postgres.check_vacuum)
    assert found.what.startswith("The oldest transaction id is ")


def test_dead_rows_are_found(
    examine: Examine, administrator: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_MANY_DEAD_ROWS", 10)
    administrator.execute("CREATE TABLE dead_rows WITH (autovacuum_enabled = on) AS SELECT generate_series(1, 40) AS n")
    try:
        administrator.execute("DELETE FROM dead_rows")
        administrator.execute("SELECT pg_stat_force_next_flush()")

        (found,) = eventually(lambda: examine(postgres.check_vacuum), bool)

        assert found.examples == ("dead_rows: 40 dead, 0 live",)
    finally:
        administrator.execute("DROP TABLE dead_rows")


def test_an_invalid_index_is_found(examine: Examine, administrator: psycopg.Connection) -> None:
    assert examine(postgres.check_indexes) == []
    administrator.execute("CREATE TABLE twice AS SELECT 1 AS n FROM generate_series(1, 2)")
    try:
        with pytest.raises(psycopg.errors.UniqueViolation):
            administrator.execute("CREATE UNIQUE INDEX CONCURRENTLY once ON twice (n)")

        (found,) = examine(postgres.check_indexes)

        assert found.examples == ("once",)
    finally:
        administrator.execute("DROP TABLE twice")


def test_texts_that_sort_otherwise_than_before_are_found(examine: Examine, administrator: psycopg.Connection) -> None:
    change = "UPDATE pg_database SET datcollversion = {} WHERE datname = current_database()"
    administrator.execute(change.format("'0'"))
    try:
        (found,) = examine(postgres.check_indexes)
        assert found.what.startswith("The order of texts has changed under the indexes")
    finally:
        administrator.execute(change.format("pg_database_collation_actual_version(oid)"))


def test_a_database_that_knows_no_case_beyond_ascii_is_found(examine: Examine) -> None:
    """`GET /v1/drivers?name=josé` would not find JOSÉ."""
    url = make_database("ascii", template="template0 ENCODING 'UTF8' LOCALE 'C'")
    with capture_logs() as logs:
        check_server(url, warn=True)
    assert [entry["event"] for entry in logs] == ["database.folds_ascii_alone"]

    with open_session(url, COMMANDING) as connection:
        (found,) = examine(lambda seen: postgres.check_indexes(replace(seen, connection=connection)))
    assert found.is_problem
    assert "--encoding=UTF8 --locale=C.UTF-8" in found.what_to_do


def test_an_old_extension_is_found(examine: Examine, administrator: psycopg.Connection) -> None:
    administrator.execute("UPDATE pg_extension SET extversion = '0.1' WHERE extname = 'plpgsql'")
    try:
        (found,) = examine(postgres.check_indexes)
        assert (found.is_problem, found.examples) == (False, ("plpgsql 0.1, available is 1.0",))
    finally:
        administrator.execute("UPDATE pg_extension SET extversion = '1.0' WHERE extname = 'plpgsql'")


def test_a_slot_that_holds_back_the_log_is_found(
    examine: Examine, administrator: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert examine(postgres.check_log) == []
    monkeypatch.setattr(postgres, "_HELD_WAL_BYTES", -1)
    administrator.execute("SELECT pg_create_physical_replication_slot('standby', true)")
    try:
        (found,) = examine(postgres.check_log)
        assert found.examples == ("standby: 0 GiB",)
    finally:
        administrator.execute("SELECT pg_drop_replication_slot('standby')")


def test_an_archive_that_does_not_run_is_found(examine: Examine, administrator: psycopg.Connection) -> None:
    administrator.execute(f"SELECT pg_create_physical_replication_slot('{ARCHIVE_SLOT}', true)")
    try:
        (found,) = examine(postgres.check_log)
        assert (found.is_problem, found.what.partition(":")[0]) == (True, "The archive of `fuelroute up` does not run")
    finally:
        administrator.execute(f"SELECT pg_drop_replication_slot('{ARCHIVE_SLOT}')")


def test_a_backup_that_is_too_old_is_found(examine: Examine, tmp_path: Path, now: datetime) -> None:
    (found,) = examine(postgres.check_log, archive=tmp_path)
    assert (found.is_problem, found.what) == (True, "There is no backup")

    made = tmp_path / "backups" / "20261128T000000Z" / "backup.json"
    made.parent.mkdir(parents=True)
    made.touch()
    os.utime(made, (now.timestamp(), now.timestamp()))
    assert examine(postgres.check_log, archive=tmp_path) == []

    before = now - BACKUP_OLD_AFTER - timedelta(minutes=1)
    os.utime(made, (before.timestamp(), before.timestamp()))
    (found,) = examine(postgres.check_log, archive=tmp_path)
    assert found.what == f"The newest backup is of {before:%Y-%m-%d %H:%M}Z"


# --- The schema --------------------------------------------------------------------------------------------------


_CHANGES = (
    ("UPDATE alembic_version SET version_num = '20261122b'", "The schema is at revision 20261122b"),
    ("DROP INDEX routes_external_id", "index routes_external_id"),
    ("ALTER TABLE routes DROP COLUMN review_cause", "column routes.review_cause"),
    ("DROP TRIGGER count_routes_on_update ON routes", "trigger count_routes_on_update"),
    ("ALTER TABLE messages DROP CONSTRAINT status", "constraint messages.status"),
    ("ALTER TABLE routes DISABLE TRIGGER count_routes_on_insert", "routes: count_routes_on_insert"),
    ("ALTER TABLE drivers DISABLE ROW LEVEL SECURITY", "drivers"),
    ("ALTER POLICY visible ON deals TO CURRENT_USER", "deals: visible"),
    (
        "ALTER TABLE visits DROP CONSTRAINT visits_route_id_fkey, ADD CONSTRAINT visits_route_id_fkey"
        " FOREIGN KEY (route_id) REFERENCES routes (id) NOT VALID",
        "visits: visits_route_id_fkey",
    ),
)


def test_each_change_of_a_schema_is_found(jobs: JobQueue, settings: Settings, now: datetime) -> None:
    url = make_database("schema")
    own = settings.model_copy(update={"database_url": url})
    with Connection.connect(url, autocommit=True) as session:
        seen = Examined(session, jobs.client, own, now, math.inf, most_examples=100)
        assert list(check_schema(seen)) == []
        for change, _ in _CHANGES:
            session.execute(change)

        found = list(check_schema(seen))

    assert [(one.is_problem, one.what.partition(" ")[0]) for one in found] == [
        (True, "The"),
        (True, "The"),
        (True, "Row-level"),
        (True, "Triggers"),
    ]
    told = [found[0].what.partition(",")[0], *(example for one in found[1:] for example in one.examples)]
    assert sorted(told) == sorted(example for _, example in _CHANGES)


def test_a_database_without_a_schema_is_not_examined(jobs: JobQueue, settings: Settings, now: datetime) -> None:
    url = make_database("empty", template="template1")
    own = settings.model_copy(update={"database_url": url})
    with Connection.connect(url) as session, pytest.raises(NoSchema, match="run `fuelroute migrate` first"):
        list(check_schema(Examined(session, jobs.client, own, now, math.inf)))


# --- Redis and the machines --------------------------------------------------------------------------------------


def test_the_settings_and_the_memory_of_redis_are_checked(
    connection: Connection, own_settings: Settings, now: datetime, tmp_path: Path
) -> None:
    with own_redis(tmp_path) as server, redis_client(server.url) as client:
        seen = Examined(connection, client, own_settings, now, math.inf)
        assert [one.is_problem for one in check_redis_server(seen)] == [False], "it keeps no append-only file"
        client.config_set("appendonly", "yes")
        assert list(check_redis_server(seen)) == []
        # it refuses to stop while it writes its first append-only file
        eventually(lambda: client.info("persistence")["aof_rewrite_in_progress"], lambda running: not running)

        client.config_set("maxmemory", int(client.info("memory")["used_memory"] * 1.1))
        client.config_set("maxmemory-policy", "allkeys-lru")

        policy, memory = check_redis_server(seen)
        assert policy.what.startswith("Redis runs with maxmemory-policy allkeys-lru")
        assert memory.what.endswith("when it is full it refuses jobs")


def test_a_redis_that_refuses_changes_is_told_and_unhealthy(
    connection: Connection, now: datetime, tmp_path: Path
) -> None:
    with own_redis(tmp_path) as server, redis_client(server.url) as client:
        assert QueueCheck(server.url)() == "Redis answers"
        client.config_set("maxmemory", 1)

        (alert, *_) = find_alerts(measure(connection, client, now=now), now=now)

        assert alert.what == "Redis takes no changes: command not allowed when used memory > 'maxmemory'"
        with pytest.raises(Unhealthy, match="Redis takes no changes"):
            QueueCheck(server.url)()


def test_a_snapshot_that_redis_cannot_write_is_found(
    connection: Connection, own_settings: Settings, now: datetime, tmp_path: Path
) -> None:
    with own_redis(tmp_path) as server, redis_client(server.url) as client:
        shutil.rmtree(client.config_get("dir")["dir"])
        with pytest.raises(redis.RedisError):
            client.save()
        client.bgsave()
        eventually(lambda: client.info("persistence")["rdb_bgsave_in_progress"], lambda running: not running)

        found = list(check_redis_server(Examined(connection, client, own_settings, now, math.inf)))

    assert "Redis cannot write its snapshot" in texts(found)


@pytest.mark.parametrize(("ahead", "how"), [(5.0, "behind"), (-5.0, "ahead of")])
def test_clocks_that_differ_are_found(
    examine: Examine, monkeypatch: pytest.MonkeyPatch, ahead: float, how: str
) -> None:
    assert examine(machines.check_clocks) == []
    true = time.time
    monkeypatch.setattr(machines.time, "time", lambda: true() + ahead)  # type: ignore[attr-defined]

    assert texts(examine(machines.check_clocks)) == [
        f"The clock of {server} is 5.0 s {how} this machine's" for server in ("PostgreSQL", "Redis")
    ]


def test_a_disk_that_is_nearly_full_is_found(examine: Examine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machines, "LEAST_FREE_PERCENT", 0)
    monkeypatch.setattr(machines, "LEAST_FREE_BYTES", 0)
    assert examine(machines.check_disks) == []
    monkeypatch.setattr(machines, "LEAST_FREE_PERCENT", 101)

    found = examine(machines.check_disks, data=tmp_path)

    assert {one.what.partition(" has ")[0] for one in found} == {
        "The disk with the folder of temporary files",
        "The disk with the folder of the embedded stack",
    }


@pytest.mark.parametrize(("free_megabytes", "is_full"), [(60, False), (20, True)])
def test_a_small_disk_is_judged_by_its_half(
    examine: Examine, monkeypatch: pytest.MonkeyPatch, free_megabytes: int, is_full: bool
) -> None:
    """A container's /tmp is a tmpfs of 64 MB: less than the bytes that are asked of larger disks."""
    small = SimpleNamespace(total=64 << 20, free=free_megabytes << 20)
    monkeypatch.setattr(machines.shutil, "disk_usage", lambda _: small)  # type: ignore[attr-defined]

    assert bool(examine(machines.check_disks)) is is_full


def test_an_old_postgresql_is_found(examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert examine(postgres.check_version) == []
    monkeypatch.setattr(postgres, "MIN_VERSION", 990000)
    (found,) = examine(postgres.check_version)
    assert found.what.endswith("is too old")
