"""The way back: a base backup and the archive become a data folder for `fuelroute up`.

Everything is made in a folder beside the new one, which gets its name at the very end: a restore that is cut short
leaves nothing that looks complete.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from deploy.backups.archive import PIECE_BYTES, segment_number, segment_of, superuser, wal_files
from deploy.backups.base_backups import CLUSTER, Backup, Progress, list_backups
from deploy.embedded import EmbeddedPostgres, running, sync_names, write_private
from deploy.embedded.folders import make_closed
from deploy.processes import RECOVERY_SECONDS, StartFailed
from domain.accounts.contacts import Contacts
from domain.database.statements import Scalar
from domain.errors import FuelrouteError
from domain.migrations import LaterSchema, migrate
from domain.settings import CONTACT_KEY_FILE

_MANIFEST = "backup_manifest"
_PORTION_BYTES = 1 << 20


class RestoreFailed(FuelrouteError):
    """Nothing was restored; the text says why."""


class DamagedBackup(RestoreFailed):
    """The files of a backup have changed since it was made."""

    def __init__(self, file: Path, fault: str) -> None:
        super().__init__(f"the backup is damaged: {file} {fault}. Choose another one with --backup")


class DamagedArchive(RestoreFailed):
    """The log of the archive cannot be replayed to its end."""

    def __init__(self, ends_at: datetime) -> None:
        super().__init__(
            "the archive is damaged: a part of it is missing or has changed, so the changes after"
            f" {ends_at} would be lost. Choose a backup that was made later with --backup, or restore what stands"
            " before the damage with --until-damage"
        )


class Restored(NamedTuple):
    backup: Backup
    last_change_at: datetime
    """When the last restored change was committed."""


def choose_backup(folder: Path, name: str | None, at: datetime | None) -> Backup:
    """The backup with that name, or the newest that was finished by `at`. Raises RestoreFailed if there is none."""
    backups = list_backups(folder)
    if not backups:
        raise RestoreFailed(f"there is no backup in {folder}")
    if name is not None:
        backups = [backup for backup in backups if backup.name == name]
        if not backups:
            raise RestoreFailed(f"there is no backup {name} in {folder}: see `fuelroute backup list`")
    fitting = [backup for backup in backups if at is None or backup.finished_at <= at]
    if not fitting:
        raise RestoreFailed(
            f"no backup was finished by {at}: the earliest time is {backups[0].finished_at} (`fuelroute backup list`)"
        )
    return fitting[-1]


def check_contact_key(backup: Backup, keys: str | None) -> None:
    """Check that the first key is the one that sealed the contacts. Raises RestoreFailed otherwise, with what to do."""
    if backup.contact_key is None or backup.contact_key == Contacts(keys).fingerprint:
        return
    which = "another key" if keys else "a key that is not in the backup"
    raise RestoreFailed(
        f"the drivers' contacts are sealed with {which}: give the copy of {CONTACT_KEY_FILE} with --contact-key FILE."
        " With --without-contact-key they are restored unreadable, and have to be imported again"
    )


@contextmanager
def restored_database(
    folder: Path,
    data: Path,
    backup: Backup,
    *,
    at: datetime | None,
    contact_key: str | None,
    progress: Progress,
    until_damage: bool = False,
) -> Iterator[tuple[str, Restored]]:
    """Restores into the folder `data`, which must be new or empty. Gives the URL of the restored database, at the
    current schema or a later one, for the block's last changes; after the block the folder is complete. Raises
    RestoreFailed, DamagedBackup if a file has changed, or DamagedArchive, unless it is restored `until_damage`."""
    data = data.absolute()
    if data.exists() and (not data.is_dir() or any(data.iterdir())):
        raise RestoreFailed(f"{data} is not empty: choose a new folder, so that nothing is overwritten")
    if data.is_symlink() or data.is_mount():  # the last step, which gives the folder its name, would fail
        raise RestoreFailed(f"{data} is a link or the root of a disk: choose a new folder in it")
    data.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{data.name}-restoring-", dir=data.parent))
    try:
        _copy_cluster(folder / "backups" / backup.name / CLUSTER, fresh / CLUSTER, progress)
        written = _copy_log(folder, backup, fresh / CLUSTER, progress)
        progress("replaying the log", 0, 0)
        if contact_key is not None:
            write_private(fresh / CONTACT_KEY_FILE, contact_key)
        with _recovered(fresh, at) as url:
            last_change_at = _last_change_at(fresh) or backup.finished_at
            if at is None and not until_damage and not _is_whole(written, _end_of_log(fresh / CLUSTER)):
                raise DamagedArchive(last_change_at)
            with suppress(LaterSchema):  # of a backup made after a step back to this release
                migrate(url)
            yield url, Restored(backup, last_change_at)
        fresh.rename(data)
        sync_names(data.parent)
    except OSError as error:
        raise RestoreFailed(f"cannot restore into {data}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _copy_cluster(source: Path, target: Path, progress: Progress) -> None:
    """Copies the files of a base backup, and compares each with the manifest. Raises DamagedBackup if one differs."""
    files = _manifest(source / _MANIFEST)
    _copy_folders(source, target)
    total, done = sum(size for size, _ in files.values()), 0
    for name, (size, checksum) in files.items():
        hashed = hashlib.sha256()
        try:
            with open(source / name, "rb") as old, open(target / name, "xb") as new:
                while portion := old.read(_PORTION_BYTES):
                    hashed.update(portion)
                    new.write(portion)
        except FileNotFoundError:
            raise DamagedBackup(source / name, "is missing") from None
        if hashed.hexdigest() != checksum:
            raise DamagedBackup(source / name, "has changed since the backup was made")
        done += size
        progress("copying the database", done, total)


def _copy_folders(source: Path, target: Path) -> None:
    target.mkdir()
    for folder, inner, _ in os.walk(source):
        for name in inner:
            (target / Path(folder, name).relative_to(source)).mkdir()


def _manifest(file: Path) -> dict[str, tuple[int, str]]:
    """Size and SHA-256 of each file of a base backup, from PostgreSQL's manifest. Raises DamagedBackup if that cannot
    be read."""
    try:
        content = file.read_bytes()
        manifest = json.loads(content)
        listed, marker = content[: content.rindex(b'"Manifest-Checksum"')], manifest["Manifest-Checksum"]
        files = {entry["Path"]: (entry["Size"], entry["Checksum"]) for entry in manifest["Files"]}
    except FileNotFoundError:
        raise DamagedBackup(file, "is missing") from None
    except (ValueError, KeyError, TypeError):
        raise DamagedBackup(file, "cannot be read") from None
    if hashlib.sha256(listed).hexdigest() != marker:
        raise DamagedBackup(file, "has changed since the backup was made")
    return files


def _copy_log(folder: Path, backup: Backup, cluster: Path, progress: Progress) -> dict[str, int]:
    """Brings the write-ahead log to where PostgreSQL finds it: the part in the base backup, and the archive from there
    on. If both have a piece, the longer one is taken. Returns the number of bytes in each piece."""
    pieces = list((folder / "backups" / backup.name / CLUSTER / "pg_wal").glob("[0-9A-F]*"))
    pieces += [file for file in wal_files(folder) if segment_of(file) >= backup.first_segment]
    written: dict[str, int] = {}
    for number, piece in enumerate(pieces, 1):
        content = piece.read_bytes()
        length = len(content.rstrip(b"\0"))  # what was not written yet is zeros
        if length >= written.get(segment_of(piece), 0):
            (cluster / "pg_wal" / segment_of(piece)).write_bytes(content)
            written[segment_of(piece)] = length
        progress("copying the log", number * len(content), len(pieces) * len(content))
    return written


_CUT_BYTES = 1 << 20
"""A kill cuts off the last record of the log, which may begin in the piece before. No record has so many bytes."""


def _is_whole(written: Mapping[str, int], end: int) -> bool:
    """False if a part of the log lies behind the place where its replay came to an end. PostgreSQL takes a missing or
    damaged piece for the end of the log, and says nothing."""
    known = {name: length for name, length in written.items() if length and "." not in name}
    pieces = {PIECE_BYTES * segment_number(name): length for name, length in known.items()}
    behind = sum(max(0, begin + length - max(begin, end)) for begin, length in pieces.items())
    has_gap = len(pieces) <= (max(pieces) - min(pieces)) // PIECE_BYTES
    is_far = max(pieces) - end > PIECE_BYTES
    return behind <= (0 if has_gap or is_far else _CUT_BYTES)


def _end_of_log(cluster: Path) -> int:
    """The place up to which the log was replayed: there the database began its new life."""
    history = max((cluster / "pg_wal").glob("*.history"))
    high, low = history.read_text().splitlines()[-1].split("\t")[1].split("/")
    return (int(high, 16) << 32) + int(low, 16)


@contextmanager
def _recovered(data: Path, at: datetime | None) -> Iterator[str]:
    """Runs PostgreSQL on the copied cluster. The block begins once the log is replayed, and its end stops the server.
    Raises RestoreFailed if the log cannot be replayed."""
    options = {
        "hot_standby": "off",  # whoever gets a connection gets it to a recovered database
        "restore_command": "false",  # everything is in `pg_wal` already: its user may have no way to the archive
        "recovery_target_action": "promote",
    }
    if at is not None:
        options["recovery_target_time"] = at.astimezone(UTC).isoformat()
    postgres = EmbeddedPostgres(data, options=options)
    (postgres.folder / "recovery.signal").touch(mode=0o600)
    for path in (postgres.folder, *postgres.folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
        postgres.hand_over(path)
    make_closed(data, data / "logs")
    try:
        with running(postgres, seconds=RECOVERY_SECONDS) as url:
            yield url
            with superuser(postgres) as connection:
                connection.execute("CHECKPOINT")  # the end of the block leaves it little to write
    except StartFailed as failed:
        if "recovery ended before" in str(failed):
            raise RestoreFailed(
                f"the archive ends before {at}: choose an earlier time, or none to restore all"
            ) from None
        raise RestoreFailed(f"PostgreSQL could not replay the log: {failed}") from None


_LAST_CHANGE = Scalar(datetime | None, "SELECT pg_last_xact_replay_timestamp()")
"""The time of the last replayed change; NULL if the log had none."""


def _last_change_at(data: Path) -> datetime | None:
    with superuser(EmbeddedPostgres(data)) as connection:
        return _LAST_CHANGE.one(connection)
