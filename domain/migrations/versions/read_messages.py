"""when a driver had read a message, and when that was last asked for

Revision ID: 20261129b
Revises: 20261129a
"""

import sqlalchemy as sa
from alembic import op

revision = "20261129b"
down_revision = "20261129a"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("messages", sa.Column("read_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("messages", sa.Column("read_asked_at", sa.DateTime(timezone=True), nullable=True))
