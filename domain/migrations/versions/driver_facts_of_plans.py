"""facts of a plan's fuel stops for the driver's page

Revision ID: 20261201L2
Revises: 20261201A1
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "20261201L2"
down_revision = "20261201A1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("plans", sa.Column("driver_facts", postgresql.JSONB(), nullable=True), if_not_exists=True)
