"""an index of plans whose menu is due

Revision ID: 20261201M3
Revises: 20261201M2
"""

import sqlalchemy as sa

from domain.migrations.indexes import create_index_concurrently

revision = "20261201M3"
down_revision = "20261201M2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_concurrently(
        "plans_menu_due", "plans", ["menu_due_at"], postgresql_where=sa.text("menu_due_at IS NOT NULL")
    )
