"""connectors to vendors of telematics, and the vehicles that each vendor names

Revision ID: 20261129a
Revises: 20261130c
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from domain.migrations.row_security import fence_off_new, not_fenced, protect_new, visible

revision = "20261129a"
down_revision = "20261130c"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "connectors",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("credentials", sa.String(), nullable=False),
        sa.Column("asks", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("paused_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cursor", sa.String(), nullable=True),
        sa.Column("lease_number", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("leased_by", sa.String(), nullable=True),
        sa.Column("leased_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("newest_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("failures", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("failing_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_error", sa.String(), nullable=True),
        sa.Column("what_to_do", sa.String(), nullable=True),
        sa.Column("fixes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("left_out", postgresql.JSONB(), nullable=False),
        sa.CheckConstraint("environment IN ('live', 'sandbox')", name="environment"),
        sa.PrimaryKeyConstraint("id"),
        postgresql_with={"fillfactor": 50},
    )
    op.create_index("connectors_by_company", "connectors", ["company_id", "environment"])
    op.create_table(
        "connector_vehicles",
        sa.Column("connector_id", sa.Uuid(), nullable=False),
        sa.Column("vehicle_key", sa.String(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(), nullable=True),
        sa.Column("vin", sa.String(), nullable=True),
        sa.Column("external_ids", sa.String(), nullable=True),
        sa.Column("vehicle_id", sa.Uuid(), nullable=True),
        sa.Column("matched_by", sa.String(), nullable=True),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("connector_id", "vehicle_key"),
    )
    op.create_index("connector_vehicles_by_company", "connector_vehicles", ["company_id"])
    protect_new("connectors", visible(environment="environment"))
    fence_off_new("connectors", not_fenced())
    protect_new("connector_vehicles", visible())
    fence_off_new("connector_vehicles", not_fenced())
