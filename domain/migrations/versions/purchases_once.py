"""one purchase counts once: other tellings of fills, former holders of unit numbers, cards of trucks and drivers

Revision ID: 20261129E1
Revises: 20261128aa
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.backfills import Backfill
from domain.migrations.row_security import fence_off_new, not_fenced, protect_new, visible
from domain.migrations.transactions import in_own_transaction

revision = "20261129E1"
down_revision = "20261128aa"
branch_labels = None
depends_on = None

backfill = Backfill(
    table="fills",
    fill="UPDATE fills SET review = ARRAY['reversal'] WHERE id = ANY(%(keys)s) AND gallons < 0 AND counter_id IS NULL"
    " AND review = '{}' AND decided_by IS NULL",
)
"""Reversals whose purchase was corrected afterwards counted by themselves, as negative gallons: a person looks."""

_FORMER_NUMBER = """
    INSERT INTO former_units (company_id, unit_number, vehicle_id, until, is_mapping)
    VALUES (OLD.company_id, OLD.unit_number, OLD.id, clock_timestamp(), false) ON CONFLICT DO NOTHING;
    RETURN NULL;
"""
_FORMER_MAPPING = """
    IF TG_OP = 'DELETE' THEN
        INSERT INTO former_units (company_id, unit_number, vehicle_id, until, is_mapping)
        SELECT OLD.company_id, OLD.value, v.id, v.retired_at, true FROM vehicles v
        WHERE v.id = OLD.target_id AND v.retired_at IS NOT NULL ON CONFLICT DO NOTHING;
    ELSIF OLD.created_at < clock_timestamp() - interval '1 day' THEN
        INSERT INTO former_units (company_id, unit_number, vehicle_id, until, is_mapping)
        VALUES (OLD.company_id, OLD.value, OLD.target_id, clock_timestamp(), true) ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
"""
"""A mapping that a person removes was wrong, and so was one that is changed within a day: neither is kept."""


def upgrade() -> None:
    _make_tables()
    in_own_transaction(_extend_fills)
    in_own_transaction(_watch_unit_numbers)
    in_own_transaction(_watch_mappings)


def _make_tables() -> None:
    op.create_table(
        "former_units",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("unit_number", sa.String(), nullable=False),
        sa.Column("vehicle_id", sa.Uuid(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("is_mapping", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("company_id", "unit_number", "until", "vehicle_id", "is_mapping"),
    )
    op.create_table(
        "fill_tellings",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("gallons", sa.Float(), nullable=False),
        sa.Column("paid_cents", sa.BigInteger(), nullable=False),
        sa.Column("fill_id", sa.Uuid(), nullable=False),
        sa.Column("is_replaced", sa.Boolean(), nullable=False),
        sa.Column("is_taken_back", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.PrimaryKeyConstraint("company_id", "environment", "key", "gallons", "paid_cents"),
    )
    op.create_index("fill_tellings_by_fill", "fill_tellings", ["fill_id"])
    op.create_table(
        "card_assignments",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("card_last_four", sa.String(), nullable=False),
        sa.Column("driver_name", sa.String(), nullable=False),
        sa.Column("first_day", sa.Date(), nullable=False),
        sa.Column("vehicle_id", sa.Uuid(), nullable=True),
        sa.Column("driver_id", sa.Uuid(), nullable=True),
        sa.Column("assigned_by", sa.String(), nullable=False),
        sa.Column("assigned_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("company_id", "card_last_four", "driver_name", "first_day"),
    )
    for table, environment in (("former_units", None), ("fill_tellings", "environment"), ("card_assignments", None)):
        protect_new(table, visible(environment=environment))
        fence_off_new(table, not_fenced())


def _extend_fills() -> None:
    for name in ("invoice_number", "driver_name"):
        op.add_column("fills", sa.Column(name, sa.String(), nullable=True), if_not_exists=True)
    for name in ("file_id", "twin_id"):
        op.add_column("fills", sa.Column(name, sa.Uuid(), nullable=True), if_not_exists=True)


def _watch_unit_numbers() -> None:
    op.execute(
        "CREATE OR REPLACE FUNCTION keep_former_number() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {_FORMER_NUMBER} END $$"
    )
    op.execute(
        "CREATE OR REPLACE TRIGGER keep_former_number AFTER UPDATE OF unit_number ON vehicles FOR EACH ROW"
        " WHEN (OLD.unit_number IS DISTINCT FROM NEW.unit_number AND OLD.unit_number IS NOT NULL"
        " AND OLD.retired_at IS NULL) EXECUTE FUNCTION keep_former_number()"
    )


def _watch_mappings() -> None:
    op.execute(
        "CREATE OR REPLACE FUNCTION keep_former_mapping() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {_FORMER_MAPPING} END $$"
    )
    op.execute(
        "CREATE OR REPLACE TRIGGER keep_changed_mapping AFTER UPDATE OF target_id ON mappings FOR EACH ROW"
        " WHEN (OLD.kind = 'unit_number' AND OLD.target_id IS DISTINCT FROM NEW.target_id)"
        " EXECUTE FUNCTION keep_former_mapping()"
    )
    op.execute(
        "CREATE OR REPLACE TRIGGER keep_removed_mapping AFTER DELETE ON mappings FOR EACH ROW"
        " WHEN (OLD.kind = 'unit_number') EXECUTE FUNCTION keep_former_mapping()"
    )
