"""the costs of drivers' habits of fueling for the trips of plans

Revision ID: 20261203S1
Revises: 20261201L3
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.backfills import Backfill
from domain.migrations.row_security import fence_off_new, not_fenced, protect_new, visible

revision = "20261203S1"
down_revision = "20261201L3"
branch_labels = None
depends_on = None

backfill = Backfill(
    table="savings",
    fill="""
    INSERT INTO habit_costs (route_id, company_id, environment, plan_id, planned_at)
    SELECT s.route_id, s.company_id, s.environment, s.plan_id, s.planned_at
    FROM savings s WHERE s.route_id = ANY(%(keys)s)
    ON CONFLICT (route_id) DO NOTHING
    """,
    key="route_id",
)
"""Plans from before are driven, too, as far as their explanations are kept; the others are counted as left out."""


def upgrade() -> None:
    op.create_table(
        "habit_costs",
        sa.Column("route_id", sa.Uuid(), sa.ForeignKey("routes.id"), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("plan_id", sa.Uuid(), nullable=False),
        sa.Column("planned_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("driven_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("left_out", sa.String(), nullable=True),
        sa.Column("below_30_cents", sa.BigInteger(), nullable=True),
        sa.Column("cheapest_cents", sa.BigInteger(), nullable=True),
        sa.Column("usual_cents", sa.BigInteger(), nullable=True),
        sa.Column("usual_of", sa.String(), nullable=True),
        sa.CheckConstraint("environment IN ('live', 'sandbox')", name="environment"),
        sa.PrimaryKeyConstraint("route_id"),
    )
    op.create_index("habit_costs_waiting", "habit_costs", ["planned_at"], postgresql_where=sa.text("driven_at IS NULL"))
    protect_new("habit_costs", visible(environment="environment"))
    fence_off_new("habit_costs", not_fenced())
