"""Mappings: what a dispatcher decided in the matching screens, such as "`TRUCK-9` is our vehicle 4102"."""

from uuid import UUID

from domain.accounts.companies import lock_company
from domain.database import Connection
from domain.fleet.matching import MATCHED_BY, MappingKind
from domain.fleet.records import require_in_service
from domain.statements import Command

_STORE = Command(
    "INSERT INTO mappings (company_id, kind, value, target_id) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (company_id, kind, value) DO UPDATE SET target_id = excluded.target_id"
)


def store_mapping(connection: Connection, company_id: UUID, kind: MappingKind, value: str, target_id: UUID) -> None:
    """From now on `value` means that vehicle or driver; an earlier mapping of the value is replaced.

    `routes.fleet_changes` calls it, and finds the routes that waited for it. Raises UnknownCompany, RetiredCompany,
    UnknownTarget.
    """
    lock_company(connection, company_id)
    require_in_service(connection, company_id, MATCHED_BY[kind], target_id)
    _STORE.execute(connection, (company_id, kind, value, target_id))
