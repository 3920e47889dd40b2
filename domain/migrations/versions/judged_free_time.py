"""the free time by which detention was judged; which stops were told, and of which a statement was signed

Revision ID: 20261203C1
Revises: 20261203H1
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.transactions import in_own_transaction

revision = "20261203C1"
down_revision = "20261203H1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    in_own_transaction(_add_times)
    in_own_transaction(_add_minutes)


def _add_times() -> None:
    for name in ("told_at", "signed_at"):
        op.add_column("dwells", sa.Column(name, sa.DateTime(timezone=True), nullable=True), if_not_exists=True)


def _add_minutes() -> None:
    op.add_column("companies", sa.Column("detention_judged_minutes", sa.Float(), nullable=True), if_not_exists=True)
