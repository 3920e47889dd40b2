"""held routes are found by the one reference that they wait for

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_WAITING = (
    ("unit_number", "vehicle_unit_number", "vehicle_unmapped"),
    ("vin", "vehicle_vin", "vehicle_unmapped"),
    ("driver_name", "driver_name", "driver_unmapped"),
    ("driver_external_id", "driver_external_id", "driver_unmapped"),
)


def upgrade() -> None:
    for kind, column, reason in _WAITING:
        name = f"routes_waiting_for_{kind}"
        op.drop_index(name, "routes")
        op.create_index(
            name,
            "routes",
            ["company_id", column, "id"],
            postgresql_where=sa.text(
                f"status = 'pending_mapping' AND pending_reason = '{reason}' AND {column} IS NOT NULL"
            ),
        )
