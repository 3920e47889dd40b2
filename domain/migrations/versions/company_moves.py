"""moves of companies from one cell to another

Revision ID: 20261126u
Revises: 20261125i
"""

import sqlalchemy as sa
from alembic import op

from domain.database.visibility import SERVICE_ROLE

revision = "20261126u"
down_revision = "20261126ta"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "company_moves",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("other_cell", sa.Integer(), nullable=False),
        sa.Column("stage", sa.String(), nullable=False),
        sa.Column("holds_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("key_hashes", sa.ARRAY(sa.LargeBinary()), server_default=sa.text("'{}'::bytea[]"), nullable=False),
        sa.Column("began_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.CheckConstraint("stage IN ('copying', 'pausing', 'fenced', 'left', 'arriving')", name="stage"),
        sa.CheckConstraint("(stage = 'copying') = (holds_until IS NULL)", name="holds_until"),
        sa.PrimaryKeyConstraint("company_id"),
    )
    op.execute(f"GRANT SELECT ON company_moves TO {SERVICE_ROLE}")
