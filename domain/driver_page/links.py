"""Finds the link to a driver's page by its token."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.accounts.tokens import hash_of_token
from domain.database.connections import Connection
from domain.database.statements import Query, Statement


class DriverLink(NamedTuple):
    """The right to see one trip's page, and to answer on it."""

    id: UUID
    company_id: UUID
    environment: str
    route_id: UUID
    driver_id: UUID
    expires_at: datetime
    """When it expires: for a trip that has ended some hours after its end."""


class _Found(NamedTuple):
    token_hash: bytes
    id: UUID
    company_id: UUID
    environment: str
    route_id: UUID
    driver_id: UUID
    expires_at: datetime


_FIND = Statement(
    _Found,
    """
    SELECT token_hash, id, company_id, environment, route_id, driver_id, expires_at FROM (
        SELECT l.token_hash, l.id, l.company_id, l.environment, l.route_id, l.driver_id,
               CASE WHEN r.status IN ('completed', 'canceled', 'error')
                    THEN least(l.expires_at, coalesce(r.completed_at, r.updated_at) + %(after_end)s::interval)
                    ELSE l.expires_at END AS expires_at
        FROM driver_links l
        JOIN routes r ON r.id = l.route_id AND r.company_id = l.company_id AND r.driver_id = l.driver_id
        WHERE l.token_hash = ANY(%(hashes)s)) link
    WHERE expires_at > %(now)s
    """,
)


def ask_driver_links(tokens: Sequence[str], *, hours: float, now: datetime) -> Query[list[DriverLink | None]]:
    """The link of each token. None for one that is unknown, has expired, or belongs to a driver who has the trip no
    more: these cases cannot be told apart. `hours`: how long a link works after the end of its trip."""
    hashes = [hash_of_token(token) for token in tokens]

    def read(rows: list[_Found]) -> list[DriverLink | None]:
        found = {row.token_hash: DriverLink._make(row[1:]) for row in rows}
        return [found.get(one) for one in hashes]

    return Query(_FIND, {"hashes": hashes, "after_end": timedelta(hours=hours), "now": now}, read)


def find_driver_link(connection: Connection, token: str, *, hours: float, now: datetime) -> DriverLink | None:
    """The link of a token, as `ask_driver_links` finds it."""
    return ask_driver_links([token], hours=hours, now=now).on(connection)[0]
