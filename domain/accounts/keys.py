"""API keys: made once, stored as a hash, checked against the database at every request.

A key is `svc_live_` or `svc_test_` and 40 characters from a secure source. A key that another cell than the first made
names it between them, as in `svc_live_c2_`: a proxy finds the cell of a request without asking anyone. A process takes
every key that its database holds, whichever cell made it: companies can be moved.

The prefix is everything up to the eighth of the 40 characters. It may be logged, and finds the row. The rest carries
about 184 bits, so one round of SHA-256 is enough: nobody can search that space, and a slow hash would only slow down
every request.
"""

import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct

from domain.audit.entries import Action, Actor, record_about, record_action
from domain.contract.shapes import SCOPES
from domain.database.connections import Connection, Tenant, as_array
from domain.database.fence import require_not_fenced
from domain.database.statements import Command, Query, Scalar, Statement
from domain.errors import FuelrouteError
from domain.ids import new_id, shown_id
from domain.lifecycle import Environment
from domain.settings import get_settings

_PREFIXES = {Environment.LIVE: "svc_live_", Environment.SANDBOX: "svc_test_"}
FIRST_CELL = 1
"""The number of the first cell. Its keys do not name it, like all keys from the time before there were cells."""

_ALPHABET = string.ascii_letters + string.digits
_KEY = re.compile(r"(svc_(?:live|test)_(?:c[1-9][0-9]{0,3}_)?[^\x00]{8})[^\x00]{32}", re.ASCII | re.DOTALL)
_PREFIX_LENGTH = len("svc_live_") + 8


class UnknownScope(FuelrouteError):
    def __init__(self, scope: str) -> None:
        super().__init__(f"no such scope: {scope!r}; choose from {', '.join(SCOPES)}")


@dataclass(frozen=True, slots=True)
class Caller:
    """The company and environment behind a request. Every query is limited to them."""

    key_id: UUID
    company_id: UUID
    environment: Environment
    scopes: frozenset[str]

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.company_id, self.environment)


@dataclass(frozen=True, slots=True)
class NewKey:
    id: UUID
    key: str
    """The whole key, which is shown now and never again."""
    prefix: str


_INSERT = Command(
    "INSERT INTO api_keys (id, company_id, name, environment, scopes, prefix, hash, expires_at)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
)


def create_key(
    connection: Connection,
    company_id: UUID,
    by: Actor,
    *,
    name: str,
    environment: Environment,
    scopes: Sequence[str],
    expires_at: datetime | None = None,
    cell: int | None = None,
) -> NewKey:
    """Stores a fresh key of the cell, by default this process's. Raises UnknownScope;
    psycopg.errors.ForeignKeyViolation for an unknown company."""
    made = _store_new_key(connection, company_id, name, environment, scopes, expires_at, cell=cell)
    record_action(connection, by, Action("keys.create"), f"{shown_id('key', made.id)} {name}", company_id=company_id)
    return made


def _store_new_key(
    connection: Connection,
    company_id: UUID,
    name: str,
    environment: Environment,
    scopes: Sequence[str],
    expires_at: datetime | None = None,
    *,
    cell: int | None = None,
) -> NewKey:
    for scope in scopes:
        if scope not in SCOPES:
            raise UnknownScope(scope)
    start = start_of_keys(environment, get_settings().cell if cell is None else cell)
    key = start + "".join(secrets.choice(_ALPHABET) for _ in range(40))
    made = NewKey(id=new_id(), key=key, prefix=prefix_of(key))
    _INSERT.execute(
        connection,
        (made.id, company_id, name, environment, sorted(set(scopes)), made.prefix, hash_of(key), expires_at),
    )
    return made


def start_of_keys(environment: Environment, cell: int) -> str:
    """The beginning of the keys that a cell makes for an environment."""
    return _PREFIXES[environment] + ("" if cell == FIRST_CELL else f"c{cell}_")


_COMPANY_OF = Scalar(UUID, "SELECT company_id FROM api_keys WHERE id = %s")


def revoke_key(connection: Connection, key_id: UUID, by: Actor) -> bool:
    """Ends a key at once, on every process. Returns False if there is no such key. A second call keeps the first
    time. Raises MovedCompany for a key that works in another cell."""
    company_id = _COMPANY_OF.first(connection, (key_id,))
    if company_id is None:
        return False
    require_not_fenced(connection, company_id)
    return revoke_key_of(connection, company_id, key_id, by)


_REVOKE = Command("UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE company_id = %s AND id = %s")


def revoke_key_of(connection: Connection, company_id: UUID, key_id: UUID, by: Actor) -> bool:
    """Ends a company's key at once, on every process. Returns False if the company has no such key."""
    if _REVOKE.execute(connection, (company_id, key_id)).rowcount == 0:
        return False
    record_about(connection, by, Action("keys.revoke"), "key", key_id, company_id=company_id)
    return True


class _Rotated(NamedTuple):
    name: str
    environment: str
    scopes: list[str]


_END_BY = Statement(
    _Rotated,
    "UPDATE api_keys SET expires_at = least(expires_at, %s) WHERE company_id = %s AND id = %s"
    " AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > %s) RETURNING name, environment, scopes",
)


def rotate_key(
    connection: Connection, company_id: UUID, key_id: UUID, by: Actor, *, overlap: timedelta, now: datetime
) -> NewKey | None:
    """Makes a key with the same name, environment and scopes, and no end. Both keys are valid for the overlap, in which
    programs change from the old one. None if the company has no such key, or it is no longer valid."""
    row = _END_BY.first(connection, (now + overlap, company_id, key_id, now))
    if row is None:
        return None
    made = _store_new_key(connection, company_id, row.name, Environment(row.environment), row.scopes)
    subject = f"{shown_id('key', key_id)} by {shown_id('key', made.id)}"
    record_action(connection, by, Action("keys.rotate"), subject, company_id=company_id)
    return made


_USED = Command(
    "UPDATE api_keys SET last_used_at = greatest(last_used_at, %s) WHERE id = ANY(ARRAY("
    "SELECT id FROM api_keys WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED))"
)


def note_use(connection: Connection, key_ids: Collection[UUID], *, now: datetime) -> None:
    """Notes that these keys were used since the last note. The time is for people and decides nothing."""
    _USED.execute(connection, (now, list(key_ids)))


class StoredKey(NamedTuple):
    """A key without its hash."""

    id: UUID
    name: str
    environment: str
    scopes: list[str]
    prefix: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


_OF_COMPANY = Statement(
    StoredKey,
    "SELECT id, name, environment, scopes, prefix, created_at, expires_at, revoked_at, last_used_at FROM api_keys"
    " WHERE company_id = %s ORDER BY created_at, id",
)


def list_keys(connection: Connection, company_id: UUID) -> list[StoredKey]:
    """A company's keys, oldest first."""
    return _OF_COMPANY.all(connection, (company_id,))


class _Found(NamedTuple):
    """A key that is neither revoked nor expired."""

    id: UUID
    company_id: UUID
    environment: str
    scopes: list[str]
    prefix: str
    hash: bytes


_IS_VALID = """
    WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
      AND c.retired_at IS NULL
"""
VALID = f"FROM api_keys k JOIN companies c ON c.id = k.company_id {_IS_VALID}"
"""The end of a SELECT of the keys valid at this moment, `k`, with their companies, `c`. `AND` may follow."""


_VALID_POSITIONS = Scalar(
    int,
    f"""
    SELECT asked.position FROM unnest(%s::uuid[]) WITH ORDINALITY AS asked (id, position)
    JOIN api_keys k ON k.id = asked.id
    JOIN companies c ON c.id = k.company_id
    {_IS_VALID}
    """,
)
_VALID_BY_PREFIX = Statement(
    _Found, f"SELECT k.id, k.company_id, k.environment, k.scopes, k.prefix, k.hash {VALID} AND k.prefix = ANY(%s)"
)


def still_valid(key_ids: Sequence[UUID]) -> Query[list[bool]]:
    """One query that tells for each of these keys, in order, whether it is still valid."""

    def read(positions: list[int]) -> list[bool]:
        valid = set(positions)
        return [position in valid for position in range(1, len(key_ids) + 1)]

    return Query(_VALID_POSITIONS, (as_array(key_ids),), read)


class PresentedKey(Struct, frozen=True, gc=False):
    """The prefix and the hash of a text that a caller sent as a key. The key cannot be made from them."""

    prefix: str | None
    hash: bytes

    @classmethod
    def of(cls, key: str) -> "PresentedKey":
        found = _KEY.fullmatch(key) if key.isascii() else None
        return cls(found[1], hash_of(key)) if found is not None else _NO_KEY


_NO_KEY = PresentedKey(None, b"")
"""Stands for any text that cannot be one of our keys."""


def find_callers(keys: Sequence[PresentedKey]) -> Query[list[Caller | None]]:
    """One query for the caller behind each presented key, in order. None for a key that is unknown, revoked, expired,
    or of a retired company."""

    def read(rows: list[_Found]) -> list[Caller | None]:
        by_prefix: dict[str | None, list[tuple[bytes, Caller]]] = {}
        for row in rows:
            caller = Caller(row.id, row.company_id, Environment(row.environment), frozenset(row.scopes))
            by_prefix.setdefault(row.prefix, []).append((row.hash, caller))
        return [_matching(key, by_prefix.get(key.prefix, ())) for key in keys]

    return Query(_VALID_BY_PREFIX, (list({key.prefix for key in keys if key.prefix is not None}),), read)


def prefix_of(key: str) -> str:
    """The part of a key that is no secret."""
    found = _KEY.fullmatch(key)
    return found[1] if found is not None else key[:_PREFIX_LENGTH]


def _matching(key: PresentedKey, candidates: Sequence[tuple[bytes, Caller]]) -> Caller | None:
    return next((caller for stored, caller in candidates if hmac.compare_digest(stored, key.hash)), None)


def hash_of(key: str) -> bytes:
    """The stored hash of a key. It tells keys apart, and the key cannot be made from it."""
    return hashlib.sha256(key.encode()).digest()
