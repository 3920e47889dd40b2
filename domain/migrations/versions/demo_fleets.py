"""the living fleet of the demo: its company and its speed

Revision ID: 20261201M1
Revises: 20261201B1
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.row_security import fence_off, not_fenced, protect, visible

revision = "20261201M1"
down_revision = "20261201B1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "demo_fleets",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("speed", sa.Integer(), nullable=False),
        sa.Column("slows_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("company_id"),
        if_not_exists=True,
    )
    protect("demo_fleets", visible())
    fence_off("demo_fleets", not_fenced())
