"""a fill knows if its file names the zone of its time

Revision ID: 20261206A1
Revises: 20261205A1
"""

import sqlalchemy as sa
from alembic import op

revision = "20261206A1"
down_revision = "20261205A1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("fills", sa.Column("has_zone", sa.Boolean(), server_default=sa.text("false"), nullable=False))
