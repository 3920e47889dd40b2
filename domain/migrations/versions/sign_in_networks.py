"""networks of known browsers, and an end for attempts

Revision ID: 20261123c
Revises: 20261123b
"""

import sqlalchemy as sa
from alembic import op

revision = "20261123c"
down_revision = "20261123b"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("devices", sa.Column("network", sa.String(), nullable=True))
    op.add_column("sign_in_attempts", sa.Column("forgotten_at", sa.DateTime(timezone=True), nullable=True))
    op.execute("UPDATE sign_in_attempts SET forgotten_at = last_at + interval '3 days'")  # how long they were kept
    op.alter_column("sign_in_attempts", "forgotten_at", nullable=False)
    op.drop_index("ix_sign_in_attempts_last_at", "sign_in_attempts")
    op.create_index("ix_sign_in_attempts_forgotten_at", "sign_in_attempts", ["forgotten_at"])
