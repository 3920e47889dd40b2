"""the trips whose fixes were not compared with their fuel stops yet

Revision ID: 20261201A4
Revises: 20261201A3
"""

import sqlalchemy as sa

from domain.migrations.indexes import create_index_concurrently

revision = "20261201A4"
down_revision = "20261201A3"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_concurrently(
        "trip_burns_unseen", "trip_burns", ["completed_at"], postgresql_where=sa.text("stops_seen_at IS NULL")
    )
