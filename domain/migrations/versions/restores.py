"""restores, and messages that are withheld after one

Revision ID: 20261124b
Revises: 20261124a
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.row_security import open_to_service

revision = "20261124b"
down_revision = "20261124a"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "restores",
        sa.Column("restored_at", sa.DateTime(timezone=True), primary_key=True),
        sa.Column("restored_to", sa.DateTime(timezone=True), nullable=False),
        sa.Column("withholds_until", sa.DateTime(timezone=True), nullable=True),
    )
    open_to_service("restores")
    op.add_column("messages", sa.Column("withheld_since", sa.DateTime(timezone=True), nullable=True))
