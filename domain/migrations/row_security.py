"""The policies of row-level security, for migrations; `domain.database.visibility` says what they are for.

A migration that makes a table of a company's data protects it with `protect`, any other table with `open_to_service`. A
test finds tables that were forgotten. A table of companies' data gets the fence around companies that are moved, too
(`fence_off`). Migrations that have run are not changed: another condition is another migration.
"""

from functools import partial

from alembic import op

from domain.database.fence import FENCED, PAUSED
from domain.database.visibility import SERVICE_ROLE
from domain.migrations.transactions import in_own_transaction

BY_USER = "EXISTS (SELECT FROM users WHERE users.id = user_id)"
"""The condition of a table whose rows belong to users. The users' own policy decides which are visible."""


def visible(*, company: str = "company_id", environment: str | None = None, shared: bool = False) -> str:
    """The condition that the transaction sees a row's company and environment; both are columns. With `shared`, rows of
    no company are visible to all. The inner SELECTs make PostgreSQL read the settings once for each statement, not for
    each row."""
    conditions = [_is_named(company, "fuelroute.companies", "uuid[]", or_null=shared)]
    if environment is not None:
        conditions.append(_is_named(environment, "fuelroute.environments", "text[]"))
    return " AND ".join(conditions)


def _is_named(column: str, setting: str, kind: str, *, or_null: bool = False) -> str:
    value = f"current_setting('{setting}', true)"
    listed = f"{column} = ANY ((SELECT nullif(nullif({value}, ''), '*')::{kind})::{kind})"
    return f"({listed} OR (SELECT {value} = '*'){f' OR {column} IS NULL' if or_null else ''})"


def not_fenced(column: str = "company_id", *, from_pause: bool = False) -> str:
    """The condition that the company in this column is not behind the fence, nor (`from_pause`) paused. A row of no
    company is always in front of it.

    PostgreSQL reads the moves once for each statement, not for each row. It takes `IS NOT NULL` to be true of nearly
    all rows. With `<> ALL`, where one company owns all rows, it would expect no row to be left, and plan each list of
    that company for a single row."""
    closed = PAUSED if from_pause else FENCED
    away = f"SELECT ARRAY(SELECT it.company_id FROM company_moves it WHERE {closed})"
    return f"nullif(coalesce({column} = ANY (({away})::uuid[]), false), true) IS NOT NULL"


def protect(table: str, condition: str) -> None:
    """Let the service read and write the rows of a table that fulfil the condition, and no others. Each table has a
    transaction of its own."""
    in_own_transaction(partial(protect_new, table, condition))


def protect_new(table: str, condition: str) -> None:
    """Protect a table that this migration makes, in the migration's own transaction."""
    open_to_service(table)
    op.execute(f"DROP POLICY IF EXISTS visible ON {table}")  # of a run that was stopped
    op.execute(f"CREATE POLICY visible ON {table} TO {SERVICE_ROLE} USING ({condition}) WITH CHECK ({condition})")
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")


def fence_off(table: str, condition: str, *, takes_rows: bool = False) -> None:
    """Keep the service from the rows of a table that do not fulfil the condition (`not_fenced`), even if it may
    otherwise see them. It may add such rows if the table `takes_rows`. Each table has a transaction of its own."""
    in_own_transaction(partial(_fence_off, table, condition, "true" if takes_rows else condition))


def fence_off_new(table: str, condition: str) -> None:
    """Fence off a table that this migration makes, in the migration's own transaction."""
    _fence_off(table, condition, condition)


def _fence_off(table: str, condition: str, check: str) -> None:
    op.execute(f"DROP POLICY IF EXISTS fence ON {table}")  # of a run that was stopped
    op.execute(
        f"CREATE POLICY fence ON {table} AS RESTRICTIVE TO {SERVICE_ROLE} USING ({condition}) WITH CHECK ({check})"
    )


def open_to_service(table: str) -> None:
    """Let the service read and write all rows of a table."""
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {SERVICE_ROLE}")
