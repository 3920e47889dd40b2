"""The last write by each company's callers of the API, so that no read from a replica is older.

A write is known by its LSN, the place in PostgreSQL's write-ahead log up to which a replica must have replayed. The
table is on the primary, which each read asks anyway whether the key is still valid. It is not logged: after a crash,
and on a promoted replica, it is empty, and a company without a row is read from the primary."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from domain.accounts.keys import VALID
from domain.database.connections import Tenant, as_array
from domain.database.statements import NotNull, Query, Scalar, Statement
from domain.lifecycle import Environment

_WRITTEN = "(pg_current_wal_insert_lsn() - '0/0')::int8"
"""A place behind all commits so far, those included that do not wait for the disk."""
_FLUSHED = "(pg_current_wal_flush_lsn() - '0/0')::int8"


_NOTE = Scalar(
    int,
    f"""
    INSERT INTO last_writes (company_id, environment, lsn)
    SELECT company_id, environment, {_WRITTEN}
    FROM unnest(%s::uuid[], %s::text[]) AS written (company_id, environment) ORDER BY company_id, environment
    ON CONFLICT (company_id, environment) DO UPDATE SET lsn = {_WRITTEN}
    RETURNING lsn
    """,
)
"""The new value is read once the row is locked, so it never goes back."""


def note_writes(tenants: Iterable[Tenant]) -> Query[None]:
    """Stores that callers of these tenants have written, up to now. Run it after the commit and before the answer."""
    wanted = sorted(set(tenants))
    parameters = (as_array(one.company_id for one in wanted), [str(one.environment) for one in wanted])
    return Query(_NOTE, parameters, lambda _: None)


class PrimaryState(NamedTuple):
    """The primary's answer about one key that is valid at this moment."""

    tenant: Tenant
    last_write: int | None
    """The LSN that a replica must have replayed; None if it is not known."""
    flushed: int
    """The LSN up to which the primary has written its log to disk."""


class _StateRow(NamedTuple):
    position: NotNull[int]
    company_id: UUID
    environment: str
    last_write: int | None
    flushed: NotNull[int]


_ASK = Statement(
    _StateRow,
    f"""
    SELECT asked.position::int AS position, w.company_id, w.environment, last.lsn AS last_write, {_FLUSHED} AS flushed
    FROM unnest(%s::uuid[]) WITH ORDINALITY AS asked (key_id, position)
    CROSS JOIN LATERAL (SELECT k.company_id, k.environment {VALID} AND k.id = asked.key_id LIMIT 1) AS w
    LEFT JOIN last_writes last ON last.company_id = w.company_id AND last.environment = w.environment
    """,
)


def ask_primary(key_ids: Sequence[UUID]) -> Query[list[PrimaryState | None]]:
    """The state of each key, in order; None for a key that is no longer valid."""

    def read(rows: list[_StateRow]) -> list[PrimaryState | None]:
        states: list[PrimaryState | None] = [None] * len(key_ids)
        for row in rows:
            tenant = Tenant(row.company_id, Environment(row.environment))
            states[row.position - 1] = PrimaryState(tenant, row.last_write, row.flushed)
        return states

    return Query(_ASK, (as_array(key_ids),), read)


REPLAYED = Scalar(int | None, "SELECT CASE WHEN pg_is_in_recovery() THEN (pg_last_wal_replay_lsn() - '0/0')::int8 END")
"""The LSN that a replica has replayed; NULL from a server that is none. Run it in a statement of its own before the
read: the snapshot of a statement is older than the functions in it."""
