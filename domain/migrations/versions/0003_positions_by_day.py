"""positions in partitions: by environment, the live ones by day; the last position of each vehicle

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.rename_table("positions", "positions_before")
    op.execute("ALTER TABLE positions_before RENAME CONSTRAINT positions_pkey TO positions_before_pkey")
    op.create_table(
        "positions",
        sa.Column("vehicle_id", sa.String(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("latitude", sa.Float(), nullable=False),
        sa.Column("longitude", sa.Float(), nullable=False),
        sa.Column("speed_mph", sa.Float(), nullable=True),
        sa.Column("fuel_percent", sa.Float(), nullable=True),
        sa.Column("accuracy_meters", sa.Float(), nullable=True),
        sa.Column(
            "received_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("implausible", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.PrimaryKeyConstraint("vehicle_id", "environment", "recorded_at"),
        postgresql_partition_by="LIST (environment)",
    )
    op.execute("CREATE TABLE positions_sandbox PARTITION OF positions FOR VALUES IN ('sandbox')")
    op.execute(
        "CREATE TABLE positions_live PARTITION OF positions FOR VALUES IN ('live') PARTITION BY RANGE (recorded_at)"
    )
    op.execute("CREATE TABLE positions_live_other PARTITION OF positions_live DEFAULT")
    op.execute(
        "INSERT INTO positions (vehicle_id, environment, recorded_at, latitude, longitude, speed_mph, fuel_percent,"
        " accuracy_meters, received_at, implausible) SELECT vehicle_id, environment, recorded_at, latitude, longitude,"
        " speed_mph, fuel_percent, accuracy_meters, received_at, implausible FROM positions_before"
    )
    op.drop_table("positions_before")
    for name, kind in (("oldest_at", sa.DateTime(timezone=True)), ("latitude", sa.Float()), ("longitude", sa.Float())):
        op.add_column("tracks", sa.Column(name, kind, nullable=True))
    op.execute(
        "UPDATE tracks t SET oldest_at = p.oldest_at, latitude = p.latitude, longitude = p.longitude FROM"
        " (SELECT DISTINCT ON (vehicle_id, environment) vehicle_id, environment, latitude, longitude,"
        "  min(recorded_at) OVER (PARTITION BY vehicle_id, environment) AS oldest_at FROM positions"
        "  ORDER BY vehicle_id, environment, recorded_at DESC) AS p"
        " WHERE p.vehicle_id = t.vehicle_id AND p.environment = t.environment"
    )
    op.execute("DELETE FROM tracks WHERE oldest_at IS NULL")  # whose positions have all been forgotten
    for name in ("oldest_at", "latitude", "longitude"):
        op.alter_column("tracks", name, nullable=False)
