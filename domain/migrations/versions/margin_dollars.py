"""the dollars that a margin beyond the reserve may cost

Revision ID: 20261201B2
Revises: 20261201W3
"""

import sqlalchemy as sa
from alembic import op

revision = "20261201B2"
down_revision = "20261201W3"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "companies",
        sa.Column("margin_dollars", sa.Float(), server_default=sa.text("3"), nullable=False),
    )
