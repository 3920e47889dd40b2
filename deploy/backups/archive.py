"""The continuous archive: `pg_receivewal` copies the write-ahead log (WAL) into a folder, moments after each commit.

A replication slot makes PostgreSQL keep the part of the log that the archive does not have yet, up to
`max_slot_wal_keep_size`: an archive that cannot be written to does not fill the disk of the database for ever.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
import psycopg

from deploy.embedded import EmbeddedPostgres, write_private
from deploy.embedded.folders import make_closed
from deploy.embedded.servers import server_environment
from deploy.processes import Process, Spec, begin
from domain.database.statements import Command, Scalar, Statement
from domain.errors import FuelrouteError
from domain.operations.archives import ARCHIVE_SLOT

_IDENTITY = "archive.json"
_UNFINISHED = ".partial"
PIECE_BYTES = 16 << 20
"""Size of a file of the log, finished or not."""
_SEGMENT = re.compile(rf"[0-9A-F]{{24}}({re.escape(_UNFINISHED)})?")


class ArchiveUnusable(FuelrouteError):
    """The archive cannot go on in this folder; the text says what to do."""


class Identity(msgspec.Struct, frozen=True):
    """A database in one of its lives. Each restore begins a new one, which PostgreSQL calls a timeline."""

    system_identifier: str
    timeline: int


class Archived(NamedTuple):
    """The progress of the running archive."""

    is_running: bool
    bytes_behind: int | None
    """Bytes of the log that PostgreSQL wrote and the archive does not have yet; None without an archive."""


@contextmanager
def superuser(postgres: EmbeddedPostgres, name: str = "postgres") -> Iterator[psycopg.Connection]:
    """A connection of the superuser, to the database `name`, without a transaction."""
    url = postgres.admin_url.replace("/postgres?", f"/{name}?")
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        yield connection


class _Life(NamedTuple):
    system_identifier: str
    timeline: int


_LIFE = Statement(
    _Life,
    "SELECT system_identifier::text, timeline_id AS timeline FROM pg_control_system(), pg_control_checkpoint()",
)


def identity_of(connection: psycopg.Connection) -> Identity:
    return Identity(*_LIFE.one(connection))


def claim_folder(folder: Path, identity: Identity) -> None:
    """Makes the folder, which only its owner can enter, and keeps it for this database and this life of it: files of
    two lives have equal names. Raises ArchiveUnusable if it belongs to another."""
    try:
        make_closed(folder, folder / "backups", wal_folder(folder))
        file = folder / _IDENTITY
        if not file.exists():
            write_private(file, msgspec.json.encode(identity).decode() + "\n")
        there = msgspec.json.decode(file.read_bytes(), type=Identity)
    except OSError as error:
        raise ArchiveUnusable(f"cannot use {folder} for backups ({error.strerror}): choose another folder") from None
    except msgspec.MsgspecError:
        raise ArchiveUnusable(f"{file} is damaged: choose another folder") from None
    if there != identity:
        raise ArchiveUnusable(
            f"{folder} has the backups of another database, or of this one before it was restored: choose a new folder,"
            " and make a backup there"
        )


def wal_folder(folder: Path) -> Path:
    return folder / "wal"


def wal_files(folder: Path) -> list[Path]:
    """The files of the archive in the order of the log. Only the last one can be unfinished."""
    found = wal_folder(folder).glob("*")
    return sorted(path for path in found if _SEGMENT.fullmatch(path.name))


def segment_of(file: Path) -> str:
    """The name of the piece of the log, with its file finished or not."""
    return file.name.removesuffix(_UNFINISHED)


_PIECES_IN_A_LOG = (1 << 32) // PIECE_BYTES


def segment_number(segment: str) -> int:
    """The number of a piece of the log. Its name has eight digits of the timeline before two parts of that number."""
    return int(segment[8:16], 16) * _PIECES_IN_A_LOG + int(segment[16:], 16)


def segment_name(timeline: str, number: int) -> str:
    """The name of a piece of the log by its number."""
    return f"{timeline}{number // _PIECES_IN_A_LOG:08X}{number % _PIECES_IN_A_LOG:08X}"


def archive_spec(postgres: EmbeddedPostgres, folder: Path, log: Path) -> Spec:
    """The process that archives, for a running server. Raises ArchiveUnusable if it cannot go on in this folder."""
    folder = folder.absolute()
    with superuser(postgres) as connection:
        claim_folder(folder, identity_of(connection))
        _prepare_slot(connection, folder)
    return Spec(
        name="archive",
        argv=[
            str(postgres.installed / "pg_receivewal"),
            f"--directory={wal_folder(folder)}",
            f"--slot={ARCHIVE_SLOT}",
            f"--dbname={postgres.admin_url}",
            "--synchronous",  # what it has is on disk at once
            "--no-password",
            "--no-loop",  # a failure ends it, and the supervisor starts it again
        ],
        log=log,
        env=server_environment(),
        inherits=False,
        begin=partial(_begin, folder),
    )


def _begin(folder: Path, spec: Spec, output: IO[bytes] | None) -> Process:
    """Starts the archive. A disk that was full as a file began leaves a part of it, empty still, which `pg_receivewal`
    refuses for ever. It fetches the file from its beginning anyway."""
    for file in wal_files(folder)[-1:]:
        if file.name.endswith(_UNFINISHED) and file.stat().st_size != PIECE_BYTES:
            os.truncate(file, 0)
    return begin(spec, output)


_SLOT_IS_LOST = Scalar(bool, f"SELECT wal_status = 'lost' FROM pg_replication_slots WHERE slot_name = '{ARCHIVE_SLOT}'")
"""True if PostgreSQL has deleted a part of the log that the archive did not have yet. No row without a slot."""
_MAKE_SLOT = Command(f"SELECT FROM pg_create_physical_replication_slot('{ARCHIVE_SLOT}', true)")
_DROP_SLOT = Command(
    f"SELECT FROM pg_replication_slots, pg_drop_replication_slot(slot_name) WHERE slot_name = '{ARCHIVE_SLOT}'"
)
_IS_KEPT = Command("SELECT FROM pg_ls_waldir() WHERE name = ANY(%s)")


def _prepare_slot(connection: psycopg.Connection, folder: Path) -> None:
    """Makes sure that PostgreSQL still has the part of the log at which the archive goes on. Raises ArchiveUnusable if
    it has not."""
    is_lost = _SLOT_IS_LOST.first(connection)
    if is_lost:
        end_archive(connection)
    if is_lost is not False:
        _MAKE_SLOT.execute(connection)
    last = next(reversed(wal_files(folder)), None)
    if last is not None and _IS_KEPT.first(connection, (_pieces_to_go_on_from(last),)) is None:
        raise ArchiveUnusable(
            f"the archive in {folder} has a gap: it ends at {segment_of(last)}, which PostgreSQL has deleted since."
            " Choose a new folder, and make a backup there"
        )


def _pieces_to_go_on_from(last: Path) -> list[str]:
    """The names of the pieces at which an archive with this last file may go on: that piece, or the one behind it if
    the archive has the piece whole, as after a backup. PostgreSQL may have deleted it then."""
    name = segment_of(last)
    return [name] if last.name != name else [name, segment_name(name[:8], segment_number(name) + 1)]


def end_archive(connection: psycopg.Connection) -> bool:
    """Stops PostgreSQL from keeping the log for an archive. False if there was none."""
    return _DROP_SLOT.execute(connection).rowcount > 0


_PROGRESS = Statement(
    Archived,
    f"""
    SELECT coalesce(active, false) AS is_running,
           pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint AS bytes_behind
    FROM pg_replication_slots WHERE slot_name = '{ARCHIVE_SLOT}'
    """,
)


def progress_of_archive(connection: psycopg.Connection) -> Archived:
    return _PROGRESS.first(connection) or Archived(False, None)


def last_archived_at(folder: Path) -> datetime | None:
    """When the archive was last written to; None if there is no archive in the folder."""
    files = wal_files(folder)
    return datetime.fromtimestamp(files[-1].stat().st_mtime, UTC) if files else None
