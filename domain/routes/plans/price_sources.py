"""A look at a source of price files: takes the files that have come since, and says what became of each.

A file is imported in one transaction with the record of its run, so a process that dies in between takes it again. The
same content never counts twice.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from domain.accounts.companies import RetiredCompany
from domain.accounts.contacts import Contacts, UnreadableContact
from domain.contract.csvfiles import UnreadableFile
from domain.database import Connection
from domain.file_profiles.kept_profiles import kept_profiles, read_kept_profile
from domain.file_profiles.profiles import FileProfile
from domain.file_profiles.reading import AUTO, recognize
from domain.observability import get_logger
from domain.queue.jobs import Job
from domain.routes.plans.price_changes import import_price_file
from domain.stations.price_fetching import (
    MOST_FILES_TAKEN,
    FetchFailed,
    ListedFile,
    OpenSource,
    open_source,
    working_folder,
)
from domain.stations.price_files import PriceReport
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_profiles import BUILT_IN, PRICE_FIELDS, UnknownProfile
from domain.stations.price_runs import RunFile, file_hash_of, record_run, was_taken
from domain.stations.price_sources import LOOK_EVERY, PriceSource, lock_source, note_file, note_look
from domain.stations.prices import STALE_AFTER

log = get_logger(__name__)

OpenTransaction = Callable[[], AbstractContextManager[Connection]]

_TAKEN = "taken"
_LOOK_AGAIN = timedelta(seconds=30)
"""A file that may still be written is looked at again so soon."""


class SourceLook(NamedTuple):
    """The outcome of a look: files that were imported or refused, those that may still be written, and jobs."""

    files: int
    waiting: int
    fault: str | None
    jobs: list[Job]


def price_profile_of(connection: Connection, company_id: Any, name: str, path: Path) -> FileProfile:
    """The profile of this name; for `auto` the one that fits the file's headings. Raises UnknownProfile,
    UnreadableFile."""
    if name != AUTO:
        return price_profile(connection, company_id, name)
    kept = kept_profiles(connection, company_id, PRICE_FIELDS.subject)
    return recognize(path, list(BUILT_IN.values()), PRICE_FIELDS, kept=kept)


def price_profile(connection: Connection, company_id: Any, name: str) -> FileProfile:
    """A profile that the company keeps, or one that is built in. Raises UnknownProfile."""
    found = read_kept_profile(connection, company_id, PRICE_FIELDS.subject, name) or BUILT_IN.get(name)
    if found is None:
        raise UnknownProfile(name, sorted(BUILT_IN))
    return found


def look_at_source(
    transaction: OpenTransaction, source: PriceSource, *, contacts: Contacts, limits: OutlierLimits, now: datetime
) -> SourceLook:
    """Takes the files that are whole. A fault of the source is stored with it, and never raised."""
    jobs: list[Job] = []
    try:
        secret = contacts.open(source.secret)
        with open_source(source, secret) as opened, working_folder() as folder:
            listed = opened.files()
            seen, taken, fault = _take(transaction, source, opened, listed, folder, limits, jobs, now)
    except (FetchFailed, UnreadableContact) as error:
        log.warning("price_sources.look_failed", source_id=source.id, company_id=source.company_id, error=str(error))
        with transaction() as connection:
            note_look(connection, source, fault=str(error)[:1_000], seen=None, now=now)
        return SourceLook(0, 0, str(error), jobs)
    waiting = sum(1 for about in seen.values() if about[2] != _TAKEN)
    looked_at = now - LOOK_EVERY + _LOOK_AGAIN if waiting else now
    with transaction() as connection:
        note_look(connection, source, fault=fault, seen=seen, now=looked_at)
    return SourceLook(taken, waiting, fault, jobs)


def _take(
    transaction: OpenTransaction,
    source: PriceSource,
    opened: OpenSource,
    listed: list[ListedFile],
    folder: Path,
    limits: OutlierLimits,
    jobs: list[Job],
    now: datetime,
) -> tuple[dict[str, Any], int, str | None]:
    """The state of the listed files now, the number that was taken, and the fault of the last one."""
    seen: dict[str, Any] = {}
    taken, fault = 0, source.file_fault
    oldest = (now - STALE_AFTER).timestamp()
    for file in listed:
        before = source.seen.get(file.name)
        about = [file.size_bytes, file.modified_at]
        if before == [*about, _TAKEN] or file.modified_at < oldest:
            seen[file.name] = [*about, _TAKEN]
        elif before is None or before[:2] != about or file.size_bytes == 0 or taken >= MOST_FILES_TAKEN:
            seen[file.name] = [*about, ""]
        else:
            target = folder / "file"
            opened.fetch(file.name, target)
            if target.stat().st_size != file.size_bytes:  # it is being written
                seen[file.name] = [target.stat().st_size, file.modified_at, ""]
                continue
            fault = _import(transaction, source, file, target, limits, jobs, now)
            seen[file.name] = [*about, _TAKEN]
            taken += 1
    return seen, taken, fault


def _import(
    transaction: OpenTransaction,
    source: PriceSource,
    file: ListedFile,
    path: Path,
    limits: OutlierLimits,
    jobs: list[Job],
    now: datetime,
) -> str | None:
    """The fault of the file, if it has one."""
    run = RunFile(source.id, file.name[:400], file_hash_of(path), source.profile, f"source {source.name}")
    try:
        with transaction() as connection:
            if lock_source(connection, source) is None or was_taken(connection, source.id, run.hash):
                return None
            report, more = import_price_file(
                connection,
                source.company_id,
                path,
                price_profile_of(connection, source.company_id, source.profile, path),
                takes_retail=source.takes_retail,
                limits=limits,
                now=now,
                priced_at=min(datetime.fromtimestamp(file.modified_at, UTC), now),
            )
            record_run(connection, source.company_id, run, report, None, now=now)
            note_file(connection, source, now=now)
    except (UnreadableFile, UnknownProfile, RetiredCompany) as error:
        fault = f"{file.name}: {str(error).replace(str(path), 'the file')}"[:1_000]
        with transaction() as connection:
            record_run(connection, source.company_id, run, PriceReport(), fault, now=now)
        return fault
    jobs += more
    log.info("price_sources.file_imported", source_id=source.id, company_id=source.company_id, held=report.held)
    return None
