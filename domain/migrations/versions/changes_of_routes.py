"""the transaction of each route's last change, and marks that lead from a time to a transaction

Revision ID: 20261125a
Revises: 20261124d
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.row_security import open_to_service

revision = "20261125a"
down_revision = "20261124d"
branch_labels = None
depends_on = None

_TRANSACTION = "pg_current_xact_id()::text::int8"


def upgrade() -> None:
    # 0: before any transaction that a mark names
    op.add_column("routes", sa.Column("changed_in", sa.BigInteger(), server_default=sa.text("0"), nullable=False))
    op.execute(f"ALTER TABLE routes ALTER COLUMN changed_in SET DEFAULT ({_TRANSACTION})")
    op.execute(
        "CREATE FUNCTION note_change_of_route() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN NEW.changed_in := {_TRANSACTION}; RETURN NEW; END $$"
    )
    op.execute(
        "CREATE TRIGGER note_change_of_route BEFORE UPDATE ON routes"
        " FOR EACH ROW EXECUTE FUNCTION note_change_of_route()"
    )
    op.create_table(
        "change_marks",
        sa.Column("marked_at", sa.DateTime(timezone=True), primary_key=True),
        sa.Column("oldest_transaction", sa.BigInteger(), nullable=False),
    )
    open_to_service("change_marks")
