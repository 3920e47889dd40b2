"""the fence around companies that are moved, and routes that come from another cell

Revision ID: 20261126ua
Revises: 20261126u
"""

from functools import partial

from alembic import op

from domain.migrations.row_security import fence_off, not_fenced
from domain.migrations.transactions import in_own_transaction

revision = "20261126ua"
down_revision = "20261126u"
branch_labels = None
depends_on = None

_TABLES = (
    "audit_log",
    "csv_imports",
    "deals",
    "drivers",
    "dropped_fixes",
    "former_names",
    "last_writes",
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
