"""failing price sources

Revision ID: 20261129C2
Revises: 20261129G2
"""

import sqlalchemy as sa
from alembic import op

revision = "20261129C2"
down_revision = "20261129G2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("price_sources", sa.Column("failures", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.add_column("price_sources", sa.Column("failing_since", sa.DateTime(timezone=True), nullable=True))
