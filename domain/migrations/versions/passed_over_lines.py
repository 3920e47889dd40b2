"""the lines of a card's file that are no purchases are counted

Revision ID: 20261129D1
Revises: 20261129C1
"""

import sqlalchemy as sa
from alembic import op

revision = "20261129D1"
down_revision = "20261129C1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("csv_imports", sa.Column("passed_over", sa.Integer(), server_default=sa.text("0"), nullable=False))
