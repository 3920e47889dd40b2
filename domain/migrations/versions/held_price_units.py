"""currency and unit of held prices

Revision ID: 20261129B2
Revises: 20261129B1
"""

import sqlalchemy as sa
from alembic import op

revision = "20261129B2"
down_revision = "20261129B1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("held_prices", sa.Column("currency", sa.String(), nullable=False, server_default="USD"))
    op.add_column("held_prices", sa.Column("unit", sa.String(), nullable=False, server_default="gallon"))
