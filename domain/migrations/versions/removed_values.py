"""an import keeps which stored values it removed

Revision ID: 20261205A1
Revises: 20261204F1
"""

import sqlalchemy as sa
from alembic import op

revision = "20261205A1"
down_revision = "20261204F1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("csv_imports", sa.Column("removed", sa.String(), nullable=True))
