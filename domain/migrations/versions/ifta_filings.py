"""quarters of fuel tax that were filed

Revision ID: 20261203S3
Revises: 20261203P1
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from domain.migrations.row_security import fence_off_new, not_fenced, protect_new, visible

revision = "20261203S3"
down_revision = "20261203P1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "ifta_filings",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("quarter", sa.String(), nullable=False),
        sa.Column("filed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("filed_by", sa.String(), nullable=False),
        sa.Column("report", postgresql.JSONB(), nullable=False),
        sa.Column("legs", sa.LargeBinary(), nullable=False),
        sa.Column("reopened_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("compared_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("changes", postgresql.JSONB(), nullable=True),
        sa.Column("is_to_amend", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ifta_filings_by_quarter", "ifta_filings", ["company_id", "quarter", "filed_at"])
    op.create_index(
        "ifta_filings_once",
        "ifta_filings",
        ["company_id", "quarter"],
        unique=True,
        postgresql_where=sa.text("reopened_at IS NULL"),
    )
    protect_new("ifta_filings", visible())
    fence_off_new("ifta_filings", not_fenced())
