"""an index of visits by their arrival, for stops whose free time has ended

Revision ID: 20261201W3
Revises: 20261201W2
"""

from domain.migrations.indexes import create_index_concurrently

revision = "20261201W3"
down_revision = "20261201W2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_concurrently("visits_by_arrival", "visits", ["arrived_at"])
