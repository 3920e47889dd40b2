"""stations that are marked closed until a time; the stations of each plan

Revision ID: 20261201F1
Revises: 20261201G2
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from domain.migrations.row_security import fence_off_new, not_fenced, protect_new, visible
from domain.migrations.transactions import in_own_transaction

revision = "20261201F1"
down_revision = "20261201G2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "station_closures",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("station_id", sa.String(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=True),
        sa.Column("closed_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("closed_by", sa.String(), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "station_closures_once",
        "station_closures",
        ["company_id", "station_id"],
        unique=True,
        postgresql_nulls_not_distinct=True,
    )
    protect_new("station_closures", visible(shared=True))
    fence_off_new("station_closures", not_fenced())
    in_own_transaction(_add_stations_of_plans)


def _add_stations_of_plans() -> None:
    op.add_column("plans", sa.Column("station_ids", postgresql.ARRAY(sa.Text()), nullable=True), if_not_exists=True)
