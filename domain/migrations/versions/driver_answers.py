"""the answers of drivers to the fuel stops of their plans; the miles by which a company wants them

Revision ID: 20261201A1
Revises: 20261202N1
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.row_security import fence_off_new, not_fenced, protect_new, visible
from domain.migrations.transactions import in_own_transaction

revision = "20261201A1"
down_revision = "20261202N1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "driver_answers",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("route_id", sa.Uuid(), sa.ForeignKey("routes.id"), nullable=False),
        sa.Column("driver_id", sa.Uuid(), nullable=False),
        sa.Column("plan_id", sa.Uuid(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("station_id", sa.String(), nullable=True),
        sa.Column("place", sa.String(), nullable=False),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("told_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("is_late", sa.Boolean(), nullable=False),
        sa.Column("latitude", sa.Float(), nullable=True),
        sa.Column("longitude", sa.Float(), nullable=True),
        sa.Column("gallons", sa.Float(), nullable=True),
        sa.Column("fill_percent", sa.Float(), nullable=True),
        sa.Column("price_per_gallon", sa.Float(), nullable=True),
        sa.Column("left_out_until", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("environment IN ('live', 'sandbox')", name="environment"),
        sa.CheckConstraint("kind IN ('going', 'fueled', 'refused')", name="kind"),
        sa.CheckConstraint(
            "reason IN ('closed', 'queue', 'no_parking', 'no_time', 'out_of_network', 'other')", name="reason"
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("driver_answers_once", "driver_answers", ["route_id", "key"], unique=True)
    op.create_index("driver_answers_by_time", "driver_answers", ["company_id", "environment", "answered_at"])
    op.create_index("driver_answers_by_driver", "driver_answers", ["driver_id"])
    for name, column, present in (
        ("driver_answers_leaving_out", "left_out_until", "left_out_until"),
        ("driver_answers_with_place", "route_id", "latitude"),
    ):
        op.create_index(name, "driver_answers", [column], postgresql_where=sa.text(f"{present} IS NOT NULL"))
    protect_new("driver_answers", visible(environment="environment"))
    fence_off_new("driver_answers", not_fenced())
    in_own_transaction(_add_miles)


def _add_miles() -> None:
    op.add_column(
        "companies",
        sa.Column("answer_by_miles", sa.Float(), server_default=sa.text("0"), nullable=False),
        if_not_exists=True,
    )
