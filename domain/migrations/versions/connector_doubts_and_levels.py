"""doubts about a match of a vendor's vehicle, and fuel levels that wait for a position

Revision ID: 20261129G1
Revises: 20261129B2
"""

import sqlalchemy as sa
from alembic import op

revision = "20261129G1"
down_revision = "20261129B2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("connector_vehicles", sa.Column("doubt", sa.String(), nullable=True))
    op.add_column("connector_vehicles", sa.Column("fuel_percent", sa.Float(), nullable=True))
    op.add_column("connector_vehicles", sa.Column("fuel_measured_at", sa.DateTime(timezone=True), nullable=True))
