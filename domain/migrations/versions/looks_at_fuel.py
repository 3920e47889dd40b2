"""when the fuel of a truck on its way is looked at, whether it falls short, and the policy for that

Revision ID: 20261201B1
Revises: 20261201C1
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.transactions import in_own_transaction

revision = "20261201B1"
down_revision = "20261201C1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for change in (_add_policy, _add_looks, _add_ways):
        in_own_transaction(change)


def _add_policy() -> None:
    op.add_column(
        "companies",
        sa.Column("watch_burn", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        if_not_exists=True,
    )
    op.add_column(
        "companies",
        sa.Column("burn_floor_percent", sa.Float(), server_default=sa.text("12"), nullable=False),
        if_not_exists=True,
    )


def _add_looks() -> None:
    for column in ("look_from", "look_by", "low_since"):
        op.add_column("tracks", sa.Column(column, sa.DateTime(timezone=True), nullable=True), if_not_exists=True)
    op.add_column("tracks", sa.Column("look_below_percent", sa.Float(), nullable=True), if_not_exists=True)


def _add_ways() -> None:
    op.add_column("plans", sa.Column("coarse_way", sa.LargeBinary(), nullable=True), if_not_exists=True)
