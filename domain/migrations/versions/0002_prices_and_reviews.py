"""deals with dates, fuel taxes, price sets, objectives; plans that are looked at again

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "fuel_taxes",
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("valid_from", sa.Date(), nullable=False),
        sa.Column("rate_per_gallon", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("state", "valid_from"),
    )
    op.create_table(
        "price_sets",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("company_id", sa.String(), nullable=True),
        sa.Column("imported_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["company_id"], ["companies.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.add_column("companies", sa.Column("objective", sa.String(), server_default=sa.text("'pump'"), nullable=False))
    op.add_column(
        "companies", sa.Column("leftover_value_per_gallon", sa.Float(), server_default=sa.text("0"), nullable=False)
    )
    op.create_check_constraint("objective", "companies", "objective IN ('pump', 'tax-adjusted')")
    op.add_column("deals", sa.Column("valid_from", sa.Date(), nullable=True))
    op.add_column("deals", sa.Column("valid_to", sa.Date(), nullable=True))
    op.drop_constraint("deals_key", "deals", type_="unique")
    op.create_unique_constraint(
        "deals_key", "deals", ["company_id", "station_id", "brand", "valid_from"], postgresql_nulls_not_distinct=True
    )
    op.alter_column("plans", "document", existing_type=postgresql.JSONB(), nullable=True)
    op.add_column("plans", sa.Column("fuel_percent", sa.Float(), server_default=sa.text("50"), nullable=False))
    op.alter_column("plans", "fuel_percent", server_default=None)
    op.add_column("plans", sa.Column("price_set", sa.BigInteger(), nullable=True))
    op.add_column("routes", sa.Column("review_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("routes", sa.Column("corrected_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index("routes_review_due", "routes", ["review_at"], postgresql_where=sa.text("review_at IS NOT NULL"))
