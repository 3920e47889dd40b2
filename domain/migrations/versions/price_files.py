"""price files: quotes, coming prices, codes of stations, held prices, sources and runs; profiles of files

Revision ID: 20261130a
Revises: 20261201a
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from domain.migrations.row_security import fence_off_new, not_fenced, open_to_service, protect_new, visible

revision = "20261130a"
down_revision = "20261201a"
branch_labels = None
depends_on = None

_OF_COMPANIES = ("quotes", "station_codes", "held_prices", "price_sources", "price_runs", "file_profiles")


def _time(name: str, *, null: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=null)


def _text(name: str, *, null: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(), nullable=null)


def _id(name: str, *, null: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.Uuid(), nullable=null)


def upgrade() -> None:
    op.create_table(
        "quotes",
        _id("company_id"),
        _text("station_id"),
        _time("effective_at"),
        sa.Column("net_price", sa.Float(), nullable=False),
        _text("profile"),
        sa.PrimaryKeyConstraint("company_id", "station_id", "effective_at"),
    )
    op.create_table(
        "coming_prices",
        _text("station_id"),
        _time("effective_at"),
        sa.Column("retail_price", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("station_id", "effective_at"),
    )
    op.create_table(
        "station_codes",
        _id("company_id"),
        _text("code_set"),
        _text("code"),
        _text("station_id"),
        sa.PrimaryKeyConstraint("company_id", "code_set", "code"),
    )
    op.create_table(
        "held_prices",
        _id("id"),
        _id("company_id"),
        _text("kind"),
        _text("station_id", null=True),
        _text("code_set"),
        _text("code"),
        _text("place"),
        sa.Column("candidates", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("price", sa.Float(), nullable=False),
        _time("effective_at"),
        _text("profile"),
        _text("reason"),
        _time("held_at"),
        sa.Column("status", sa.String(), server_default=sa.text("'held'"), nullable=False),
        _time("decided_at", null=True),
        _text("decided_by", null=True),
        sa.CheckConstraint("status IN ('held', 'accepted', 'refused')", name="status"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "held_prices_once",
        "held_prices",
        ["company_id", "kind", "station_id", "code_set", "code", "effective_at", "price"],
        unique=True,
        postgresql_nulls_not_distinct=True,
    )
    op.create_index(
        "held_prices_waiting", "held_prices", ["company_id", "id"], postgresql_where=sa.text("status = 'held'")
    )
    op.create_table(
        "price_sources",
        _id("id"),
        _id("company_id"),
        _text("name"),
        _text("kind"),
        _text("profile"),
        sa.Column("address", postgresql.JSONB(), nullable=False),
        _text("secret", null=True),
        sa.Column("takes_retail", sa.Boolean(), nullable=False),
        sa.Column("expected_hours", sa.Integer(), nullable=False),
        _time("created_at"),
        _time("paused_at", null=True),
        _time("looked_at", null=True),
        _time("file_at", null=True),
        _text("fault", null=True),
        sa.Column("seen", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("price_sources_by_company", "price_sources", ["company_id", "name"], unique=True)
    op.create_table(
        "price_runs",
        _id("id"),
        _id("company_id"),
        _id("source_id", null=True),
        _text("file_name"),
        _text("file_hash"),
        _text("profile"),
        _text("actor"),
        _time("ended_at"),
        *(
            sa.Column(name, sa.Integer(), nullable=False)
            for name in ("created", "updated", "unchanged", "held", "refused")
        ),
        sa.Column("rejected", postgresql.JSONB(), nullable=False),
        _text("fault", null=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("price_runs_by_company", "price_runs", ["company_id", "id"])
    op.create_index("price_runs_of_source", "price_runs", ["source_id", "file_hash"])
    op.create_table(
        "file_profiles",
        _id("company_id"),
        _text("subject"),
        _text("name"),
        sa.Column("profile", postgresql.JSONB(), nullable=False),
        _time("changed_at"),
        sa.PrimaryKeyConstraint("company_id", "subject", "name"),
    )
    for table in _OF_COMPANIES:
        protect_new(table, visible())
        fence_off_new(table, not_fenced())
    open_to_service("coming_prices")
