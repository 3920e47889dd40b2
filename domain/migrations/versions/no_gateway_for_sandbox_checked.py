"""the messages of before fulfil that too

Revision ID: 20261125g
Revises: 20261125f
"""

from alembic import op

revision = "20261125g"
down_revision = "20261125f"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE messages VALIDATE CONSTRAINT no_gateway_for_sandbox")
