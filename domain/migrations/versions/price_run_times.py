"""time and profile of price runs

Revision ID: 20261129C3
Revises: 20261129C2
"""

import sqlalchemy as sa
from alembic import op

revision = "20261129C3"
down_revision = "20261129C2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("price_runs", sa.Column("modified_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("price_runs", sa.Column("read_with", sa.String(), nullable=True))
