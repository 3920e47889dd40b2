"""changes of routes become webhook events, for companies with an enabled endpoint

Revision ID: 20261125i
Revises: 20261125h
"""

from alembic import op

revision = "20261125i"
down_revision = "20261125h"
branch_labels = None
depends_on = None

_TYPE = """
    CASE
        WHEN r.status IN ('pending_mapping', 'pending_window')
             AND (r.status, r.pending_reason) IS DISTINCT FROM (was.status, was.pending_reason) THEN 'route.held'
        WHEN r.status = was.status THEN
            CASE WHEN r.status IN ('active', 'completed') AND r.corrected_at IS DISTINCT FROM was.corrected_at
                 THEN 'plan.corrected' END
        WHEN r.status = 'draft' THEN 'route.imported'
        WHEN r.status IN ('planned', 'active', 'completed', 'canceled', 'error') THEN 'route.' || r.status
    END
"""
"""The type of the event that a change of a route is; NULL: none."""

_UUID7 = """
    encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::int8) FROM 3) FROM 1 FOR 6),
        52, 1), 53, 1), 'hex')::uuid
"""

_CAPTURE = f"""
    IF EXISTS (SELECT FROM webhook_endpoints e WHERE e.disabled_at IS NULL AND EXISTS (
            SELECT FROM new_routes r WHERE r.company_id = e.company_id AND r.environment = e.environment)) THEN
        WITH changed AS (
            SELECT r.company_id, r.environment, r.id AS route_id, {_TYPE} AS type
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
        "CREATE OR REPLACE FUNCTION capture_webhook_events() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {_CAPTURE} RETURN NULL; END $$"
    )
    op.execute(
        "CREATE OR REPLACE TRIGGER capture_webhook_events AFTER UPDATE ON routes"
        " REFERENCING OLD TABLE AS old_routes NEW TABLE AS new_routes"
        " FOR EACH STATEMENT EXECUTE FUNCTION capture_webhook_events()"
    )
