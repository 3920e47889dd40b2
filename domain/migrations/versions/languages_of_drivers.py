"""the languages that drivers read

Revision ID: 20261201W1
Revises: 20261201A2
"""

import sqlalchemy as sa
from alembic import op

revision = "20261201W1"
down_revision = "20261201A2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("drivers", sa.Column("language", sa.String(), nullable=True))
