"""A restore refuses what it cannot make whole, says what to do, and leaves nothing behind."""

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import psycopg
import pytest

from deploy import stack
from deploy.backups import archive
from deploy.backups.archive import (
    PIECE_BYTES,
    ArchiveUnusable,
    Identity,
    archive_spec,
    claim_folder,
    last_archived_at,
    segment_name,
    segment_number,
    superuser,
    wal_files,
)
from deploy.backups.base_backups import Backup, keep_newest, list_backups, make_backup
from deploy.backups.restoring import (
    DamagedArchive,
    DamagedBackup,
    RestoreFailed,
    check_contact_key,
    choose_backup,
    restored_database,
)
from deploy.embedded import EmbeddedPostgres, running
from deploy.processes import Supervisor
from deploy.stack import ARCHIVE_ENDS
from deploy.terminal import Terminal
from domain.accounts.contacts import Contacts
from domain.accounts.sessions import find_session
from domain.lifecycle import Role
from domain.messages.withholding import list_withheld_messages
from domain.migrations import migrate
from domain.settings import Settings
from tests.conftest import as_superuser, own_database
from tests.deploy.commands import Cli
from tests.domain.helpers import imported, planned_by_hand
from tests.factories import make_fleet, signed_in
from tests.run_folder import own_folder
from tests.servers import CopiedPostgres
from tests.service import eventually

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
LIFE = Identity("7711224323169279137", 1)
KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
FILES = {"PG_VERSION": b"18\n", "base/1/1259": b"rows" * 1000}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Backups of three days, and an archive that began before them. They look like those of `fuelroute backup`."""
    folder = tmp_path / "backups"
    claim_folder(folder, LIFE)
    for day in range(3):
        make_backup_of(folder, f"day-{day}", NOON + timedelta(days=day), f"{day * 2 + 2:024X}")
    for number in range(1, 8):
        (folder / "wal" / f"{number:024X}").touch()
    (folder / "wal" / f"{8:024X}.partial").touch()
    return folder


def make_backup_of(folder: Path, name: str, finished_at: datetime, first_segment: str) -> None:
    cluster = folder / "backups" / f"0-{name}" / "postgres"
    for file, content in FILES.items():
        (cluster / file).parent.mkdir(parents=True, exist_ok=True)
        (cluster / file).write_bytes(content)
    entries = [
        {"Path": file, "Size": len(content), "Checksum": hashlib.sha256(content).hexdigest()}
        for file, content in FILES.items()
    ]
    listed = json.dumps({"Files": entries})[:-1].encode() + b",\n"
    marker = hashlib.sha256(listed).hexdigest()
    (cluster / "backup_manifest").write_bytes(listed + f'"Manifest-Checksum": "{marker}"}}\n'.encode())
    backup = Backup(f"0-{name}", finished_at, finished_at, 4003, "20261123d", None, first_segment, LIFE)
    (cluster.parent / "backup.json").write_bytes(msgspec.json.encode(backup))


def test_the_newest_backup_that_was_finished_by_then_is_chosen(folder: Path) -> None:
    assert choose_backup(folder, None, None).name == "0-day-2"
    assert choose_backup(folder, None, NOON + timedelta(days=1)).name == "0-day-1"
    assert choose_backup(folder, "0-day-0", None).name == "0-day-0"
    for name, at, reason in (
        (None, NOON - timedelta(seconds=1), "the earliest time is 2026-11-23 12:00:00"),
        ("0-day-1", NOON, "the earliest time is 2026-11-24 12:00:00"),
        ("yesterday", None, "no backup yesterday"),
    ):
        with pytest.raises(RestoreFailed, match=reason):
            choose_backup(folder, name, at)


def test_a_folder_without_backups_says_so(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    claim_folder(empty, LIFE)
    with pytest.raises(RestoreFailed, match="there is no backup in"):
        choose_backup(empty, None, None)
    for other in (tmp_path, tmp_path / "not mounted"):
        with pytest.raises(ArchiveUnusable, match="is no folder of backups"):
            choose_backup(other, None, None)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda cluster: (cluster / "base/1/1259").write_bytes(b"rowz" * 1000), "1259 has changed"),
        (lambda cluster: (cluster / "base/1/1259").write_bytes(b""), "1259 has changed"),
        (lambda cluster: (cluster / "PG_VERSION").unlink(), "PG_VERSION is missing"),
        (lambda cluster: (cluster / "backup_manifest").unlink(), "backup_manifest is missing"),
        (lambda cluster: (cluster / "backup_manifest").write_bytes(b"{"), "backup_manifest cannot be read"),
        (
            lambda cluster: (cluster / "backup_manifest").write_text(
                (cluster / "backup_manifest").read_text().replace("PG_VERSION", "PG_VERSIOM")
            ),
            "backup_manifest has changed",
        ),
    ],
    ids=["changed", "cut short", "file lost", "manifest lost", "manifest cut short", "manifest changed"],
)
def test_a_damaged_backup_is_refused_and_nothing_is_left(
    folder: Path, damage: Callable[[Path], object], reason: str
) -> None:
    damage(folder / "backups" / "0-day-2" / "postgres")
    backup = choose_backup(folder, None, None)

    with (
        pytest.raises(DamagedBackup, match=reason),
        restored_database(
            folder, folder.parent / "new", backup, at=None, contact_key=None, progress=lambda step, done, total: None
        ),
    ):
        pass

    assert list(folder.parent.iterdir()) == [folder]


@pytest.fixture(scope="module")
def archived() -> Iterator[Path]:
    """A backup made after a step back to this release, and an archive with six changes since, each in a piece of its
    own."""
    with own_folder("damage") as own:
        data, folder = own / "data", own / "backups"
        own.chmod(0o755)  # PostgreSQL's user goes through it
        server, archiving = CopiedPostgres(data), Supervisor(print)
        with running(server) as url:
            migrate(url)
            with superuser(server, "fuelroute") as connection:
                connection.execute("UPDATE alembic_version SET version_num = '20991231'")
            archiving.start([archive_spec(server, folder, data / "archive.log")])
            make_backup(Settings(data=data), folder, lambda step, done, total: None)
            with superuser(server, "fuelroute") as connection:
                connection.execute("CREATE TABLE changes (number int)")
                for number in range(6):
                    connection.execute("INSERT INTO changes VALUES (%s)", (number,))
                    connection.execute("SELECT pg_switch_wal()")
                (end,) = connection.execute("SELECT pg_current_wal_flush_lsn()").fetchone() or ()
                eventually(
                    lambda: connection.execute("SELECT %s <= flush_lsn FROM pg_stat_replication", (end,)).fetchall(),
                    lambda found: found == [(True,)],
                )
            archiving.stop()
        yield folder


def changes_restored(folder: Path, *, until_damage: bool = False) -> list[int]:
    backup = choose_backup(folder, None, None)
    with (
        own_folder("damage") as own,
        restored_database(
            folder,
            own / "new",
            backup,
            at=None,
            contact_key=None,
            progress=lambda step, done, total: None,
            until_damage=until_damage,
        ),
        superuser(EmbeddedPostgres(next(own.iterdir())), "fuelroute") as connection,
    ):
        return [number for (number,) in connection.execute("SELECT number FROM changes ORDER BY 1")]


@pytest.mark.servers
def test_an_archive_that_is_whole_is_restored_to_its_end(archived: Path) -> None:
    assert changes_restored(archived) == [0, 1, 2, 3, 4, 5]


@pytest.mark.servers
@pytest.mark.parametrize("damage", [Path.unlink, lambda piece: piece.write_bytes(b"\xff" * (16 << 20))])
def test_a_damaged_archive_is_not_taken_for_one_that_ends_there(
    archived: Path, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    """PostgreSQL takes the damage for the end of the log. All changes after it would be lost without a word."""
    folder = tmp_path / "backups"
    shutil.copytree(archived, folder)
    damage(wal_files(folder)[-4])

    with pytest.raises(DamagedArchive, match="that was made later with --backup, or restore what stands before"):
        changes_restored(folder)
    assert changes_restored(folder, until_damage=True) in ([0, 1], [0, 1, 2])  # the last piece may be empty


def test_a_name_that_cannot_be_given_at_the_end_is_refused_at_the_beginning(folder: Path) -> None:
    (folder.parent / "disk").mkdir()
    data = folder.parent / "data"
    data.symlink_to(folder.parent / "disk")

    with (
        pytest.raises(RestoreFailed, match="is a link or the root of a disk: choose a new folder in it"),
        restored_database(
            folder,
            data,
            choose_backup(folder, None, None),
            at=None,
            contact_key=None,
            progress=lambda step, done, total: pytest.fail(step),
        ),
    ):
        pass


def test_a_folder_that_has_something_in_it_is_not_touched(folder: Path) -> None:
    data = folder.parent / "data"
    data.mkdir()
    (data / "precious").write_text("routes")

    with (
        pytest.raises(RestoreFailed, match="is not empty"),
        restored_database(
            folder,
            data,
            choose_backup(folder, None, None),
            at=None,
            contact_key=None,
            progress=lambda step, done, total: None,
        ),
    ):
        pass

    assert (data / "precious").read_text() == "routes"


def test_a_restore_needs_the_key_that_contacts_were_sealed_with(folder: Path) -> None:
    plain = choose_backup(folder, None, None)
    sealed = msgspec.structs.replace(plain, contact_key=Contacts(KEY).fingerprint)

    check_contact_key(plain, None)
    check_contact_key(sealed, KEY)
    check_contact_key(sealed, f"{KEY},another")
    with pytest.raises(RestoreFailed, match=r"not in the backup: give the copy of contact\.key"):
        check_contact_key(sealed, None)
    with pytest.raises(RestoreFailed, match="sealed with another key"):
        check_contact_key(sealed, KEY.replace("M", "N"))


def test_old_backups_go_with_their_part_of_the_archive(folder: Path) -> None:
    assert [backup.name for backup in keep_newest(folder, 2)] == ["0-day-0"]

    assert [backup.name for backup in list_backups(folder)] == ["0-day-1", "0-day-2"]
    assert [int(file.name[:24], 16) for file in wal_files(folder)] == [4, 5, 6, 7, 8]
    assert keep_newest(folder, 2) == []


def test_a_backup_from_a_day_when_the_clock_was_ahead_does_not_count_as_the_newest_for_ever(folder: Path) -> None:
    """The next backup would be deleted as soon as it was made."""
    make_backup_of(folder, "ahead", NOON + timedelta(days=900), f"{7:024X}")
    make_backup_of(folder, "right", NOON + timedelta(days=4), f"{8:024X}")

    assert choose_backup(folder, None, None).name == "0-right"
    assert "0-right" not in {backup.name for backup in keep_newest(folder, 1)}
    assert [backup.name for backup in list_backups(folder)] == ["0-right"]


def test_a_folder_belongs_to_one_life_of_one_database(folder: Path) -> None:
    claim_folder(folder, LIFE)
    for other in (Identity(LIFE.system_identifier, 2), Identity("1", 1)):
        with pytest.raises(ArchiveUnusable, match="another database, or of this one before it was restored"):
            claim_folder(folder, other)


@pytest.mark.servers
def test_an_archive_whose_next_part_is_gone_is_refused(folder: Path) -> None:
    with as_superuser() as connection:
        try:
            archive._MAKE_SLOT.execute(connection)  # from now on the server keeps its log, whatever other tests write
            current = _piece_in_use(connection)
            (folder / "wal" / f"{current}.partial").touch()
            archive._prepare_slot(connection, folder)
            (folder / "wal" / ("F" * 24)).touch()
            with pytest.raises(ArchiveUnusable, match=f"has a gap: it ends at {'F' * 24}"):
                archive._prepare_slot(connection, folder)
        finally:
            archive.end_archive(connection)


def _piece_in_use(connection: psycopg.Connection) -> str:
    """The name of the piece of the log that the server writes. Just after a whole piece it would be that one."""
    asked = "SELECT pg_walfile_name(pg_logical_emit_message(false, 'test', 'in it', true))"
    (name,) = connection.execute(asked).fetchone() or ("",)
    return str(name)


@pytest.mark.servers
def test_an_archive_with_a_whole_last_piece_goes_on_behind_it(folder: Path) -> None:
    """After a backup the archive had its last piece whole. PostgreSQL needs that no more and may have deleted it, as at
    the start after a power failure: the archive was refused, and the stack did not start."""
    with as_superuser() as connection:
        current = _piece_in_use(connection)
        before = segment_name(current[:8], segment_number(current) - 1)
        (folder / "wal" / before).touch()
        archive._prepare_slot(connection, folder)
        archive.end_archive(connection)
    assert archive._pieces_to_go_on_from(folder / "wal" / "0000000100000000000000FF") == [
        "0000000100000000000000FF",
        "000000010000000100000000",
    ]
    assert archive._pieces_to_go_on_from(folder / "wal" / "000000010000000000000007.partial") == [
        "000000010000000000000007"
    ]


@pytest.mark.servers
def test_a_stack_without_the_archive_that_it_had_says_that_it_ends() -> None:
    """It ended without a word where somebody had left the option out."""
    with own_folder("damage") as own:
        server = CopiedPostgres(own)
        with running(server):
            with superuser(server) as connection:
                archive._MAKE_SLOT.execute(connection)
            said = [started_without_archive(server, own) for _ in range(2)]

    assert said == [ARCHIVE_ENDS + "\n", ""]


def started_without_archive(server: EmbeddedPostgres, data: Path) -> str:
    said = io.StringIO()
    stack._start_archive(None, server, data, Supervisor(print), Terminal(file=said, width=1000))
    return said.getvalue()


@pytest.mark.servers
def test_an_archive_whose_disk_was_full_goes_on_once_there_is_room() -> None:
    """A file that the disk did not take whole kept it from going on for ever."""
    with own_folder("damage") as own:
        server, folder, log = CopiedPostgres(own / "data"), own / "backups", own / "archive.log"
        own.chmod(0o755)  # PostgreSQL's user goes through it
        with running(server), superuser(server) as connection:
            for size in (PIECE_BYTES // 3, PIECE_BYTES):
                archiving = Supervisor(print)
                archiving.start([archive_spec(server, folder, log)])
                eventually(lambda: archive.progress_of_archive(connection).is_running, bool, wanted=str(log))
                eventually(lambda: wal_files(folder), bool)
                archiving.stop()
                os.truncate(wal_files(folder)[-1], size)


def test_a_folder_without_an_archive_was_never_written_to(tmp_path: Path, folder: Path) -> None:
    assert last_archived_at(tmp_path) is None
    assert last_archived_at(folder) is not None


@pytest.mark.parametrize("options", [(), ("--release-messages",)])
def test_a_database_that_other_tools_restored_is_prepared(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    with own_database("restored") as database:
        with database.transaction() as connection:
            fleet, now = make_fleet(connection), datetime.now(UTC)
            token = signed_in(connection, Role.OWNER, fleet.company_id)
            planned_by_hand(connection, imported(connection, fleet.live, now=now), now=now)
        monkeypatch.setenv("FUELROUTE_DATABASE_URL", database.url)

        outcome = cli("restored", "--to", now.isoformat(), *options, "--json").document

        with database.transaction() as connection:
            assert find_session(connection, token, now=now) is None
            withheld = len(list_withheld_messages(connection, fleet.company_id))
    assert (outcome["ended_sessions"], outcome["withheld_messages"], withheld) == (1, *[0 if options else 1] * 2)
    assert "is not a time" in cli("restored", "--to", "yesterday").sentence
