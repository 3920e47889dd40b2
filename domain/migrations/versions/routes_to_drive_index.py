"""an index of drafts that ask a simulated truck to drive them

Revision ID: 20261125e
Revises: 20261125d
"""

import sqlalchemy as sa

from domain.migrations.indexes import create_index_concurrently

revision = "20261125e"
down_revision = "20261125d"
branch_labels = None
depends_on = None

_NAME = "^SANDBOX-(DRIVE|OFFROUTE|LOWFUEL|EMPTY|PLANNED)(?![A-Za-z0-9_])"


def upgrade() -> None:
    create_index_concurrently(
        "routes_to_drive",
        "routes",
        ["vehicle_id", "scheduled_start", "id"],
        postgresql_where=sa.text(
            "environment = 'sandbox' AND status = 'draft' AND arrived_at IS NULL"
            f" AND (reference ~ '{_NAME}' OR external_id ~ '{_NAME}')"
        ),
    )
