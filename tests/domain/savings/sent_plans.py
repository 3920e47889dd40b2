"""Plans that drivers have, as the savings count them."""

from datetime import datetime
from typing import Any
from uuid import UUID

from domain.database.connections import Connection, Tenant
from tests.domain.helpers import imported


def store_sent_plan(
    connection: Connection, tenant: Tenant, explanation: bytes | None, *, now: datetime, cents: int = 100, **route: Any
) -> UUID:
    """A route whose driver has a plan with this explanation, which costs these cents. Its habits wait."""
    route_id = imported(connection, tenant, now=now, **route)
    connection.execute(
        "WITH plan AS (INSERT INTO plans (id, company_id, environment, route_id, revision, generated_at, explanation,"
        " timeline, fuel_percent) SELECT gen_random_uuid(), company_id, environment, id, 1, %(at)s, %(explanation)s,"
        " '[]', 50 FROM routes WHERE id = %(route_id)s RETURNING id), recorded AS ("
        " INSERT INTO savings (route_id, company_id, environment, plan_id, planned_at, vehicle_id, driver_id, origin,"
        " destination, gallons, cost_cents) SELECT r.id, r.company_id, r.environment, plan.id, %(at)s, r.vehicle_id,"
        " r.driver_id, 'A', 'B', 100, %(cents)s FROM routes r, plan WHERE r.id = %(route_id)s RETURNING *)"
        " INSERT INTO habit_costs (route_id, company_id, environment, plan_id, planned_at)"
        " SELECT route_id, company_id, environment, plan_id, planned_at FROM recorded",
        {"at": now, "explanation": explanation, "cents": cents, "route_id": route_id},
    )
    return route_id
