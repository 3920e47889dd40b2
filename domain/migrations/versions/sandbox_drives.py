"""drives of simulated trucks in the sandbox

Revision ID: 20261125d
Revises: 20261125c
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from domain.migrations.row_security import protect, visible

revision = "20261125d"
down_revision = "20261125c"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sandbox_drives",
        sa.Column("route_id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("vehicle_id", sa.Uuid(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("own_speedup", sa.Integer(), nullable=True),
        sa.Column("plan_id", sa.Uuid(), nullable=True),
        sa.Column("simulated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("moves_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("truck", postgresql.JSONB(), nullable=False),
        sa.Column("began_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["route_id"], ["routes.id"]),
        sa.PrimaryKeyConstraint("route_id"),
    )
    op.create_index(
        "sandbox_drives_under_way",
        "sandbox_drives",
        ["vehicle_id"],
        unique=True,
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    protect("sandbox_drives", visible(environment="environment"))
