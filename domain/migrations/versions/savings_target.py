"""the savings that a company wants to reach each week

Revision ID: 20261128ca
Revises: 20261130b
"""

import sqlalchemy as sa
from alembic import op

revision = "20261128ca"
down_revision = "20261130b"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "companies",
        sa.Column("savings_target_per_week", sa.Float(), server_default=sa.text("0"), nullable=False),
    )
