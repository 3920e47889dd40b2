"""answers of drivers are webhook events

Revision ID: 20261201A2
Revises: 20261201L2
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.transactions import in_own_transaction

revision = "20261201A2"
down_revision = "20261201L2"
branch_labels = None
depends_on = None

_TYPE = """
    SELECT CASE kind
        WHEN 'going' THEN 'stop.going'
        WHEN 'fueled' THEN 'stop.fueled'
        WHEN 'refused' THEN 'stop.refused'
    END
"""
"""The type of the event that an answer is."""

_UUID7 = """
    encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::int8) FROM 3) FROM 1 FOR 6),
        52, 1), 53, 1), 'hex')::uuid
"""

_CAPTURE = f"""
    WITH wanted AS (
        SELECT {_UUID7} AS id, a.company_id, a.environment, a.route_id, webhook_answer_type(a.kind) AS type,
               a.id AS answer_id
        FROM new_answers a WHERE NOT a.is_late
    ), captured AS (
        INSERT INTO webhook_events (id, company_id, environment, route_id, type, at, answer_id)
        SELECT id, company_id, environment, route_id, type, clock_timestamp(), answer_id FROM wanted
        WHERE EXISTS (
            SELECT FROM webhook_endpoints e
            WHERE e.company_id = wanted.company_id AND e.environment = wanted.environment
              AND e.disabled_at IS NULL AND (e.event_types IS NULL OR wanted.type = ANY (e.event_types)))
        RETURNING id, company_id, environment, route_id, type, at
    )
    INSERT INTO webhook_deliveries (endpoint_id, event_id, company_id, environment, route_id, queued_at, retry_at)
    SELECT e.id, it.id, it.company_id, it.environment, it.route_id, it.at, it.at
    FROM captured it JOIN webhook_endpoints e ON e.company_id = it.company_id AND e.environment = it.environment
    WHERE e.disabled_at IS NULL AND (e.event_types IS NULL OR it.type = ANY (e.event_types));
"""
"""Beside the trigger on `routes`, in `webhook_event_types.py`. Late answers are no events: they change nothing."""


def upgrade() -> None:
    op.execute(
        "CREATE OR REPLACE FUNCTION webhook_answer_type(kind text) RETURNS text"
        f" LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ {_TYPE} $$"
    )
    op.execute(
        "CREATE OR REPLACE FUNCTION capture_answer_events() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {_CAPTURE} RETURN NULL; END $$"
    )
    op.execute(
        "CREATE OR REPLACE TRIGGER driver_answers_told AFTER INSERT ON driver_answers REFERENCING NEW TABLE AS new_answers"
        " FOR EACH STATEMENT EXECUTE FUNCTION capture_answer_events()"
    )
    in_own_transaction(_add_column)


def _add_column() -> None:
    op.add_column("webhook_events", sa.Column("answer_id", sa.Uuid(), nullable=True), if_not_exists=True)
