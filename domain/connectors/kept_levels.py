"""The newest fuel level of each vehicle of a vendor, stored beside the vehicle until a position has it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.connectors.levels import KeptLevel, give_levels
from domain.connectors.vendor import VendorFix, VendorPage
from domain.database import Connection, Tenant, as_array
from domain.statements import Command, Statement


class _Kept(NamedTuple):
    vehicle_key: str
    fuel_percent: float | None
    fuel_measured_at: datetime | None
    newest_at: datetime | None
    """When the newest stored position of our vehicle was recorded."""


_READ = Statement(
    _Kept,
    """
    SELECT it.vehicle_key, it.fuel_percent, it.fuel_measured_at, t.newest_at
    FROM connector_vehicles it LEFT JOIN tracks t ON t.vehicle_id = it.vehicle_id AND t.environment = %s
    WHERE it.company_id = %s AND it.connector_id = %s AND it.vehicle_key = ANY(%s)
    """,
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
    """The fixes of a page with the levels of this page and of pages before. Stores which level waits."""
    keys = {level.vehicle_key for level in page.levels} | {
        fix.vehicle_key for fix in page.fixes if fix.fuel_percent is None or fix.fuel_measured_at is not None
    }
    known = [key for key in sorted(keys) if matched.get(key) is not None]
    if not known:
        return page.fixes
    rows = _READ.all(connection, (tenant.environment, tenant.company_id, connector_id, known))
    kept = {row.vehicle_key: KeptLevel(row.fuel_measured_at, row.fuel_percent) for row in rows if row.fuel_measured_at}
    newest = {row.vehicle_key: row.newest_at for row in rows if row.newest_at is not None}
    levels = [level for level in page.levels if matched.get(level.vehicle_key) is not None]
    fixes, changed = give_levels(page.fixes, levels, kept, newest, now=now)
    if changed:
        percents = as_array(level.percent for level in changed.values())
        times = as_array(level.measured_at for level in changed.values())
        _KEEP.execute(connection, (list(changed), percents, times, tenant.company_id, connector_id))
    return fixes
