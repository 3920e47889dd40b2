"""the role of ingress, console and workers, and the rows that it sees

Revision ID: 20261124a
Revises: 20261123c
"""

from alembic import op

from domain.migrations.row_security import BY_USER, open_to_service, protect, visible
from domain.migrations.service_role import make_service_role

revision = "20261124a"
down_revision = "20261123c"
branch_labels = None
depends_on = None

_OF_COMPANY = ("audit_log", "deals", "drivers", "former_names", "mappings", "users", "vehicles")
_OF_TENANT = (
    "api_keys",
    "dropped_fixes",
    "messages",
    "plans",
    "positions",
    "request_log",
    "route_count_deltas",
    "route_counts",
    "route_events",
    "routes",
    "savings",
    "tracks",
    "visits",
)
_OF_USER = ("devices", "password_links", "sessions")
_SHARED = ("csv_imports", "price_sets")
_OF_NOBODY = ("fuel_taxes", "queue_pauses", "sign_in_attempts", "stations")


def upgrade() -> None:
    make_service_role()
    protect("companies", visible(company="id"))
    for table in _OF_COMPANY:
        protect(table, visible())
    for table in _OF_TENANT:
        protect(table, visible(environment="environment"))
    for table in _SHARED:
        protect(table, visible(shared=True))
    for table in _OF_USER:
        protect(table, BY_USER)
    for table in _OF_NOBODY:
        open_to_service(table)
    op.execute("GRANT USAGE ON SEQUENCE deals_id_seq TO fuelroute_service")
    op.execute("GRANT SELECT ON alembic_version TO fuelroute_service")
