"""the type of a webhook event is a function of its own

Revision ID: 20261130o1
Revises: 20261129X1
"""

from alembic import op

revision = "20261130o1"
down_revision = "20261129X1"
branch_labels = None
depends_on = None

_TYPE = """
    SELECT CASE
        WHEN after.status IN ('pending_mapping', 'pending_window')
             AND (after.status, after.pending_reason) IS DISTINCT FROM (before.status, before.pending_reason)
             THEN 'route.held'
        WHEN after.status = before.status THEN
            CASE WHEN after.status IN ('active', 'completed') AND after.corrected_at IS DISTINCT FROM before.corrected_at
                 THEN 'plan.corrected' END
        WHEN after.status = 'draft' THEN 'route.imported'
        WHEN after.status = 'planned' THEN 'route.planned'
        WHEN after.status = 'active' THEN 'route.active'
        WHEN after.status = 'completed' THEN 'route.completed'
        WHEN after.status = 'canceled' THEN 'route.canceled'
        WHEN after.status = 'error' THEN 'route.error'
    END
"""
"""The type of the event that a change of a route is; NULL: none. PostgreSQL puts it into the statement of the trigger,
since it is IMMUTABLE and one expression."""

_UUID7 = """
    encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::int8) FROM 3) FROM 1 FOR 6),
        52, 1), 53, 1), 'hex')::uuid
"""

_CAPTURE = f"""
    IF EXISTS (SELECT FROM webhook_endpoints e WHERE e.disabled_at IS NULL AND EXISTS (
            SELECT FROM new_routes r WHERE r.company_id = e.company_id AND r.environment = e.environment)) THEN
        WITH changed AS (
            SELECT r.company_id, r.environment, r.id AS route_id,
                   webhook_event_type(was::routes, r::routes) AS type
            FROM new_routes r JOIN old_routes was ON was.id = r.id
        ), captured AS (
            INSERT INTO webhook_events (id, company_id, environment, route_id, type, at)
            SELECT {_UUID7}, company_id, environment, route_id, type, clock_timestamp() FROM changed
            WHERE type IS NOT NULL AND EXISTS (
                SELECT FROM webhook_endpoints e
                WHERE e.company_id = changed.company_id AND e.environment = changed.environment
                  AND e.disabled_at IS NULL AND (e.event_types IS NULL OR changed.type = ANY (e.event_types)))
            RETURNING id, company_id, environment, route_id, type, at
        )
        INSERT INTO webhook_deliveries (endpoint_id, event_id, company_id, environment, route_id, queued_at, retry_at)
        SELECT e.id, it.id, it.company_id, it.environment, it.route_id, it.at, it.at
        FROM captured it JOIN webhook_endpoints e ON e.company_id = it.company_id AND e.environment = it.environment
        WHERE e.disabled_at IS NULL AND (e.event_types IS NULL OR it.type = ANY (e.event_types));
    END IF;
"""


def upgrade() -> None:
    op.execute(
        "CREATE OR REPLACE FUNCTION webhook_event_type(before routes, after routes) RETURNS text"
        f" LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ {_TYPE} $$"
    )
    op.execute(
        "CREATE OR REPLACE FUNCTION capture_webhook_events() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {_CAPTURE} RETURN NULL; END $$"
    )
