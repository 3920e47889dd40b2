"""replays of a company's driven trips, and their packed inputs

Revision ID: 20261203R1
Revises: 20261203S1
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.row_security import fence_off_new, not_fenced, protect_new, visible
from domain.migrations.transactions import in_own_transaction

revision = "20261203R1"
down_revision = "20261203S1"
branch_labels = None
depends_on = None

_ENVIRONMENTS = "environment IN ('live', 'sandbox')"


def upgrade() -> None:
    op.create_table(
        "replays",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), sa.ForeignKey("companies.id"), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("first_day", sa.Date(), nullable=False),
        sa.Column("last_day", sa.Date(), nullable=False),
        sa.Column("time_zone", sa.String(), nullable=False),
        sa.Column("terms", sa.dialects.postgresql.JSONB(), nullable=False),
        sa.Column("trips", sa.Integer(), nullable=False),
        sa.Column("by_workers", sa.Boolean(), nullable=False),
        sa.Column("asked_by", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("stopped_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("summary", sa.dialects.postgresql.JSONB(), nullable=True),
        sa.CheckConstraint(_ENVIRONMENTS, name="environment"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("replays_by_company", "replays", ["company_id", "environment", "created_at"])
    op.create_index(
        "replays_due",
        "replays",
        ["created_at"],
        postgresql_where=sa.text("by_workers AND finished_at IS NULL AND stopped_at IS NULL"),
    )
    op.create_table(
        "replay_portions",
        sa.Column("replay_id", sa.Uuid(), sa.ForeignKey("replays.id"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("first_id", sa.Uuid(), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_id", sa.Uuid(), nullable=False),
        sa.Column("trips", sa.Integer(), nullable=False),
        sa.Column("taken_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("results", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint(_ENVIRONMENTS, name="environment"),
        sa.PrimaryKeyConstraint("replay_id", "number"),
    )
    op.create_index("replay_portions_by_company", "replay_portions", ["company_id"])
    for table in ("replays", "replay_portions"):
        _protect(table)
    in_own_transaction(_make_trip_inputs)


def _make_trip_inputs() -> None:
    op.create_table(
        "trip_inputs",
        sa.Column("route_id", sa.Uuid(), sa.ForeignKey("routes.id"), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("plan_id", sa.Uuid(), nullable=False),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint(_ENVIRONMENTS, name="environment"),
        sa.PrimaryKeyConstraint("route_id"),
        if_not_exists=True,
    )
    _protect("trip_inputs")


def _protect(table: str) -> None:
    protect_new(table, visible(environment="environment"))
    fence_off_new(table, not_fenced())
