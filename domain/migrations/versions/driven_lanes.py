"""roads that trucks took on completed routes

Revision ID: 20261130b
Revises: 20261130a
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from domain.migrations.row_security import fence_off_new, not_fenced, protect_new, visible
from domain.migrations.transactions import in_own_transaction

revision = "20261130b"
down_revision = "20261130a"
branch_labels = None
depends_on = None

_TABLES = ("driven_lanes", "driven_roads")


def upgrade() -> None:
    op.create_table(
        "driven_lanes",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("start_latitude", sa.Float(), nullable=False),
        sa.Column("places", postgresql.ARRAY(sa.Float()), nullable=False),
        sa.Column("names", postgresql.JSONB(), nullable=False),
        sa.Column("road", sa.LargeBinary(), nullable=True),
        sa.Column("agreeing", postgresql.JSONB(), nullable=False),
        sa.Column("newest_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("driven_lanes_by_start", "driven_lanes", ["company_id", "environment", "start_latitude"])
    op.create_table(
        "driven_roads",
        sa.Column("route_id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("vehicle_id", sa.Uuid(), nullable=False),
        sa.Column(
            "completed_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("lane_id", sa.Uuid(), nullable=True),
        sa.Column("road", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["lane_id"], ["driven_lanes.id"]),
        sa.ForeignKeyConstraint(["route_id"], ["routes.id"]),
        sa.PrimaryKeyConstraint("route_id"),
    )
    op.create_index("driven_roads_waiting", "driven_roads", ["completed_at"], postgresql_where=sa.text("road IS NULL"))
    op.create_index("driven_roads_by_lane", "driven_roads", ["lane_id"])
    op.create_index("driven_roads_by_company", "driven_roads", ["company_id", "environment"])
    for table in _TABLES:
        protect_new(table, visible(environment="environment"))
        fence_off_new(table, not_fenced())
    in_own_transaction(_add_policy)


def _add_policy() -> None:
    op.add_column(
        "companies",
        sa.Column("driven_lanes", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        if_not_exists=True,
    )
