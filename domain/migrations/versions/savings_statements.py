"""statements of a month's savings, frozen as they were sent; the day of the month on which a company gets them

Revision ID: 20261203S2
Revises: 20261203R1
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from domain.migrations.row_security import fence_off_new, not_fenced, protect_new, visible
from domain.migrations.transactions import in_own_transaction

revision = "20261203S2"
down_revision = "20261203R1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "savings_statements",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("month", sa.Date(), nullable=False),
        sa.Column("time_zone", sa.String(), nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("figures", postgresql.JSONB(), nullable=False),
        sa.Column("pdf", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("company_id", "month"),
    )
    op.create_table(
        "statement_trips",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("month", sa.Date(), nullable=False),
        sa.Column("route_id", sa.Uuid(), nullable=False),
        sa.Column("planned_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("unit_number", sa.String(), nullable=True),
        sa.Column("gallons", sa.Float(), nullable=False),
        sa.Column("cost_cents", sa.BigInteger(), nullable=False),
        sa.Column("saved_cents", sa.BigInteger(), nullable=True),
        sa.Column("bought_gallons", sa.Float(), nullable=True),
        sa.Column("paid_cents", sa.BigInteger(), nullable=True),
        sa.Column("at_average_cents", sa.BigInteger(), nullable=True),
        sa.Column("driven_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("left_out", sa.String(), nullable=True),
        sa.Column("below_30_cents", sa.BigInteger(), nullable=True),
        sa.Column("cheapest_cents", sa.BigInteger(), nullable=True),
        sa.Column("usual_cents", sa.BigInteger(), nullable=True),
        sa.Column("usual_of", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("company_id", "month", "route_id"),
    )
    for table in ("savings_statements", "statement_trips"):
        protect_new(table, visible())
        fence_off_new(table, not_fenced())
    in_own_transaction(_add_day)
    in_own_transaction(_add_month)


def _add_day() -> None:
    op.add_column(
        "companies",
        sa.Column("statement_day", sa.Integer(), server_default=sa.text("5"), nullable=False),
        if_not_exists=True,
    )


def _add_month() -> None:
    op.add_column("notices", sa.Column("statement_month", sa.Date(), nullable=True), if_not_exists=True)
