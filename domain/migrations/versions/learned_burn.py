"""the burn of completed trips, and what it teaches of each truck

Revision ID: 20261201C1
Revises: 20261201D1
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from domain.migrations.backfills import Backfill
from domain.migrations.row_security import fence_off_new, not_fenced, protect_new, visible
from domain.migrations.transactions import in_own_transaction

revision = "20261201C1"
down_revision = "20261201D1"
branch_labels = None
depends_on = None

backfill = Backfill(
    table="routes",
    fill="""
    INSERT INTO trip_burns (route_id, company_id, environment, vehicle_id, started_at, ended_at)
    SELECT r.id, r.company_id, r.environment, r.vehicle_id, least(visited.left_at, r.completed_at), r.completed_at
    FROM routes r
    CROSS JOIN LATERAL (SELECT coalesce(min(departed_at), min(arrived_at), r.completed_at) AS left_at
                        FROM visits WHERE route_id = r.id) AS visited
    WHERE r.id = ANY(%(keys)s) AND r.status = 'completed' AND r.vehicle_id IS NOT NULL
      AND r.updated_at > now() - interval '30 days'
    ON CONFLICT (route_id) DO NOTHING
    """,
)
"""Trips whose positions are still kept teach their trucks, too."""

_TABLES = ("trip_burns", "learned_burns")


def upgrade() -> None:
    op.create_table(
        "trip_burns",
        sa.Column("route_id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("vehicle_id", sa.Uuid(), nullable=False),
        sa.Column(
            "completed_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("levels", sa.LargeBinary(), nullable=True),
        sa.Column("measured_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("miles", sa.Float(), nullable=True),
        sa.Column("gallons", sa.Float(), nullable=True),
        sa.Column("spread_gallons", sa.Float(), nullable=True),
        sa.Column("by_card", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("doubt", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["route_id"], ["routes.id"]),
        sa.PrimaryKeyConstraint("route_id"),
    )
    op.create_index(
        "trip_burns_waiting", "trip_burns", ["completed_at"], postgresql_where=sa.text("measured_at IS NULL")
    )
    op.create_index(
        "trip_burns_by_truck", "trip_burns", ["company_id", "environment", "vehicle_id", sa.text("ended_at DESC")]
    )
    op.create_table(
        "learned_burns",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("vehicle_id", sa.Uuid(), nullable=False),
        sa.Column(
            "learned_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("capacity_gallons", sa.Float(), nullable=False),
        sa.Column("mpg", sa.Float(), nullable=True),
        sa.Column("spread_percent", sa.Float(), nullable=True),
        sa.Column("miles", sa.Float(), server_default=sa.text("0"), nullable=False),
        sa.Column("trips", postgresql.JSONB(), nullable=False),
        sa.Column("tank_gallons", sa.Float(), nullable=True),
        sa.Column("tank_fills", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("tank_kept_gallons", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("company_id", "environment", "vehicle_id"),
    )
    op.create_index("learned_burns_newest", "learned_burns", ["company_id", "environment", sa.text("learned_at DESC")])
    for table in _TABLES:
        protect_new(table, visible(environment="environment"))
        fence_off_new(table, not_fenced())
    in_own_transaction(_add_policy)


def _add_policy() -> None:
    op.add_column(
        "companies",
        sa.Column("mpg_choice", sa.String(), server_default=sa.text("'learned'"), nullable=False),
        if_not_exists=True,
    )
