"""Sources of price files: a watched folder, or a folder on an SFTP server, from which the scheduler fetches files.

The company's files are listed, and a file is imported once its size and time have been the same at two polls, so that
none is taken half-written. `SeenFile` has the state of each listed file. A source that cannot be read is asked less and
less often, down to once an hour."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from domain.accounts.allowed_hosts import NO_HOST
from domain.accounts.companies import lock_company
from domain.accounts.contacts import Contacts, SealedColumn
from domain.addresses import is_host
from domain.audit.entries import Action, Actor, record_about
from domain.contract.shapes import Text
from domain.database.connections import Connection, as_json
from domain.database.owned import Owned
from domain.database.statements import Command, Statement
from domain.errors import FuelrouteError, Unknown
from domain.ids import new_id, read_id

SourceKind = Literal["folder", "sftp"]

MOST_SOURCES = 20
"""Most sources of a company."""

POLL_EVERY = timedelta(minutes=5)
"""Time between two polls of a source; files come once or a few times a day."""

POLL_AGAIN = timedelta(seconds=30)
"""Wait until a source with a file that may still be growing is polled again."""

STILL_WRITTEN = timedelta(hours=1)
"""A file that is incomplete for this long is reported, and no longer waited for."""

LONGEST_PAUSE = timedelta(hours=1)
"""Longest wait between polls of a source that fails."""

TOLD_AFTER = timedelta(hours=1)
"""The owner of a source that has failed this long is told, before its files are late."""

DEFAULT_EXPECTED_HOURS = 26
"""Daily files come at about one time; two hours later is late."""


class SourceAddress(Struct, frozen=True, omit_defaults=True):
    """The place of the files."""

    path: Annotated[Text, Meta(min_length=1, max_length=1_000)]
    """The folder, which must be absolute for `folder`."""
    pattern: Annotated[Text, Meta(min_length=1, max_length=200)] = "*"
    """The pattern of file names, such as `*.csv`."""
    host: Annotated[Text, Meta(max_length=255)] = ""
    port: Annotated[int, Meta(ge=1, le=65_535)] = 22
    user: Annotated[Text, Meta(max_length=200)] = ""
    host_key: Annotated[Text, Meta(max_length=2_000)] = ""
    """The server's public key, as `ssh-keyscan` prints it without the host: `ssh-ed25519 AAAA...`."""


class SeenFile(NamedTuple):
    """A listed file, and its state."""

    size_bytes: int
    modified_at: int
    """Seconds since 1970, by the source's clock; 0 if it does not tell."""
    state: Literal["", "taken", "failed", "again"] = ""
    """Empty while it may still be growing. "again": it was imported, and is to be read once more after an older one."""
    since: int = 0
    """Seconds since 1970, by our clock, of the first poll that found it in this state."""
    tried: int = 0
    """Seconds since 1970, by our clock, of the last attempt."""
    read_with: str = ""
    """A digest of the profile by which it was read, see `RunFile.read_with`; empty if an earlier release imported
    it."""
    fault: str = ""

    def is_like(self, size_bytes: int, modified_at: int) -> bool:
        return (self.size_bytes, self.modified_at) == (size_bytes, modified_at)


HAS_TROUBLE = """
    paused_at IS NULL AND (coalesce(file_at, created_at) + expected_hours * interval '1 hour' < %(now)s::timestamptz
                           OR failing_since < %(now)s::timestamptz - %(after)s::interval)
"""
"""SQL of `PriceSource.trouble_since`; `after` is TOLD_AFTER."""


class PriceSource(NamedTuple):
    id: UUID
    company_id: UUID
    name: str
    kind: str
    profile: str
    address: dict[str, Any]
    secret: str | None
    takes_retail: bool
    expected_hours: int
    created_at: datetime
    paused_at: datetime | None
    looked_at: datetime | None
    file_at: datetime | None
    fault: str | None
    seen: dict[str, Any]
    failures: int
    """Failed polls in a row."""
    failing_since: datetime | None
    """When the fault of the source, or of its last file, began; None without a fault."""

    @property
    def place(self) -> SourceAddress:
        return msgspec.convert(self.address, SourceAddress)

    @property
    def seen_files(self) -> dict[str, SeenFile]:
        return {name: SeenFile(*about) for name, about in self.seen.items()}

    @property
    def was_listed(self) -> bool:
        """False before the first poll that succeeds: files that are there already are history."""
        return bool(self.seen) or self.file_at is not None or (self.looked_at is not None and not self.failures)

    def late_since(self, now: datetime) -> datetime | None:
        """When its file was due; None while it is not late, or paused."""
        due = (self.file_at or self.created_at) + timedelta(hours=self.expected_hours)
        return due if self.paused_at is None and due < now else None

    def trouble_since(self, now: datetime) -> datetime | None:
        """The time when its file became late, or when a failure that has lasted an hour began. None while its owner has
        nothing to look at."""
        is_failing = self.paused_at is None and self.failing_since is not None
        failing = self.failing_since if is_failing else None
        return self.late_since(now) or (failing if failing is not None and failing < now - TOLD_AFTER else None)


class NewSource(NamedTuple):
    name: str
    kind: SourceKind
    profile: str
    address: SourceAddress
    secret: str | None
    takes_retail: bool
    expected_hours: int = DEFAULT_EXPECTED_HOURS


class UnknownSource(Unknown):
    def __init__(self, name: str) -> None:
        super().__init__(f"the company has no source {name!r}: see `fuelroute sources list`")


class UnusableSource(FuelrouteError):
    """The source cannot be stored; the text says what to change."""


SOURCES = Owned(PriceSource, "price_sources", kind="src", unknown=UnknownSource, order="name")

SOURCE_SECRETS = SealedColumn("price_sources", "secret")

_READ = Statement(
    PriceSource, f"SELECT {SOURCES.columns} FROM price_sources WHERE company_id = %s AND (id = %s::uuid OR name = %s)"
)
_WAITS = """EXISTS (
    SELECT FROM jsonb_each(seen) AS file (name, about) WHERE about ->> 2 = 'again'
    OR about ->> 2 = '' AND (about ->> 3)::bigint > extract(epoch FROM %(now)s::timestamptz - %(still)s::interval))"""
"""A file of the source should be polled again soon; see `SeenFile`."""
_DUE = Statement(
    PriceSource,
    f"SELECT {SOURCES.columns} FROM price_sources WHERE paused_at IS NULL"
    " AND (looked_at IS NULL OR looked_at"
    " <= %(now)s::timestamptz - least(%(every)s::interval * 2 ^ least(failures, 16), %(longest)s::interval)"
    f" OR failures = 0 AND looked_at <= %(now)s::timestamptz - %(again)s::interval AND {_WAITS})"
    " ORDER BY failures > 0, looked_at NULLS FIRST, id LIMIT %(limit)s",
)
_ADD = Command(
    "INSERT INTO price_sources (id, company_id, name, kind, profile, address, secret, takes_retail, expected_hours,"
    " created_at, seen) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, '{}')"
    " ON CONFLICT (company_id, name) DO NOTHING"
)
_PAUSE = Command("UPDATE price_sources SET paused_at = coalesce(paused_at, %s) WHERE company_id = %s AND id = %s")
_RESUME = Command(
    "UPDATE price_sources SET paused_at = NULL, looked_at = NULL, failing_since = NULL"
    " WHERE company_id = %s AND id = %s"
)
_REMOVE = Command("DELETE FROM price_sources WHERE company_id = %s AND id = %s")
_LOOKED = Command(
    "UPDATE price_sources SET looked_at = %(now)s, fault = %(fault)s::text, seen = coalesce(%(seen)s::jsonb, seen),"
    " failures = %(failures)s,"
    " failing_since = CASE WHEN %(fault)s::text IS NOT NULL THEN coalesce(failing_since, %(now)s) END"
    " WHERE company_id = %(company_id)s AND id = %(id)s"
)
_BEGIN = Command("UPDATE price_sources SET looked_at = %s, failures = %s WHERE company_id = %s AND id = %s")
_CAME = Command("UPDATE price_sources SET file_at = %s WHERE company_id = %s AND id = %s")


def add_source(
    connection: Connection, company_id: UUID, source: NewSource, by: Actor, *, contacts: Contacts, now: datetime
) -> UUID:
    """Stores a new source. Raises UnusableSource, with what to change, UnknownCompany, RetiredCompany."""
    _check(source)
    lock_company(connection, company_id)
    full = UnusableSource(f"a company has {MOST_SOURCES} sources at most: remove one")
    SOURCES.require_room(connection, (company_id,), MOST_SOURCES, full)
    source_id = new_id()
    address = as_json(msgspec.to_builtins(source.address))
    values = (source_id, company_id, source.name, source.kind, source.profile, address, contacts.seal(source.secret))
    if _ADD.execute(connection, (*values, source.takes_retail, source.expected_hours, now)).rowcount == 0:
        raise UnusableSource(f"there is a source {source.name!r} already: give another name, or remove it first")
    record_about(connection, by, Action("sources.add"), "src", source_id, company_id=company_id)
    return source_id


def _check(source: NewSource) -> None:
    address = source.address
    if not source.name or len(source.name) > 100:
        raise UnusableSource("a source needs a name of at most 100 characters")
    if not 1 <= source.expected_hours <= 24 * 31:
        raise UnusableSource("files are expected every 1 to 744 hours")
    if "/" in address.pattern:
        raise UnusableSource("the pattern is of names, such as *.csv: the folder is given apart")
    if source.kind == "folder":
        if not address.path.startswith("/"):
            raise UnusableSource("the folder's path must begin with /")
        return
    missing = [name for name in ("host", "user", "host_key") if not getattr(address, name)]
    if not source.secret:
        missing.append("password or key")
    if missing:
        raise UnusableSource(f"an SFTP source needs {', '.join(missing)}")
    if not is_host(address.host):
        raise UnusableSource(f"the source {NO_HOST}")
    if len(address.host_key.split()) < 2:
        raise UnusableSource("give the server's key as `ssh-keyscan HOST` prints it: ssh-ed25519 AAAA...")


def read_source(connection: Connection, company_id: UUID, name: str) -> PriceSource:
    """A source by its name, or by its id in the form for people. Raises UnknownSource if there is none."""
    found = _READ.first(connection, (company_id, read_id("src", name), name))
    if found is None:
        raise UnknownSource(name)
    return found


def pause_source(connection: Connection, source: PriceSource, by: Actor, *, now: datetime) -> None:
    _PAUSE.execute(connection, (now, source.company_id, source.id))
    record_about(connection, by, Action("sources.pause"), "src", source.id, company_id=source.company_id)


def resume_source(connection: Connection, source: PriceSource, by: Actor) -> None:
    _RESUME.execute(connection, (source.company_id, source.id))
    record_about(connection, by, Action("sources.resume"), "src", source.id, company_id=source.company_id)


def remove_source(connection: Connection, source: PriceSource, by: Actor) -> None:
    _REMOVE.execute(connection, (source.company_id, source.id))
    record_about(connection, by, Action("sources.remove"), "src", source.id, company_id=source.company_id)


def due_sources(connection: Connection, *, now: datetime, limit: int) -> Sequence[PriceSource]:
    """The sources to poll, of all companies. Failing ones come last, and wait longer after each failure."""
    waits = {"every": POLL_EVERY, "longest": LONGEST_PAUSE, "again": POLL_AGAIN, "still": STILL_WRITTEN}
    return _DUE.all(connection, {**waits, "now": now, "limit": limit})


def begin_poll(connection: Connection, source: PriceSource, *, now: datetime) -> None:
    """Counts a failure until `note_poll` stores the outcome. Otherwise a file that kills the scheduler would be read
    again as soon as the scheduler is back."""
    _BEGIN.execute(connection, (now, source.failures + 1, source.company_id, source.id))


def note_poll(
    connection: Connection,
    source: PriceSource,
    *,
    fault: str | None,
    seen: Mapping[str, SeenFile] | None,
    failed: bool,
    now: datetime,
) -> None:
    """Stores the outcome of a poll. `failed`: the source could not be read to the end. `seen` is None if it could not
    even be listed."""
    values: dict[str, Any] = {"now": now, "fault": fault and fault[:1_000]}
    values["failures"] = source.failures + 1 if failed else 0
    values["seen"] = as_json({name: list(one) for name, one in seen.items()}) if seen is not None else None
    _LOOKED.execute(connection, {**values, "company_id": source.company_id, "id": source.id})


def note_file(connection: Connection, source: PriceSource, *, now: datetime) -> None:
    _CAME.execute(connection, (now, source.company_id, source.id))


_LOCK = Command("SELECT FROM price_sources WHERE company_id = %s AND id = %s FOR NO KEY UPDATE")


def lock_source(connection: Connection, source: PriceSource) -> bool:
    """Locks a source, so that no file is imported twice at a time. Returns False if it was removed."""
    return _LOCK.first(connection, (source.company_id, source.id)) is not None
