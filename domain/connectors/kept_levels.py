"""The newest fuel level of each vehicle of a vendor, stored beside the vehicle until a position has it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.connectors.levels import KeptLevel, give_levels
from domain.connectors.vendor import VendorFix, VendorPage
from domain.database.connections import Connection, Tenant, as_array
from domain.database.statements import Command, Statement


class _Kept(NamedTuple):
    vehicle_key: str
    fuel_percent: float | None
    fuel_measured_at: datetime | None


_READ = Statement(
    _Kept,
    "SELECT vehicle_key, fuel_percent, fuel_measured_at FROM connector_vehicles"
    " WHERE company_id = %s AND connector_id = %s AND vehicle_key = ANY(%s)",
)


class _Newest(NamedTuple):
    vehicle_id: UUID
    newest_at: datetime


_READ_NEWEST = Statement(
    _Newest,
    "SELECT vehicle_id, newest_at FROM tracks WHERE company_id = %s AND environment = %s AND vehicle_id = ANY(%s)",
)
_KEEP = Command(
    """
    UPDATE connector_vehicles it SET fuel_percent = new.percent, fuel_measured_at = new.measured_at
    FROM unnest(%s::text[], %s::float8[], %s::timestamptz[]) AS new (vehicle_key, percent, measured_at)
    WHERE it.company_id = %s AND it.connector_id = %s AND it.vehicle_key = new.vehicle_key
      AND (it.fuel_measured_at IS NULL OR it.fuel_measured_at <= new.measured_at)
    """
)


def fixes_with_levels(
    connection: Connection,
    tenant: Tenant,
    connector_id: UUID,
    page: VendorPage,
    matched: Mapping[str, UUID | None],
    *,
    now: datetime,
) -> Sequence[VendorFix]:
    """The fixes of a page with the levels of this page and of earlier ones. Stores which level waits."""
    keys = {level.vehicle_key for level in page.levels} | {
        fix.vehicle_key for fix in page.fixes if fix.fuel_percent is None or fix.fuel_measured_at is not None
    }
    known = [key for key in sorted(keys) if matched.get(key) is not None]
    if not known:
        return page.fixes
    rows = _READ.all(connection, (tenant.company_id, connector_id, known))
    kept = {row.vehicle_key: KeptLevel(row.fuel_measured_at, row.fuel_percent) for row in rows if row.fuel_measured_at}
    levels = [level for level in page.levels if matched.get(level.vehicle_key) is not None]
    waiting = {key for key, level in kept.items() if level.percent is not None}
    newest = _newest_of(connection, tenant, matched, waiting | {level.vehicle_key for level in levels})
    fixes, changed = give_levels(page.fixes, levels, kept, newest, now=now)
    if changed:
        percents = as_array(level.percent for level in changed.values())
        times = as_array(level.measured_at for level in changed.values())
        _KEEP.execute(connection, (list(changed), percents, times, tenant.company_id, connector_id))
    return fixes


def _newest_of(
    connection: Connection, tenant: Tenant, matched: Mapping[str, UUID | None], keys: Iterable[str]
) -> dict[str, datetime]:
    """When the newest stored position of each vehicle was recorded, by the vendor's key."""
    vehicles = {key: vehicle_id for key in keys if (vehicle_id := matched.get(key)) is not None}
    if not vehicles:
        return {}
    rows = _READ_NEWEST.all(connection, (*tenant, list(vehicles.values())))
    newest = {row.vehicle_id: row.newest_at for row in rows}
    return {key: newest[vehicle_id] for key, vehicle_id in vehicles.items() if vehicle_id in newest}
