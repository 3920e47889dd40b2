"""an index of price sets that wait for reviews of plans

Revision ID: 20261201G2
Revises: 20261201G1
"""

import sqlalchemy as sa

from domain.migrations.indexes import create_index_concurrently

revision = "20261201G2"
down_revision = "20261201G1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_concurrently(
        "price_sets_reviews_due",
        "price_sets",
        ["reviews_due_at"],
        postgresql_where=sa.text("reviews_due_at IS NOT NULL"),
    )
