"""numbers of deals within their company

Revision ID: 20261129C1
Revises: 20261129E1
"""

import sqlalchemy as sa
from alembic import op

revision = "20261129C1"
down_revision = "20261129E1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("deals", sa.Column("number", sa.Integer(), nullable=True))
