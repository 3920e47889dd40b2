"""fills of fuel cards, the verdicts on planned fuel stops, and what was really paid beside the planned savings

Revision ID: 20261201a
Revises: 20261128a
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from domain.migrations.row_security import fence_off_new, not_fenced, protect_new, visible
from domain.migrations.transactions import in_own_transaction

revision = "20261201a"
down_revision = "20261128a"
branch_labels = None
depends_on = None

_TABLES = ("fills", "stop_verdicts")


def upgrade() -> None:
    op.create_table(
        "fills",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("profile", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("transaction_number", sa.String(), nullable=True),
        sa.Column("card_last_four", sa.String(), nullable=True),
        sa.Column("bought_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("time_zone", sa.String(), nullable=False),
        sa.Column("has_time", sa.Boolean(), nullable=False),
        sa.Column("unit_number", sa.String(), nullable=True),
        sa.Column("location_name", sa.String(), nullable=True),
        sa.Column("station_code", sa.String(), nullable=True),
        sa.Column("city", sa.String(), nullable=True),
        sa.Column("state", sa.String(), nullable=True),
        sa.Column("item", sa.String(), nullable=True),
        sa.Column("fuel", sa.String(), nullable=False),
        sa.Column("gallons", sa.Float(), nullable=False),
        sa.Column("paid_cents", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("vehicle_id", sa.Uuid(), nullable=True),
        sa.Column("station_id", sa.String(), nullable=True),
        sa.Column("route_id", sa.Uuid(), nullable=True),
        sa.Column("stop_number", sa.Integer(), nullable=True),
        sa.Column("score", sa.Integer(), nullable=False),
        sa.Column("miles_from_truck", sa.Float(), nullable=True),
        sa.Column("review", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("flags", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("counter_id", sa.Uuid(), nullable=True),
        sa.Column("decided_by", sa.String(), nullable=True),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("environment IN ('live', 'sandbox')", name="environment"),
        sa.PrimaryKeyConstraint("id"),
    )
    newest_first: list[str | sa.TextClause] = ["company_id", "environment", sa.text("bought_at DESC"), "id"]
    op.create_index("fills_key", "fills", ["company_id", "environment", "key"], unique=True)
    op.create_index("fills_by_time", "fills", newest_first)
    op.create_index("fills_by_route", "fills", ["route_id"], postgresql_where=sa.text("route_id IS NOT NULL"))
    op.create_index(
        "fills_by_vehicle",
        "fills",
        ["vehicle_id", "environment", "bought_at"],
        postgresql_where=sa.text("vehicle_id IS NOT NULL"),
    )
    op.create_index("fills_to_review", "fills", newest_first, postgresql_where=sa.text("review <> '{}'"))
    op.create_index("fills_flagged", "fills", newest_first, postgresql_where=sa.text("flags <> '{}'"))
    op.create_table(
        "stop_verdicts",
        sa.Column("route_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("planned_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("vehicle_id", sa.Uuid(), nullable=False),
        sa.Column("driver_id", sa.Uuid(), nullable=False),
        sa.Column("verdict", sa.String(), nullable=False),
        sa.Column("place", sa.String(), nullable=False),
        sa.Column("planned_gallons", sa.Float(), nullable=False),
        sa.Column("planned_cents", sa.BigInteger(), nullable=False),
        sa.Column("bought_gallons", sa.Float(), nullable=False),
        sa.Column("paid_cents", sa.BigInteger(), nullable=False),
        sa.Column("price_cents", sa.BigInteger(), nullable=False),
        sa.Column("gallons_cents", sa.BigInteger(), nullable=False),
        sa.Column("place_cents", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["route_id"], ["routes.id"]),
        sa.PrimaryKeyConstraint("route_id", "number"),
    )
    op.create_index("stop_verdicts_by_time", "stop_verdicts", ["company_id", "environment", "planned_at"])
    for table in _TABLES:
        protect_new(table, visible(environment="environment"))
        fence_off_new(table, not_fenced())
    in_own_transaction(_extend_savings)


def _extend_savings() -> None:
    op.add_column("savings", sa.Column("bought_gallons", sa.Float(), nullable=True), if_not_exists=True)
    op.add_column("savings", sa.Column("paid_cents", sa.BigInteger(), nullable=True), if_not_exists=True)
    op.add_column("savings", sa.Column("at_average_cents", sa.BigInteger(), nullable=True), if_not_exists=True)
