"""stops whose free time has ended, as webhook events, too; the key that signs statements; free minutes of companies

Revision ID: 20261201W2
Revises: 20261201M4
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.row_security import fence_off_new, not_fenced, open_to_service, protect_new, visible
from domain.migrations.transactions import in_own_transaction

revision = "20261201W2"
down_revision = "20261201M4"
branch_labels = None
depends_on = None

_UUID7 = """
    encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::int8) FROM 3) FROM 1 FOR 6),
        52, 1), 53, 1), 'hex')::uuid
"""

_CAPTURE = f"""
    WITH wanted AS (
        SELECT {_UUID7} AS id, d.company_id, d.environment, d.route_id, 'stop.detained' AS type, d.stop
        FROM new_dwells d WHERE d.is_detained AND d.free_until > d.judged_at - interval '1 day'
    ), captured AS (
        INSERT INTO webhook_events (id, company_id, environment, route_id, type, at, stop)
        SELECT id, company_id, environment, route_id, type, clock_timestamp(), stop FROM wanted
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
"""Beside the triggers on `routes` and on `driver_answers`. What is found more than a day late is no news any more."""


def upgrade() -> None:
    op.create_table(
        "dwells",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("route_id", sa.Uuid(), sa.ForeignKey("routes.id"), nullable=False),
        sa.Column("stop", sa.Integer(), nullable=False),
        sa.Column("arrived_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("free_minutes", sa.Float(), nullable=False),
        sa.Column("free_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("is_detained", sa.Boolean(), nullable=False),
        sa.Column("judged_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("environment IN ('live', 'sandbox')", name="environment"),
        sa.PrimaryKeyConstraint("route_id", "stop"),
    )
    protect_new("dwells", visible(environment="environment"))
    fence_off_new("dwells", not_fenced())
    op.create_table(
        "signing_keys",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("certificate", sa.String(), nullable=False),
        sa.Column("private_key", sa.String(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    open_to_service("signing_keys")
    in_own_transaction(_add_stop)
    op.execute(
        "CREATE OR REPLACE FUNCTION capture_dwell_events() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {_CAPTURE} RETURN NULL; END $$"
    )
    op.execute(
        "CREATE OR REPLACE TRIGGER dwells_told AFTER INSERT ON dwells REFERENCING NEW TABLE AS new_dwells"
        " FOR EACH STATEMENT EXECUTE FUNCTION capture_dwell_events()"
    )
    in_own_transaction(_add_minutes)


def _add_stop() -> None:
    op.add_column("webhook_events", sa.Column("stop", sa.Integer(), nullable=True), if_not_exists=True)


def _add_minutes() -> None:
    op.add_column(
        "companies",
        sa.Column("detention_free_minutes", sa.Float(), server_default=sa.text("120"), nullable=False),
        if_not_exists=True,
    )
