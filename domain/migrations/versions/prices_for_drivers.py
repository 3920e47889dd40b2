"""the policy that leaves prices out for drivers

Revision ID: 20261201L3
Revises: 20261201B2
"""

import sqlalchemy as sa
from alembic import op

revision = "20261201L3"
down_revision = "20261201B2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "companies",
        sa.Column("prices_for_drivers", sa.Boolean(), server_default=sa.text("true"), nullable=False),
    )
