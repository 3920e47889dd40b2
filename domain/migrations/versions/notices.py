"""subscriptions of people to needs, and the notices sent to them

Revision ID: 20261127a
Revises: 20261126ua
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from domain.migrations.row_security import fence_off_new, not_fenced, protect_new, visible

revision = "20261127a"
down_revision = "20261126ua"
branch_labels = None
depends_on = None

_TABLES = ("notice_subscriptions", "notices")


def upgrade() -> None:
    op.create_table(
        "notice_subscriptions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=True),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kinds", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("after_minutes", sa.Integer(), nullable=False),
        sa.Column("quiet_from", sa.Integer(), nullable=True),
        sa.Column("quiet_until", sa.Integer(), nullable=True),
        sa.Column("time_zone", sa.String(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_notice_subscriptions_company_id"), "notice_subscriptions", ["company_id"])
    op.create_index(op.f("ix_notice_subscriptions_user_id"), "notice_subscriptions", ["user_id"])
    op.create_table(
        "notices",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("subscription_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("part", sa.String(), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("routes", sa.Integer(), nullable=True),
        sa.Column("text", sa.String(), nullable=True),
        sa.Column("status", sa.String(), server_default=sa.text("'waiting'"), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("retry_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("claimed_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("settled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.CheckConstraint("status IN ('waiting', 'pending', 'sent', 'failed', 'doubtful', 'dropped')", name="status"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "notices_open",
        "notices",
        ["subscription_id", "kind"],
        unique=True,
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index("notices_by_company", "notices", ["company_id", "id"])
    op.create_index(
        "notices_under_way",
        "notices",
        ["company_id"],
        postgresql_where=sa.text("ended_at IS NULL OR settled_at IS NULL"),
    )
    for table in _TABLES:
        protect_new(table, visible())
        fence_off_new(table, not_fenced())
