"""codes of stations that a person decided

Revision ID: 20261129B1
Revises: 20261129H1
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.backfills import Backfill

revision = "20261129B1"
down_revision = "20261129H1"
branch_labels = None
depends_on = None

backfill = Backfill(
    table="held_prices",
    fill="""
    UPDATE station_codes c SET is_decided = true FROM held_prices h
    WHERE h.id = ANY(%(keys)s) AND h.status = 'accepted' AND h.candidates <> '{}' AND h.company_id = c.company_id
      AND c.code_set = coalesce(nullif(h.code_set, ''), 'card') AND c.station_id = h.station_id
      AND c.code = upper(ltrim(h.code, '# 0')) AND NOT c.is_decided
    """,
)
"""Whoever accepted a price and said which station was meant has decided its code."""


def upgrade() -> None:
    op.add_column("station_codes", sa.Column("is_decided", sa.Boolean(), nullable=False, server_default=sa.false()))
