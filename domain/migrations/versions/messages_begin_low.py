"""the mark of messages whose plan begins low on fuel

Revision ID: 20261202N1
Revises: 20261201L1
"""

import sqlalchemy as sa
from alembic import op

revision = "20261202N1"
down_revision = "20261201L1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("messages", sa.Column("begins_low", sa.Boolean(), server_default=sa.text("false"), nullable=False))
