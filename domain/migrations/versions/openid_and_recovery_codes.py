"""accounts of an OpenID Connect provider, and recovery codes

Revision ID: 20261128a
Revises: 20261128c
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.row_security import BY_USER, protect_new

revision = "20261128a"
down_revision = "20261128c"
branch_labels = None
depends_on = None

accepted = {
    "ALTER TABLE users ADD CONSTRAINT users_openid": "users are few, and no release before has written these columns"
}


def upgrade() -> None:
    op.add_column("users", sa.Column("openid_issuer", sa.String(), nullable=True))
    op.add_column("users", sa.Column("openid_subject", sa.String(), nullable=True))
    op.create_unique_constraint("users_openid", "users", ["openid_issuer", "openid_subject"])
    op.create_table(
        "recovery_codes",
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", "token_hash"),
    )
    protect_new("recovery_codes", BY_USER)
