"""the request of the push whose input a route has, and its trace context

Revision ID: 20261126t
Revises: 20261125i
"""

import sqlalchemy as sa
from alembic import op

revision = "20261126t"
down_revision = "20261125i"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("routes", sa.Column("request_id", sa.String(), nullable=True))
    op.add_column("routes", sa.Column("traceparent", sa.String(), nullable=True))
