"""the speed at which a company's sandbox drives itself

Revision ID: 20261125s
Revises: 20261124d
"""

import sqlalchemy as sa
from alembic import op

revision = "20261125s"
down_revision = "20261124d"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "companies", sa.Column("sandbox_autodrive", sa.String(), server_default=sa.text("'off'"), nullable=False)
    )
