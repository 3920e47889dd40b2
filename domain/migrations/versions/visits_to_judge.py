"""visits whose free time has not been judged yet

Revision ID: 20261203D1
Revises: 20261203S3
"""

import sqlalchemy as sa
from alembic import op

revision = "20261203D1"
down_revision = "20261203S3"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("visits", sa.Column("is_to_judge", sa.Boolean(), server_default=sa.text("true"), nullable=False))
