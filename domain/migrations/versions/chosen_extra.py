"""the extra cost of choices, beside savings

Revision ID: 20261201M4
Revises: 20261201A4
"""

import sqlalchemy as sa
from alembic import op

revision = "20261201M4"
down_revision = "20261201A4"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("savings", sa.Column("chosen_cents", sa.BigInteger(), nullable=True))
