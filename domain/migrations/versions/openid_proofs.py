"""accounts of a provider whose owners are asked before they are bound

Revision ID: 20261129H1
Revises: 20261129D1
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.row_security import BY_USER, protect_new

revision = "20261129H1"
down_revision = "20261129D1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "openid_proofs",
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("link_hash", sa.LargeBinary(), nullable=True),
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("email", sa.String(), nullable=True),
        sa.Column("next_path", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("token_hash"),
    )
    op.create_index("ix_openid_proofs_user_id", "openid_proofs", ["user_id"])
    protect_new("openid_proofs", BY_USER)
