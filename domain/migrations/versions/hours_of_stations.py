"""the hours in which stations are open

Revision ID: 20261203H1
Revises: 20261203R3
"""

import sqlalchemy as sa
from alembic import op

revision = "20261203H1"
down_revision = "20261203R3"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("stations", sa.Column("hours", sa.String(), nullable=True), if_not_exists=True)
