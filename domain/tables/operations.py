"""Queue pauses, CSV imports, erasures, back-fills, and the logs of actions and requests."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Column, DateTime, Index, SmallInteger, text
from sqlalchemy.dialects.postgresql import REAL
from sqlmodel import Field, SQLModel

from domain.tables.columns import json_column, time_column, with_default


class Erasures(SQLModel, table=True):
    """The erasure of a company or a driver, with its time. Of an erased company nothing else is left."""

    __tablename__ = "erasures"

    subject_id: UUID = Field(primary_key=True)
    erased_at: datetime = time_column()


class Backfills(SQLModel, table=True):
    """A back-fill of a migration, and how far it has come; see `domain/migrations/backfills.py`."""

    __tablename__ = "backfills"

    revision: str = Field(primary_key=True)
    """The revision of the migration."""
    last_key: str | None = None
    """The key of the last row of the last batch."""
    rows_filled: int = Field(sa_column=Column(BigInteger, nullable=False, server_default=text("0")))
    started_at: datetime = time_column()
    finished_at: datetime | None = time_column(null=True)


class QueuePauses(SQLModel, table=True):
    """A queue from which workers take no job until the row is gone."""

    __tablename__ = "queue_pauses"

    queue: str = Field(primary_key=True)
    paused_at: datetime = time_column()
    paused_by: str
    reason: str


class AuditLog(SQLModel, table=True):
    """An action of a user on a company or on the whole service, and its reason. Rows are never changed."""

    __tablename__ = "audit_log"
    __table_args__ = (Index("audit_log_of_company", "company_id", "id"), Index("audit_log_by_subject", "subject", "id"))

    id: UUID = Field(primary_key=True)
    """A UUIDv7, so ids sort by time."""
    company_id: UUID | None = Field(default=None, foreign_key="companies.id")
    """The company; NULL for an action on the whole service."""
    at: datetime = time_column()
    actor: str
    """An e-mail address, or the user and the machine of a command."""
    action: str
    subject: str
    reason: str
    affected: int
    """The number of things that the action changed."""


class RequestLog(SQLModel, table=True):
    """A request of a valid key, and its answer; see `requests`.

    The entries of a day are in one partition. Indexes cost most of the work of writing, so there are three: one names a
    row, one has those that failed, and one finds whole names roughly, at a tenth of the price of an exact one."""

    __tablename__ = "request_log"
    __table_args__ = (
        Index("request_log_failed", "key_id", "id", postgresql_where=text("status >= 400")),
        Index("request_log_names", "subject", "request_id", postgresql_using="brin"),
        {"postgresql_partition_by": "RANGE (id)"},
    )

    key_id: UUID = Field(primary_key=True)
    id: UUID = Field(primary_key=True)
    """A UUIDv7, which holds the time when the request came in."""
    company_id: UUID
    environment: str
    method: str
    path: str
    """The path as the API's description writes it, or `(none)`."""
    status: int = Field(sa_column=Column(SmallInteger, nullable=False))
    code: str | None = None
    """The code of the problem in the answer."""
    milliseconds: float = Field(sa_column=Column(REAL, nullable=False))
    size: int
    """Bytes of the body."""
    times: int
    """The number of requests that the row stands for. Requests beyond the rate limit are written once a second."""
    request_id: str | None = None
    """The id that the caller gave; NULL if `id` is the request's."""
    subject: str | None = None
    """The load or route that the request is about: an `externalId`, or a route's id."""
    sent: str | None = None
    """The query or body, redacted, the first 4 KB; NULL if there was none, or none was kept."""
    faults: str | None = None
    """The faults found, one line for each field."""


class CsvImports(SQLModel, table=True):
    """A CSV file that a user brought to the console, and the result of its import."""

    __tablename__ = "csv_imports"
    __table_args__ = (
        Index("csv_imports_by_company", "company_id", "id"),
        Index(
            "csv_imports_running",
            "company_id",
            unique=True,
            postgresql_where=text("finished_at IS NULL"),
            postgresql_nulls_not_distinct=True,
        ),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID | None = Field(default=None, foreign_key="companies.id")
    """The company; NULL for stations or taxes, which all companies share."""
    kind: str
    actor: str
    """An e-mail address."""
    started_at: datetime = time_column()
    beat_at: datetime = time_column()
    """When the importing process last showed that it lives."""
    rows_total: int
    """The approximate number of rows in the file."""
    rows_read: int = with_default("0")
    finished_at: datetime | None = time_column(null=True)
    created: int = with_default("0")
    updated: int = with_default("0")
    unchanged: int = with_default("0")
    refused: int = with_default("0")
    passed_over: int = with_default("0")
    """Lines of a card's file that are no purchases of fuel: totals, titles, other goods."""
    rejected: list[dict[str, Any]] | None = json_column(null=True)
    """The first of the refused rows: line, message."""
    fault: str | None = None
    """Why nothing was imported."""
    unused_columns: str | None = None
    """The names of the file's columns that match no field."""
    removed: str | None = None
    """The stored values that the file removed, in words."""


class Restores(SQLModel, table=True):
    """The restores of this database from a backup; see `operations/restores.py`."""

    __tablename__ = "restores"

    restored_at: datetime = Field(sa_column=Column(DateTime(timezone=True), primary_key=True))
    restored_to: datetime = time_column()
    """The time of the last change that was restored."""
    withholds_until: datetime | None = time_column(null=True)
    """Messages of routes that start before then are withheld; NULL if none are."""
