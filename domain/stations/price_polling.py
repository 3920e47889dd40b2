"""Polls a source of price files: imports the files that have come since, and records each outcome.

A file is imported in one transaction with the record of its run, so a process that dies in between takes it again. One
file, read in one way, is imported once; its content at a later time is a newer file."""

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from psycopg.errors import DeadlockDetected, LockNotAvailable, QueryCanceled

from domain.accounts.contacts import Contacts, UnreadableContact
from domain.database.connections import Connection, Transaction
from domain.database.health import is_servers_fault
from domain.errors import FuelrouteError
from domain.files.kept_profiles import kept_profiles, read_kept_profile
from domain.files.profiles import FileProfile
from domain.files.reading import AUTO, recognize
from domain.stations.price_fetching import (
    MOST_FILES_TAKEN,
    FetchFailed,
    FileChanged,
    FileNotFetched,
    ListedFile,
    OpenSource,
    open_source,
    working_folder,
)
from domain.stations.price_files import store_price_file
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_profiles import BUILT_IN, PRICE_FIELDS, UnknownProfile
from domain.stations.price_rows import PriceReport
from domain.stations.price_runs import RunFile, file_hash_of, record_run, was_taken
from domain.stations.price_sources import (
    STILL_WRITTEN,
    PriceSource,
    SeenFile,
    begin_poll,
    lock_source,
    note_file,
    note_poll,
)
from domain.stations.prices import STALE_AFTER
from domain.telemetry.logs import get_logger
from domain.wording import counted

log = get_logger(__name__)

TRY_AGAIN = timedelta(hours=1)
"""Wait until a file that failed is tried again, since the cause may be gone: a station is known now, a limit was
changed. If its profile has changed, it is tried at the next poll."""
MOST_FILES_READ = 4 * MOST_FILES_TAKEN
"""Most files that one poll fetches, those included that turn out to be known."""


class SourcePoll(NamedTuple):
    """The outcome of a poll: files imported, files refused, and files that may still be growing."""

    files: int
    waiting: int
    fault: str | None


def price_profile_of(connection: Connection, company_id: Any, name: str, path: Path) -> FileProfile:
    """The profile of this name; for `auto` the one that fits the file's headings. Raises UnknownProfile if there is
    none, and UnreadableFile if the file cannot be read."""
    if name != AUTO:
        return price_profile(connection, company_id, name)
    kept = kept_profiles(connection, company_id, PRICE_FIELDS.subject)
    return recognize(path, list(BUILT_IN.values()), PRICE_FIELDS, kept=kept)


def price_profile(connection: Connection, company_id: Any, name: str) -> FileProfile:
    """A profile of the company, or a built-in one. Raises UnknownProfile if there is neither."""
    found = read_kept_profile(connection, company_id, PRICE_FIELDS.subject, name) or BUILT_IN.get(name)
    if found is None:
        raise UnknownProfile(name, sorted(BUILT_IN))
    return found


def poll_source(
    transaction: Transaction,
    source: PriceSource,
    *,
    contacts: Contacts,
    limits: OutlierLimits,
    now: datetime,
    retry: bool = False,
) -> SourcePoll:
    """Takes the files that are complete. With `retry` failed ones are tried again at once. A fault of the source is
    stored with it, and never raised."""
    with transaction() as connection:
        read_with = _read_with(connection, source)
        begin_poll(connection, source, now=now)
    poll = _Poll(transaction, source, read_with, limits, now, timedelta() if retry else TRY_AGAIN)
    try:
        with open_source(source, contacts.open(source.secret)) as opened, working_folder() as folder:
            poll.take(opened, folder / "file")
    except (FetchFailed, UnreadableContact) as error:
        log.warning("price_sources.look_failed", source_id=source.id, company_id=source.company_id, error=str(error))
        poll.fault = str(error)
        with transaction() as connection:
            note_poll(connection, source, fault=poll.fault, seen=poll.all_seen(), failed=True, now=now)
        return SourcePoll(poll.files, 0, poll.fault)
    waiting = sum(poll.is_waiting(one) for one in poll.seen.values())
    with transaction() as connection:
        note_poll(connection, source, fault=poll.fault, seen=poll.seen, failed=False, now=now)
    return SourcePoll(poll.files, waiting, poll.fault)


def _read_with(connection: Connection, source: PriceSource) -> str:
    """A digest of the profiles by which the source's files are read; it changes with each of them."""
    if source.profile == AUTO:
        profiles = [*kept_profiles(connection, source.company_id, PRICE_FIELDS.subject), *BUILT_IN.values()]
    else:
        kept = read_kept_profile(connection, source.company_id, PRICE_FIELDS.subject, source.profile)
        profiles = [one for one in (kept or BUILT_IN.get(source.profile),) if one is not None]
    return hashlib.sha256(msgspec.json.encode(profiles)).hexdigest()[:16]


@dataclass(slots=True)
class _Poll:
    """One poll, which goes through the listed files, the oldest first."""

    transaction: Transaction
    source: PriceSource
    read_with: str
    limits: OutlierLimits
    now: datetime
    try_again: timedelta
    seen: dict[str, SeenFile] = field(default_factory=dict)
    files: int = 0
    read: int = 0
    fault: str | None = None
    """The fault of the newest file; None after a newer one was imported."""
    again: bool = False
    """True if an older file was imported late: the files after it are read again, so that the newest counts."""
    is_listed: bool = False
    wholes: set[str] = field(default_factory=set)
    """The names of listed files that are not empty, with and without their endings."""

    @property
    def seconds(self) -> int:
        return int(self.now.timestamp())

    def all_seen(self) -> dict[str, SeenFile] | None:
        """The state of the files after a poll that broke off; None if it learned nothing new."""
        return self.source.seen_files | self.seen if self.is_listed else None

    def take(self, opened: OpenSource, target: Path) -> None:
        """Goes through the files of the source. Raises FetchFailed when the source stops answering; the poll then ends
        with that fault."""
        before = self.source.seen_files
        listed = opened.files()
        self.is_listed = True
        self.wholes = {name for file in listed if file.size_bytes for name in (file.name, Path(file.name).stem)}
        for file in listed:
            one = self._seen_now(file, before.get(file.name))
            self.seen[file.name] = one
            if self._is_due(file, one, before.get(file.name)):
                self.seen[file.name] = one = self._take(opened, file, one, target)
            self._tell(file, one)

    def _seen_now(self, file: ListedFile, before: SeenFile | None) -> SeenFile:
        """The record of a file before it is read."""
        if before is not None and before.is_like(file.size_bytes, file.modified_at):
            if before.state == "taken" and self.again and file.size_bytes:
                return before._replace(state="again")
            return before
        if before is None and self._is_old(file) and not self.source.was_listed:
            return SeenFile(file.size_bytes, file.modified_at, "taken", self.seconds, self.seconds, self.read_with)
        if not file.size_bytes and Path(file.name).stem in self.wholes:  # it only marks that the other one is whole
            return SeenFile(0, file.modified_at, "taken", self.seconds, 0, self.read_with)
        since = before.since if before is not None and not before.state else self.seconds
        return SeenFile(file.size_bytes, file.modified_at, "", since)

    def _is_old(self, file: ListedFile) -> bool:
        """True if no price of it can count, unless its rows have another time. False for a source without times."""
        return 0 < file.modified_at < (self.now - STALE_AFTER).timestamp()

    def _is_due(self, file: ListedFile, one: SeenFile, before: SeenFile | None) -> bool:
        if file.size_bytes == 0 or self.files >= MOST_FILES_TAKEN or self.read >= MOST_FILES_READ:
            return False
        waited = self.seconds - one.tried >= self.try_again.total_seconds()
        if one.state == "failed":
            return (waited or one.read_with != self.read_with) and not self._is_old(file)
        if one.state == "taken":
            # Without a time only the content tells that the file is another one.
            return (waited and not file.modified_at) or (one.read_with != self.read_with and not self._is_old(file))
        return one.state == "again" or (before is not None and before.is_like(file.size_bytes, file.modified_at))

    def is_waiting(self, one: SeenFile) -> bool:
        """True for a file to look at again soon."""
        return one.state == "again" or (not one.state and self.seconds - one.since < STILL_WRITTEN.total_seconds())

    def _tell(self, file: ListedFile, one: SeenFile) -> None:
        """Notes the fault of the file, or that a newer file was imported."""
        if one.state == "taken" and one.tried:
            self.fault = None
        elif one.fault:
            self.fault = one.fault
        elif not one.state and not self.is_waiting(one):
            what = "empty" if not one.size_bytes else "still being written"
            self.fault = f"{file.name}: it has been {what} for an hour: ask whoever sends it"

    def _take(self, opened: OpenSource, file: ListedFile, one: SeenFile, target: Path) -> SeenFile:
        """Fetches and imports a file. Raises FetchFailed when the source stops answering; the poll then ends with that
        fault."""
        tried = one._replace(tried=self.seconds, read_with=self.read_with, fault="")
        self.read += 1
        try:
            opened.fetch(file, target)
            taken = self._import(file, one, target)
        except FileChanged:
            return one._replace(state="")
        except (LockNotAvailable, DeadlockDetected, QueryCanceled) as error:
            log.warning("price_sources.import_waits", source_id=self.source.id, error=str(error))
            return one if one.state == "failed" else one._replace(state="again")
        except FileNotFetched as error:
            return self._failed(file, tried, str(error))
        except FetchFailed:
            raise
        except FuelrouteError as error:
            return self._failed(file, tried, str(error).replace(str(target), "the file"))
        except Exception as error:
            if is_servers_fault(error):
                raise
            log.exception("price_sources.import_failed", source_id=self.source.id, company_id=self.source.company_id)
            return self._failed(file, tried, "something failed on our side")
        self.files += taken
        # Also where the import is known already: the process may have died before it read the newer files again.
        self.again = self.again or one.state in ("failed", "again")
        return tried._replace(state="taken")

    def _failed(self, file: ListedFile, tried: SeenFile, why: str) -> SeenFile:
        fault = (why if why.startswith(file.name) else f"{file.name}: {why}")[:1_000]
        self.files += 1
        return tried._replace(state="failed", fault=fault)

    def _import(self, file: ListedFile, one: SeenFile, path: Path) -> bool:
        """Imports a fetched file. Returns False if it was imported before. Raises FuelrouteError if it cannot be
        imported, after recording a run with the fault."""
        modified_at = datetime.fromtimestamp(file.modified_at, UTC) if file.modified_at else None
        source, first_seen = self.source, datetime.fromtimestamp(one.since or self.seconds, UTC)
        run = RunFile(
            source.id,
            file.name[:400],
            file_hash_of(path),
            source.profile,
            f"source {source.name}",
            modified_at,
            self.read_with,
        )
        try:
            with self.transaction() as connection:
                if not lock_source(connection, source):
                    return False
                if one.state != "again" and was_taken(connection, source.id, run):
                    return False
                profile = price_profile_of(connection, source.company_id, source.profile, path)
                report = store_price_file(
                    connection,
                    source.company_id,
                    path,
                    profile,
                    takes_retail=source.takes_retail,
                    limits=self.limits,
                    now=self.now,
                    # A clock that is ahead does not make the file newer than it can be.
                    priced_at=min(modified_at or first_seen, first_seen, self.now),
                )
                if report.created + report.updated + report.unchanged + report.held == 0:
                    raise _Unused(report)
                record_run(connection, source.company_id, run, report, None, now=self.now)
                note_file(connection, source, now=self.now)
        except FuelrouteError as error:
            report = error.report if isinstance(error, _Unused) else PriceReport()
            self._record_failure(file, one, run, str(error).replace(str(path), "the file"), report)
            raise
        log.info("price_sources.file_imported", source_id=source.id, company_id=source.company_id, held=report.held)
        return True

    def _record_failure(self, file: ListedFile, one: SeenFile, run: RunFile, why: str, report: PriceReport) -> None:
        """Records a run of the failed file, unless it has failed in this way before."""
        fault = f"{file.name}: {why}"[:1_000]
        if one.fault != fault:
            with self.transaction() as connection:
                record_run(connection, self.source.company_id, run, report, fault, now=self.now)


class _Unused(FuelrouteError):
    """The file can be read and brings no price at all."""

    def __init__(self, report: PriceReport) -> None:
        self.report = report
        if not report.rejected:
            return super().__init__("it has no rows with prices")
        first, rows = min(report.rejected), counted(report.refused, "row")
        super().__init__(f"none of its {rows} can be used; line {first.line}: {first.message}")
