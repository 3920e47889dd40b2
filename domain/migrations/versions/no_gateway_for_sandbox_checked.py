"""the messages of before fulfil that too

Revision ID: 20261125w
Revises: 20261125v
"""

from alembic import op

revision = "20261125w"
down_revision = "20261125v"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE messages VALIDATE CONSTRAINT no_gateway_for_sandbox")
