"""when trucks reach and leave the fuel stops of their plans

Revision ID: 20261204F1
Revises: 20261203C1
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from domain.migrations.transactions import in_own_transaction

revision = "20261204F1"
down_revision = "20261203C1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    in_own_transaction(_add_column)


def _add_column() -> None:
    op.add_column("routes", sa.Column("fuel_visits", JSONB(), nullable=True), if_not_exists=True)
