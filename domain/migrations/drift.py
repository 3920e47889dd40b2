"""Differences between a database and the schema that this release expects."""

from typing import Any, NamedTuple

import sqlalchemy
from alembic import autogenerate
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlmodel import SQLModel

from domain import tables  # noqa: F401  (fills SQLModel.metadata)
from domain.migrations import alembic_config, engine


class SchemaState(NamedTuple):
    """The revision of a database (None without a schema), the release's own, and the parts that the database lacks."""

    revision: str | None
    newest: str | None
    missing: list[str]


def is_expected(name: str | None, kind: str, _: object) -> bool:
    """False for partitions, which housekeeping makes."""
    return kind != "table" or not str(name).startswith(("positions_", "request_log_"))


def read_schema_state(url: str) -> SchemaState:
    """Read the state of a schema. Extra parts, such as an index of the operator's own, are ignored. Raises
    DatabaseProblem if PostgreSQL cannot be reached, or for a schema that these migrations do not know, and
    psycopg.Error if it refuses, as while another session holds the lock of a table."""
    try:
        return _read_schema_state(url)
    except sqlalchemy.exc.DBAPIError as error:
        raise error.orig or error from None


def _read_schema_state(url: str) -> SchemaState:
    with engine(url).connect() as connection:
        connection.execute(sqlalchemy.text("SET TRANSACTION READ ONLY"))
        context = MigrationContext.configure(connection, opts={"include_name": is_expected})
        revision = context.get_current_revision()
        newest = ScriptDirectory.from_config(alembic_config(connection)).get_current_head()
        if revision is None:
            return SchemaState(None, newest, [])
        found = autogenerate.compare_metadata(context, SQLModel.metadata)
        parts = [text for one in found if (text := _described(one)) is not None]
        return SchemaState(revision, newest, parts + _missing_checks(connection))


def _missing_checks(connection: sqlalchemy.Connection) -> list[str]:
    """The names of missing CHECK constraints, which Alembic does not compare."""
    inspector = sqlalchemy.inspect(connection)
    missing = []
    for table in SQLModel.metadata.sorted_tables:
        wanted = {str(one.name) for one in table.constraints if isinstance(one, sqlalchemy.CheckConstraint)}
        if wanted and inspector.has_table(table.name):
            there = {one["name"] for one in inspector.get_check_constraints(table.name)}
            missing += [f"constraint {table.name}.{name}" for name in sorted(wanted - there)]
    return missing


def _described(found: Any) -> str | None:
    """A difference as Alembic gives it: a tuple, or a list of changes of one column. None for an extra part of the
    database."""
    if isinstance(found, list):
        return ", ".join(f"{change[0].replace('_', ' ')} of {change[2]}.{change[3]}" for change in found)
    kind, *parts = found
    if not kind.startswith("add_"):
        return None
    part = parts[-1]
    table = f"{parts[-2]}." if kind == "add_column" else ""
    return f"{kind.removeprefix('add_').replace('_', ' ')} {table}{getattr(part, 'name', part)}"
