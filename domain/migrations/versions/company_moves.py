"""companies can be moved to another cell: their moves, and the fence around them

Revision ID: 20261126u
Revises: 20261125i
"""

from functools import partial

import sqlalchemy as sa
from alembic import op

from domain.migrations.row_security import fence_off, not_fenced
from domain.migrations.transactions import in_own_transaction
from domain.visibility import SERVICE_ROLE

revision = "20261126u"
down_revision = "20261125i"
branch_labels = None
depends_on = None

_TABLES = (
    "audit_log",
    "csv_imports",
    "deals",
    "drivers",
    "dropped_fixes",
    "former_names",
    "mappings",
    "messages",
    "plans",
    "positions",
    "price_sets",
    "route_count_deltas",
    "route_counts",
    "route_events",
    "routes",
    "sandbox_drives",
    "savings",
    "tracks",
    "users",
    "vehicles",
    "visits",
    "webhook_attempts",
    "webhook_deliveries",
    "webhook_endpoints",
    "webhook_events",
)


def upgrade() -> None:
    op.create_table(
        "company_moves",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("other_cell", sa.Integer(), nullable=False),
        sa.Column("stage", sa.String(), nullable=False),
        sa.Column("holds_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("key_hashes", sa.ARRAY(sa.LargeBinary()), server_default=sa.text("'{}'::bytea[]"), nullable=False),
        sa.Column("began_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.CheckConstraint("stage IN ('copying', 'pausing', 'fenced', 'left', 'arriving')", name="stage"),
        sa.CheckConstraint("(stage = 'copying') = (holds_until IS NULL)", name="holds_until"),
        sa.PrimaryKeyConstraint("company_id"),
    )
    op.execute(f"GRANT SELECT ON company_moves TO {SERVICE_ROLE}")
    fence_off("companies", not_fenced("id"))
    fence_off("api_keys", not_fenced(from_pause=True), takes_rows=True)  # a person may make a key in that second
    # one statement stores requests of many companies: it must not fail for all of them
    fence_off("request_log", not_fenced(), takes_rows=True)
    for table in _TABLES:
        fence_off(table, not_fenced())
    in_own_transaction(partial(_note_replicated_changes, "note_replicated_change_of_route"))


def _note_replicated_changes(trigger: str) -> None:
    """Each cell counts its own transactions: a route that comes from another cell is changed here by the transaction
    that brings it. The trigger is for replication alone."""
    op.execute(
        f"CREATE OR REPLACE TRIGGER {trigger} BEFORE INSERT OR UPDATE ON routes"
        " FOR EACH ROW EXECUTE FUNCTION note_change_of_route()"
    )
    op.execute(f"ALTER TABLE routes ENABLE REPLICA TRIGGER {trigger}")
