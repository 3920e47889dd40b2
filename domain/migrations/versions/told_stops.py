"""the outcome of the fuel stops of completed routes

Revision ID: 20261201A3
Revises: 20261201M3
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.row_security import fence_off_new, not_fenced, protect_new, visible
from domain.migrations.transactions import in_own_transaction

revision = "20261201A3"
down_revision = "20261201M3"
branch_labels = None
depends_on = None

accepted = {
    "ALTER TABLE trip_burns ALTER COLUMN stops_seen_at DROP DEFAULT": "the release before does not know the column,"
    " which may be NULL"
}


def upgrade() -> None:
    op.create_table(
        "told_stops",
        sa.Column("route_id", sa.Uuid(), sa.ForeignKey("routes.id"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("planned_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("driver_id", sa.Uuid(), nullable=False),
        sa.Column("plan_id", sa.Uuid(), nullable=False),
        sa.Column("station_id", sa.String(), nullable=True),
        sa.Column("place", sa.String(), nullable=False),
        sa.Column("planned_gallons", sa.Float(), nullable=False),
        sa.Column("planned_cents", sa.BigInteger(), nullable=False),
        sa.Column("seen", sa.String(), nullable=True),
        sa.CheckConstraint("seen IN ('bought', 'not_bought', 'stood', 'passed')", name="seen"),
        sa.PrimaryKeyConstraint("route_id", "number"),
    )
    op.create_index("told_stops_by_time", "told_stops", ["company_id", "environment", "planned_at"])
    op.create_index("told_stops_by_driver", "told_stops", ["driver_id"])
    protect_new("told_stops", visible(environment="environment"))
    fence_off_new("told_stops", not_fenced())
    in_own_transaction(_add_mark)


def _add_mark() -> None:
    """Trips that were completed before count as compared: most of their positions are gone."""
    op.add_column(
        "trip_burns",
        sa.Column("stops_seen_at", sa.DateTime(timezone=True), server_default="2026-12-01 00:00+00", nullable=True),
        if_not_exists=True,
    )
    op.alter_column("trip_burns", "stops_seen_at", server_default=None)
