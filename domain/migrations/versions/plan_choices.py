"""the choices of plans; the allowance of drivers, parking and showers of stations

Revision ID: 20261201M2
Revises: 20261201W1
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from domain.migrations.row_security import fence_off_new, not_fenced, protect_new, visible
from domain.migrations.transactions import in_own_transaction

revision = "20261201M2"
down_revision = "20261201W1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    in_own_transaction(_add_allowance)
    in_own_transaction(_add_amenities)
    in_own_transaction(_add_due_menus)
    op.create_table(
        "plan_choices",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("route_id", sa.Uuid(), nullable=False),
        sa.Column("plan_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("document", postgresql.JSONB(), nullable=False),
        sa.Column("station_ids", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("extra_cents", sa.BigInteger(), nullable=False),
        sa.Column("pump_cents", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(), server_default=sa.text("'open'"), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("asked_by", sa.String(), nullable=True),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("decided_by", sa.String(), nullable=True),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("made_plan_id", sa.Uuid(), nullable=True),
        sa.CheckConstraint("status IN ('open', 'asked', 'taken', 'chosen', 'declined', 'refused')", name="status"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("plan_choices_by_plan", "plan_choices", ["plan_id"])
    op.create_index("plan_choices_by_route", "plan_choices", ["route_id"])
    op.create_index(
        "plan_choices_asked",
        "plan_choices",
        ["company_id", "environment"],
        postgresql_where=sa.text("status = 'asked'"),
    )
    protect_new("plan_choices", visible(environment="environment"))
    fence_off_new("plan_choices", not_fenced())


def _add_allowance() -> None:
    op.add_column(
        "companies",
        sa.Column("driver_allowance", sa.Float(), server_default=sa.text("0"), nullable=False),
        if_not_exists=True,
    )


def _add_amenities() -> None:
    op.add_column("stations", sa.Column("parking_spaces", sa.Integer(), nullable=True), if_not_exists=True)
    op.add_column("stations", sa.Column("showers", sa.Integer(), nullable=True), if_not_exists=True)


def _add_due_menus() -> None:
    op.add_column("plans", sa.Column("menu_due_at", sa.DateTime(timezone=True), nullable=True), if_not_exists=True)
