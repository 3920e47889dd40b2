"""names that drivers had before

Revision ID: 20261123a
Revises: 20261122b
"""

import sqlalchemy as sa
from alembic import op

revision = "20261123a"
down_revision = "20261122b"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "former_names",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("driver_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["company_id"], ["companies.id"]),
        sa.PrimaryKeyConstraint("company_id", "driver_id", "kind", "value"),
    )
