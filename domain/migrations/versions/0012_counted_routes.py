"""routes are counted by status and day as they change, so that nobody counts them to tell a list's total

Revision ID: 0012
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0009"
branch_labels = None
depends_on = None

_GROUPS = "company_id, environment, status, date_bin('1 day', scheduled_start, timestamptz 'epoch')"

_CHANGES = {
    "insert": f"SELECT {_GROUPS}, count(*) FROM new_routes GROUP BY 1, 2, 3, 4",  # noqa: S608
    "update": f"""
        SELECT {_GROUPS}, sum(change) FROM (
            SELECT company_id, environment, status, scheduled_start, 1 AS change FROM new_routes UNION ALL
            SELECT company_id, environment, status, scheduled_start, -1 FROM old_routes) AS changed
        GROUP BY 1, 2, 3, 4 HAVING sum(change) <> 0""",  # noqa: S608
    "delete": f"SELECT {_GROUPS}, -count(*) FROM old_routes GROUP BY 1, 2, 3, 4",  # noqa: S608
}
_TRANSITION_TABLES = {
    "insert": "NEW TABLE AS new_routes",
    "update": "OLD TABLE AS old_routes NEW TABLE AS new_routes",
    "delete": "OLD TABLE AS old_routes",
}


def upgrade() -> None:
    for table, keys in (
        ("route_counts", [sa.PrimaryKeyConstraint("company_id", "environment", "status", "day")]),
        ("route_count_deltas", []),
    ):
        op.create_table(
            table,
            sa.Column("company_id", sa.String(), nullable=False),
            sa.Column("environment", sa.String(), nullable=False),
            sa.Column("status", sa.String(), nullable=False),
            sa.Column("day", sa.DateTime(timezone=True), nullable=False),
            sa.Column("routes", sa.Integer(), nullable=False),
            *keys,
        )
    op.create_index("route_count_deltas_by_tenant", "route_count_deltas", ["company_id", "environment"])
    for event, change in _CHANGES.items():
        insert = f"INSERT INTO route_count_deltas (company_id, environment, status, day, routes) {change}"
        _trigger(event, f"REFERENCING {_TRANSITION_TABLES[event]}", insert)
    _trigger("truncate", "", "TRUNCATE route_counts, route_count_deltas")
    # nobody writes until the commit: the triggers hold a lock on the routes
    op.execute(f"INSERT INTO route_counts SELECT {_GROUPS}, count(*) FROM routes GROUP BY 1, 2, 3, 4")  # noqa: S608
    op.drop_index("routes_counted", "routes")


def _trigger(event: str, referencing: str, command: str) -> None:
    function = f"count_routes_on_{event}"
    op.execute(
        f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {command}; RETURN NULL; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {function} AFTER {event.upper()} ON routes {referencing}"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
    )
