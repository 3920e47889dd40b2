"""an import keeps the names of the columns that it did not use

Revision ID: 20261129X1
Revises: 20261129C3
"""

import sqlalchemy as sa
from alembic import op

revision = "20261129X1"
down_revision = "20261129C3"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("csv_imports", sa.Column("unused_columns", sa.String(), nullable=True))
