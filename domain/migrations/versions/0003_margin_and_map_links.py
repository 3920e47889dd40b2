"""how much more than the reserve is kept until the first purchase, and how messages link to a map

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "companies", sa.Column("fuel_margin_percent", sa.Float(), server_default=sa.text("0"), nullable=False)
    )
    op.add_column("companies", sa.Column("map_link", sa.String(), server_default=sa.text("'google'"), nullable=False))
    op.create_check_constraint("map_link", "companies", "map_link IN ('google', 'geo')")
