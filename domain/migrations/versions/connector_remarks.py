"""remarks on connectors, and cursors that are doubted

Revision ID: 20261129G2
Revises: 20261129G1
"""

import sqlalchemy as sa
from alembic import op

revision = "20261129G2"
down_revision = "20261129G1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "connectors", sa.Column("cursor_doubted", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.add_column("connectors", sa.Column("remark", sa.String(), nullable=True))
    op.add_column("connectors", sa.Column("remarked_at", sa.DateTime(timezone=True), nullable=True))
