"""The archive of PostgreSQL's log, as the server itself sees it, and the newest backup: what a disaster would cost."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from domain.database.statements import Statement

ARCHIVE_SLOT = "fuelroute_archive"
"""The replication slot by which `fuelroute up` archives the embedded database."""

BACKUP_OLD_AFTER = timedelta(hours=36)
"""A backup is due each day. This leaves one time for a late one, and for a long one."""


class Archive(NamedTuple):
    """The archive that has the least: of a server with an `archive_command`, or with the slot of `fuelroute up`."""

    works: bool
    """False if nobody reads the slot, if the part of the log that it lacks is deleted, or if the last try of the
    `archive_command` failed."""
    bytes_behind: int | None
    """Bytes of the log that are not archived; None if nothing was archived yet, or PostgreSQL has deleted a part."""


_ARCHIVE = Statement(
    Archive,
    f"""
    SELECT bool_and(works) AS works, max(bytes_behind) AS bytes_behind FROM (
        SELECT active AND restart_lsn IS NOT NULL AS works,
               pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::int8 AS bytes_behind
        FROM pg_replication_slots WHERE slot_name = '{ARCHIVE_SLOT}'
        UNION ALL
        SELECT coalesce(last_failed_time <= last_archived_time, last_failed_time IS NULL),
               CASE WHEN last_archived_wal ~ '^[0-9A-F]{{24}}' THEN
                   (pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')
                   - ('x' || substr(last_archived_wal, 9, 8))::bit(32)::int8 * 4294967296
                   - (('x' || substr(last_archived_wal, 17, 8))::bit(32)::int8 + 1)
                     * pg_size_bytes(current_setting('wal_segment_size')))::int8 END
        FROM pg_stat_archiver WHERE current_setting('archive_mode') <> 'off') AS archives
    WHERE NOT pg_is_in_recovery() HAVING count(*) > 0
    """,  # the name of a segment: eight digits of its timeline, then its place in the log
)


def read_archive(connection: psycopg.Connection[Any]) -> Archive | None:
    """The state of the archive; None where nothing is archived, and on a standby."""
    return _ARCHIVE.first(connection)


def newest_backup_at(folder: Path) -> datetime | None:
    """When the newest backup in the folder of `fuelroute backup` was finished; None if there is none."""
    finished = [file.stat().st_mtime for file in folder.glob("backups/[0-9]*/backup.json")]
    return datetime.fromtimestamp(max(finished), UTC) if finished else None
