"""the recipients that took a text which others refused

Revision ID: 20261203R2
Revises: 20261203D2
"""

from functools import partial

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

from domain.migrations.transactions import in_own_transaction

revision = "20261203R2"
down_revision = "20261203D2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("notices", "messages"):
        in_own_transaction(partial(_add_column, table))


def _add_column(table: str) -> None:
    op.add_column(table, sa.Column("taken_by", ARRAY(sa.Text()), nullable=True), if_not_exists=True)
