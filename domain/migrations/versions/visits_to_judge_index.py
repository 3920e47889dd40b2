"""an index of visits whose free time has not been judged yet

Revision ID: 20261203D2
Revises: 20261203D1
"""

import sqlalchemy as sa

from domain.migrations.indexes import create_index_concurrently

revision = "20261203D2"
down_revision = "20261203D1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_concurrently("visits_to_judge", "visits", ["arrived_at"], postgresql_where=sa.text("is_to_judge"))
