"""no message of the sandbox is claimed for a gateway

Revision ID: 20261125f
Revises: 20261125e
"""

from alembic import op

revision = "20261125f"
down_revision = "20261125e"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "ALTER TABLE messages ADD CONSTRAINT no_gateway_for_sandbox"
        " CHECK (environment = 'live' OR claimed_until IS NULL) NOT VALID"
    )
