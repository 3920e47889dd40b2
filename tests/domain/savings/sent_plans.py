"""Plans that drivers have, as the savings count them."""

from datetime import datetime
from typing import Any

from domain.database.connections import Connection, Tenant
from tests.domain.helpers import imported


def store_sent_plan(
    connection: Connection, tenant: Tenant, explanation: bytes | None, *, now: datetime, **route: Any
) -> None:
    """A route whose driver has a plan with this explanation."""
    connection.execute(
        "WITH plan AS (INSERT INTO plans (id, company_id, environment, route_id, revision, generated_at, explanation,"
        " timeline, fuel_percent) SELECT gen_random_uuid(), company_id, environment, id, 1, %(at)s, %(explanation)s,"
        " '[]', 50 FROM routes WHERE id = %(route_id)s RETURNING id)"
        " INSERT INTO savings (route_id, company_id, environment, plan_id, planned_at, vehicle_id, driver_id, origin,"
        " destination, gallons, cost_cents) SELECT r.id, r.company_id, r.environment, plan.id, %(at)s, r.vehicle_id,"
        " r.driver_id, 'A', 'B', 100, 100 FROM routes r, plan WHERE r.id = %(route_id)s",
        {"at": now, "explanation": explanation, "route_id": imported(connection, tenant, now=now, **route)},
    )
