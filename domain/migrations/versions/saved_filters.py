"""chosen columns of tables, and saved filters of lists

Revision ID: 20261128aa
Revises: 20261128ca
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from domain.migrations.row_security import BY_USER, fence_off_new, not_fenced, protect_new, visible

revision = "20261128aa"
down_revision = "20261128ca"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "table_columns",
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("table_name", sa.String(), nullable=False),
        sa.Column("columns", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", "table_name"),
    )
    op.create_table(
        "saved_filters",
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("list_name", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("query", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", "list_name", "name"),
    )
    op.create_index(op.f("ix_saved_filters_company_id"), "saved_filters", ["company_id"])
    protect_new("table_columns", BY_USER)
    protect_new("saved_filters", visible())
    fence_off_new("saved_filters", not_fenced())
