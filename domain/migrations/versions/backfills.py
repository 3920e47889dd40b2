"""the progress of each back-fill

Revision ID: 20261124c
Revises: 20261124b
"""

import sqlalchemy as sa
from alembic import op

revision = "20261124c"
down_revision = "20261124b"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "backfills",
        sa.Column("revision", sa.String(), nullable=False),
        sa.Column("last_key", sa.String(), nullable=True),
        sa.Column("rows_filled", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("revision"),
    )
