"""Base backups: copies of the whole database while it runs, made by `pg_basebackup`. Each can be restored by itself,
and with the continuous archive also to any later moment."""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from deploy.backups.archive import ArchiveUnusable, Identity, claim_folder, identity_of, superuser, wal_files
from deploy.embedded import EmbeddedPostgres, sync_names, write_private
from deploy.embedded.servers import server_environment
from deploy.processes import open_private
from domain.accounts.contacts import Contacts
from domain.database.statements import Statement
from domain.errors import FuelrouteError
from domain.settings import Settings

CLUSTER = "postgres"
"""The folder of the database inside a backup."""
_DESCRIPTION = "backup.json"
_UNFINISHED = "unfinished-"
_COPIED = re.compile(rb"(\d+)/(\d+) kB")
_FIRST_SEGMENT = re.compile(r"^START WAL LOCATION: .*\(file ([0-9A-F]{24})\)", re.MULTILINE)

Progress = Callable[[str, int, int], object]
"""Called with the step, the bytes done so far, and the bytes in all (0: not known)."""


class BackupFailed(FuelrouteError):
    """No backup was made; the text says why."""


class Backup(msgspec.Struct, frozen=True):
    """One base backup, as its `backup.json` describes it."""

    name: str
    started_at: datetime
    finished_at: datetime
    """The earliest moment to which it can be restored."""
    size_bytes: int
    schema_revision: str
    contact_key: str | None
    """The fingerprint of the key that seals contacts, which is not in the backup; None if there was no key."""
    first_segment: str
    """The first file of the archive that it needs."""
    database: Identity


def make_backup(settings: Settings, folder: Path, progress: Progress) -> Backup:
    """Copies the database of the running embedded stack into a new folder in `backups/`. The stack goes on. Raises
    ArchiveUnusable, BackupFailed, or psycopg.OperationalError if the database cannot be reached; no backup is left
    then."""
    postgres, folder = EmbeddedPostgres(settings.data), folder.absolute()
    with superuser(postgres, "fuelroute") as connection:
        claim_folder(folder, identity_of(connection))
        with _alone(folder), _unfinished(folder) as unfinished:
            started_at = _NOW.one(connection).now
            _copy(postgres, unfinished / CLUSTER, progress)
            finished = _NOW.one(connection)
            backup = Backup(
                name=f"{started_at:%Y%m%dT%H%M%S}Z",
                started_at=started_at,
                finished_at=finished.now,
                size_bytes=sum(file.stat().st_size for file in unfinished.rglob("*") if file.is_file()),
                schema_revision=finished.schema_revision,
                contact_key=Contacts.of(settings).fingerprint,
                first_segment=_first_segment(unfinished / CLUSTER),
                database=identity_of(connection),
            )
            write_private(unfinished / _DESCRIPTION, msgspec.json.encode(backup).decode() + "\n")
            unfinished.rename(folder / "backups" / backup.name)
    sync_names(folder / "backups")
    return backup


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keeps a second backup out of the folder. Raises BackupFailed if one is under way."""
    with open(folder / "lock", "a", opener=open_private) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupFailed(f"another backup is being made in {folder}: wait for its end") from None
        yield


@contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """A new folder, deleted at the end unless it was renamed. Older ones, left by a kill, are deleted first."""
    for left in (folder / "backups").glob(f"{_UNFINISHED}*"):
        shutil.rmtree(left)
    fresh = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=folder / "backups"))
    try:
        yield fresh
    except OSError as error:
        raise BackupFailed(f"cannot write the backup: {error.strerror or error}") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def list_backups(folder: Path) -> list[Backup]:
    """The finished backups, oldest first by their place in the log: a clock may have been wrong. Raises ArchiveUnusable
    if the folder is not one of backups."""
    made = folder / "backups"
    if not made.is_dir():
        raise ArchiveUnusable(f"{folder} is no folder of backups: name the one that `fuelroute backup` writes to")
    found = []
    for file in made.glob(f"[0-9]*/{_DESCRIPTION}"):
        try:
            found.append(msgspec.json.decode(file.read_bytes(), type=Backup))
        except (OSError, msgspec.MsgspecError):
            raise ArchiveUnusable(f"cannot read {file}: move the backup away to use the others") from None
    return sorted(found, key=lambda backup: (backup.first_segment, backup.finished_at))


def keep_newest(folder: Path, count: int) -> list[Backup]:
    """Deletes all backups except the newest, and the part of the archive that only the deleted ones needed. Returns
    the deleted ones."""
    backups = list_backups(folder)
    old, kept = backups[:-count], backups[-count:]
    for backup in old:
        shutil.rmtree(folder / "backups" / backup.name)
    for file in wal_files(folder) if old else ():
        if file.name < kept[0].first_segment:
            file.unlink()
    return old


def _copy(postgres: EmbeddedPostgres, target: Path, progress: Progress) -> None:
    """Runs `pg_basebackup`, which also brings the part of the log that makes the copy complete."""
    argv = [
        str(postgres.installed / "pg_basebackup"),
        f"--pgdata={target}",
        f"--dbname={postgres.admin_url}",
        "--no-password",
        "--checkpoint=fast",
        "--wal-method=stream",
        "--manifest-checksums=SHA256",
        "--progress",
    ]
    reading, writing = os.pipe()
    with (
        open(reading, "rb", buffering=0) as output,
        subprocess.Popen(argv, stderr=writing, env=server_environment(), umask=0o077) as process,  # noqa: S603
    ):
        os.close(writing)
        said = b""
        try:
            while part := output.read(65_536):
                said = (said + part)[-10_000:]
                for done, total in _COPIED.findall(part)[-1:]:
                    progress("copying the database", 1024 * int(done), 1024 * int(total))
        except BaseException:  # Ctrl-C: nothing goes on behind our back
            process.terminate()
            raise
    if process.returncode != 0:
        lines = said.decode(errors="replace").strip().splitlines()
        raise BackupFailed(next((line for line in reversed(lines) if "error" in line), "pg_basebackup failed"))


class _Now(NamedTuple):
    now: datetime
    schema_revision: str


_NOW = Statement(_Now, "SELECT clock_timestamp() AS now, version_num AS schema_revision FROM alembic_version")


def _first_segment(cluster: Path) -> str:
    """The piece of the log at which a recovery of the copy begins."""
    label = (cluster / "backup_label").read_text()
    (name,) = _FIRST_SEGMENT.findall(label)
    return str(name)
