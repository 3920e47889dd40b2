"""dimensions and hazardous cargo of vehicles

Revision ID: 20261130c
Revises: 20261127a
"""

import sqlalchemy as sa
from alembic import op

revision = "20261130c"
down_revision = "20261127a"
branch_labels = None
depends_on = None

_MEASURES = ("height_feet", "width_feet", "length_feet", "weight_pounds", "axle_weight_pounds")


def upgrade() -> None:
    for name in _MEASURES:
        op.add_column("vehicles", sa.Column(name, sa.Float(), nullable=True))
    op.add_column("vehicles", sa.Column("axle_count", sa.Integer(), nullable=True))
    op.add_column("vehicles", sa.Column("hazmat", sa.String(), nullable=True))
