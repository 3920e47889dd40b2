"""Price sets: one for each import of prices, and for each change by hand, so that a plan knows which prices it saw."""

from datetime import datetime
from uuid import UUID

from domain.database import Connection
from domain.statements import Command

_LOCK_PRICE_SETS = Command("LOCK TABLE price_sets IN EXCLUSIVE MODE")
_INSERT_PRICE_SET = Command("INSERT INTO price_sets (kind, company_id, imported_at) VALUES (%s, %s, %s)")


def begin_price_set(connection: Connection, kind: str, company_id: UUID | None, *, now: datetime) -> None:
    """Add a price set. Imports wait for one another, so that the import with the greater number is the newer one."""
    _LOCK_PRICE_SETS.execute(connection)
    _INSERT_PRICE_SET.execute(connection, (kind, company_id, now))
