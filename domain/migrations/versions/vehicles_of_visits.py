"""the vehicle of each visit, and the former vehicle of a route

Revision ID: 20261123b
Revises: 20261123a
"""

import sqlalchemy as sa
from alembic import op

revision = "20261123b"
down_revision = "20261123a"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("routes", sa.Column("former_vehicle_id", sa.Uuid(), nullable=True))
    op.create_index(
        "routes_started_before",
        "routes",
        ["former_vehicle_id", "environment"],
        postgresql_where=sa.text("status = 'pending' AND arrived_at IS NOT NULL"),
    )
    op.add_column("visits", sa.Column("vehicle_id", sa.Uuid(), nullable=True))
    op.execute(
        "UPDATE visits v SET vehicle_id = r.vehicle_id FROM routes r"
        " WHERE r.id = v.route_id AND r.vehicle_id IS NOT NULL"
    )
    op.create_index("visits_by_vehicle", "visits", ["vehicle_id", "environment", "stored_at"])
