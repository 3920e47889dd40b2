"""the trips of a replay's portions, as they were when it was asked for

Revision ID: 20261203R3
Revises: 20261203R2
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "20261203R3"
down_revision = "20261203R2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("replay_portions", sa.Column("route_ids", ARRAY(sa.Uuid()), nullable=True))
