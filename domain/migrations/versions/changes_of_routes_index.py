"""an index of routes by their last change

Revision ID: 20261125b
Revises: 20261125a
"""

from domain.migrations.indexes import create_index_concurrently

revision = "20261125b"
down_revision = "20261125a"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_concurrently("routes_by_change", "routes", ["company_id", "environment", "changed_in", "id"])
