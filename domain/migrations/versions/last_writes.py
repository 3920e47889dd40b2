"""the last write of each company's callers of the API, for reads from replicas

Revision ID: 20261126ta
Revises: 20261126t
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.row_security import protect_new, visible

revision = "20261126ta"
down_revision = "20261126t"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "last_writes",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("lsn", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("company_id", "environment"),
        prefixes=["UNLOGGED"],
        postgresql_with={"fillfactor": 50},
    )
    protect_new("last_writes", visible(environment="environment"))
