"""the share of trips that may fall below the reserve

Revision ID: 20261201D1
Revises: 20261201F1
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.backfills import Backfill

revision = "20261201D1"
down_revision = "20261201F1"
branch_labels = None
depends_on = None

backfill = Backfill(
    table="companies",
    fill="""
    UPDATE companies SET trips_below_reserve_percent =
      CASE WHEN fuel_margin_percent < 5 THEN 20 WHEN fuel_margin_percent < 10 THEN 10 ELSE 5 END
    WHERE id = ANY(%(keys)s) AND fuel_margin_percent > 0 AND trips_below_reserve_percent = 100
    """,
)
"""The margin ended at the first purchase. The larger it was, the fewer trips shall fall below the reserve."""


def upgrade() -> None:
    op.add_column(
        "companies",
        sa.Column("trips_below_reserve_percent", sa.Float(), server_default=sa.text("100"), nullable=False),
    )
