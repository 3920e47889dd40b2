"""endpoints, events, deliveries and attempts of webhooks

Revision ID: 20261125h
Revises: 20261125g
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from domain.migrations.row_security import protect_new, visible

revision = "20261125h"
down_revision = "20261125g"
branch_labels = None
depends_on = None

_TABLES = ("webhook_endpoints", "webhook_events", "webhook_deliveries", "webhook_attempts")


def upgrade() -> None:
    op.create_table(
        "webhook_endpoints",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("description", sa.String(), server_default=sa.text("''"), nullable=False),
        sa.Column("event_types", postgresql.ARRAY(sa.Text()), nullable=True),
        sa.Column("secret", sa.String(), nullable=False),
        sa.Column("former_secret", sa.String(), nullable=True),
        sa.Column("former_secret_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("disabled_reason", sa.String(), nullable=True),
        sa.Column("failing_since", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("environment IN ('live', 'sandbox')", name="environment"),
        sa.ForeignKeyConstraint(["company_id"], ["companies.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("webhook_endpoints_by_company", "webhook_endpoints", ["company_id", "environment"])
    op.create_table(
        "webhook_events",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("route_id", sa.Uuid(), nullable=True),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("payload", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_webhook_events_company_id"), "webhook_events", ["company_id"])
    op.create_index(op.f("ix_webhook_events_route_id"), "webhook_events", ["route_id"])
    _create_deliveries()
    for table in _TABLES:
        protect_new(table, visible(environment="environment"))


def _create_deliveries() -> None:
    op.create_table(
        "webhook_deliveries",
        sa.Column("event_id", sa.Uuid(), nullable=False),
        sa.Column("endpoint_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("route_id", sa.Uuid(), nullable=True),
        sa.Column("status", sa.String(), server_default=sa.text("'pending'"), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("failures", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("retry_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("claimed_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.CheckConstraint("status IN ('pending', 'delivered', 'failed')", name="status"),
        sa.ForeignKeyConstraint(["event_id"], ["webhook_events.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("event_id", "endpoint_id"),
    )
    op.create_index("webhook_deliveries_by_endpoint", "webhook_deliveries", ["endpoint_id", "number"])
    for name, columns in (
        ("webhook_deliveries_due", ["endpoint_id", "retry_at", "number"]),
        ("webhook_deliveries_in_order", ["endpoint_id", "route_id", "number"]),
    ):
        op.create_index(name, "webhook_deliveries", columns, postgresql_where=sa.text("status = 'pending'"))
    op.create_table(
        "webhook_attempts",
        sa.Column("event_id", sa.Uuid(), nullable=False),
        sa.Column("endpoint_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("milliseconds", sa.Float(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column("answer", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["event_id"], ["webhook_events.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("event_id", "endpoint_id", "attempt"),
    )
