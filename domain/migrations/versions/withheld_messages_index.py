"""an index of withheld messages

Revision ID: 20261124d
Revises: 20261124c
"""

import sqlalchemy as sa

from domain.migrations.indexes import create_index_concurrently

revision = "20261124d"
down_revision = "20261124c"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_concurrently(
        "messages_withheld",
        "messages",
        ["created_at"],
        postgresql_where=sa.text("status = 'pending' AND withheld_since IS NOT NULL"),
    )
