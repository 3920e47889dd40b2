"""The archive of PostgreSQL's log, by an `archive_command` or by the slot of `fuelroute up`, and the newest backup."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from deploy.backups.archive import superuser
from deploy.embedded import running
from domain.operations.archives import ARCHIVE_SLOT, Archive, newest_backup_at, read_archive
from tests.replica import running_replica
from tests.servers import CopiedPostgres
from tests.service import eventually

SEGMENT = 16 << 20


def test_an_archive_command_is_judged_by_its_last_try(tmp_path_factory: pytest.TempPathFactory) -> None:
    server = CopiedPostgres(tmp_path_factory.mktemp("archive"), durable=False, options={"archive_mode": "on"})
    with running(server), superuser(server, "fuelroute") as connection:

        def archive(command: str) -> None:
            connection.execute(f"ALTER SYSTEM SET archive_command = '{command}'")
            connection.execute("SELECT pg_reload_conf()")

        def state() -> Archive | None:
            """Read the state, then write for the next look: the archiver may not have read its command yet."""
            one = read_archive(connection)
            connection.execute("CREATE TABLE IF NOT EXISTS written (number int)")
            connection.execute("INSERT INTO written VALUES (1)")
            connection.execute("SELECT pg_switch_wal()")
            return one

        def is_near(one: Archive | None) -> bool:
            return one is not None and one.bytes_behind is not None and one.bytes_behind < SEGMENT

        archive("true")
        works = eventually(state, is_near, wanted="an archive")
        assert works is not None
        assert works.works

        archive("false")
        failing = eventually(state, lambda one: one is not None and not one.works, wanted="an archive that fails")
        assert failing is not None
        assert works.bytes_behind is not None
        assert failing.bytes_behind is not None
        assert failing.bytes_behind >= works.bytes_behind

        archive("true")
        eventually(state, lambda one: one is not None and one.works, wanted="an archive that goes on")

        with (
            running_replica(server, tmp_path_factory.mktemp("replica")) as replica,
            psycopg.connect(replica.url, autocommit=True) as standby,
        ):
            assert read_archive(standby) is None


def test_a_slot_that_nobody_reads_is_an_archive_that_does_not_work(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    server = CopiedPostgres(tmp_path_factory.mktemp("slot"), durable=False)
    with running(server), superuser(server, "fuelroute") as connection:
        assert read_archive(connection) is None

        connection.execute(f"SELECT pg_create_physical_replication_slot('{ARCHIVE_SLOT}', true)")
        found = read_archive(connection)
        assert found is not None
        assert not found.works
        assert found.bytes_behind is not None


def test_the_newest_finished_backup_counts(tmp_path: Path) -> None:
    assert newest_backup_at(tmp_path) is None

    now = datetime.now(UTC).replace(microsecond=0)
    for name, days in (("20261127T000000Z", 1), ("20261126T000000Z", 2), ("unfinished-1", 0)):
        folder = tmp_path / "backups" / name
        folder.mkdir(parents=True)
        (folder / "backup.json").touch()
        at = (now - timedelta(days=days)).timestamp()
        os.utime(folder / "backup.json", (at, at))
    (tmp_path / "backups" / "20261128T000000Z").mkdir()

    assert newest_backup_at(tmp_path) == now - timedelta(days=1)
