"""the links to the driver's page of a trip, by the hashes of their tokens

Revision ID: 20261201L1
Revises: 20261201M1
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.row_security import fence_off_new, not_fenced, protect_new, visible

revision = "20261201L1"
down_revision = "20261201M1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "driver_links",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("route_id", sa.Uuid(), nullable=False),
        sa.Column("driver_id", sa.Uuid(), nullable=False),
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("driver_links_by_token", "driver_links", ["token_hash"], unique=True)
    op.create_index("driver_links_by_route", "driver_links", ["route_id"])
    op.create_index("driver_links_by_driver", "driver_links", ["driver_id"])
    op.create_index("driver_links_by_expiry", "driver_links", ["expires_at"])
    protect_new("driver_links", visible(environment="environment"))
    fence_off_new("driver_links", not_fenced())
