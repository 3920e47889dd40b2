"""rules for spellings of unit numbers; minutes by kind of need, and the moment from which a need seems over

Revision ID: 20261128c
Revises: 20261129b
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from domain.migrations.row_security import fence_off_new, not_fenced, protect_new, visible
from domain.migrations.transactions import in_own_transaction

revision = "20261128c"
down_revision = "20261129b"
branch_labels = None
depends_on = None

_UNITS_BY_RULE = """
CREATE FUNCTION units_by_rule(company uuid, unit text) RETURNS uuid[] LANGUAGE sql STABLE AS $$
    SELECT ARRAY(
        SELECT DISTINCT v.id FROM spelling_rules s JOIN vehicles v ON v.company_id = s.company_id
            AND v.unit_number = substr(unit, length(s.written_before) + 1,
                greatest(length(unit) - length(s.written_before) - length(s.written_after), 0))
        WHERE s.company_id = company AND v.retired_at IS NULL
          AND s.written_before || v.unit_number || s.written_after = unit
        LIMIT 2)
$$
"""
"""The vehicles, two at most, that a pushed unit number means by the company's rules."""


def upgrade() -> None:
    op.create_table(
        "spelling_rules",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("written_before", sa.String(), nullable=False),
        sa.Column("written_after", sa.String(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(["company_id"], ["companies.id"]),
        sa.PrimaryKeyConstraint("company_id", "written_before", "written_after"),
    )
    protect_new("spelling_rules", visible())
    fence_off_new("spelling_rules", not_fenced())
    op.execute(_UNITS_BY_RULE)
    in_own_transaction(_add_minutes_by_kind)
    in_own_transaction(_add_end_of_need)


def _add_minutes_by_kind() -> None:
    minutes = sa.Column("minutes_by_kind", postgresql.JSONB(), server_default=sa.text("'{}'"), nullable=False)
    op.add_column("notice_subscriptions", minutes, if_not_exists=True)


def _add_end_of_need() -> None:
    op.add_column("notices", sa.Column("gone_at", sa.DateTime(timezone=True), nullable=True), if_not_exists=True)
