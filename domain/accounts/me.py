"""The API's answer about the key of a request."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.accounts.keys import Caller
from domain.contract.shapes import RATE_LIMIT_REQUESTS, RATE_LIMIT_WINDOW, Me, MeCompany, MeKey, MeRateLimit
from domain.database.connections import Connection
from domain.database.statements import Statement
from domain.ids import shown_id
from domain.lifecycle import Environment


class _MeRow(NamedTuple):
    id: UUID
    name: str
    prefix: str
    environment: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    company_id: UUID
    company_name: str
    time_zone: str


_ME = Statement(
    _MeRow,
    "SELECT k.id, k.name, k.prefix, k.environment, k.scopes, k.created_at, k.expires_at, k.company_id,"
    " c.name AS company_name, c.time_zone FROM api_keys k JOIN companies c ON c.id = k.company_id"
    " WHERE k.company_id = %s AND k.id = %s",
)


def read_me(connection: Connection, caller: Caller) -> Me:
    """The caller's key and its company. Both are there: a key is deleted only after its company was retired."""
    row = _ME.one(connection, (caller.company_id, caller.key_id))
    return Me(
        company=MeCompany(id=shown_id("cmp", row.company_id), name=row.company_name, time_zone=row.time_zone),
        key=MeKey(
            id=shown_id("key", row.id),
            name=row.name,
            prefix=row.prefix,
            environment=Environment(row.environment),
            scopes=row.scopes,
            created_at=row.created_at,
            expires_at=row.expires_at,
        ),
        rate_limit=MeRateLimit(limit=RATE_LIMIT_REQUESTS, window=RATE_LIMIT_WINDOW),
    )
