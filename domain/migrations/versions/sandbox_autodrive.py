"""the speed at which a company's sandbox drives itself

Revision ID: 20261125c
Revises: 20261125b
"""

import sqlalchemy as sa
from alembic import op

revision = "20261125c"
down_revision = "20261125b"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "companies", sa.Column("sandbox_autodrive", sa.String(), server_default=sa.text("'off'"), nullable=False)
    )
