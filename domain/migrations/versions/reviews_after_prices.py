"""price sets that wait for reviews of plans

Revision ID: 20261201G1
Revises: 20261130o1
"""

import sqlalchemy as sa
from alembic import op

revision = "20261201G1"
down_revision = "20261130o1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("price_sets", sa.Column("reviews_due_at", sa.DateTime(timezone=True), nullable=True))
