"""the attempts at the menu of a plan

Revision ID: 20261203P1
Revises: 20261203S2
"""

import sqlalchemy as sa
from alembic import op

revision = "20261203P1"
down_revision = "20261203S2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("plans", sa.Column("menu_attempts", sa.Integer(), server_default=sa.text("0"), nullable=False))
