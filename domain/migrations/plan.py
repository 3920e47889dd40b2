"""The plan of `fuelroute migrate --plan`: the pending migrations, what each locks, and for how long.

It reads the catalog of PostgreSQL and nothing else: no table is read or changed, and no request waits for it. Locks and
work are derived from the SQL (`effects`), times from the tables' present sizes."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from domain.database.connections import Connection, connected
from domain.database.statements import NotNull, Statement
from domain.migrations import current_revision, pending
from domain.migrations.backfills import find_state
from domain.migrations.effects import Catalog, Effect, ForeignKey, Lock, Work, effects_on
from domain.migrations.rendering import Migration, migrations

BYTES_PER_SECOND = {Work.SCAN: 200e6, Work.INDEX: 40e6, Work.REWRITE: 40e6}
ROWS_PER_SECOND = {Work.ROWS: 20_000.0}
BACKFILL_ROWS_PER_SECOND = 5_000.0
"""Cautious guesses for a small server, not measured."""


class TableSize(NamedTuple):
    """The present size of a table, partitions included. The rows are PostgreSQL's estimate."""

    name: str
    rows: NotNull[int]
    size_bytes: NotNull[int]


class _IndexOf(NamedTuple):
    name: str
    table: str


_SIZES = Statement(
    TableSize,
    "SELECT t.relname::text AS name, sum(greatest(p.reltuples, 0))::bigint AS rows,"
    " sum(pg_table_size(p.oid))::bigint AS size_bytes"
    " FROM pg_class t CROSS JOIN LATERAL (SELECT t.oid UNION SELECT relid FROM pg_partition_tree(t.oid)) AS parts (oid)"
    " JOIN pg_class p ON p.oid = parts.oid"
    " WHERE t.relnamespace = current_schema()::regnamespace AND t.relkind IN ('r', 'p') GROUP BY t.relname",
)
_INDEXES = Statement(
    _IndexOf,
    "SELECT i.relname::text AS name, t.relname::text AS table FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid"
    " JOIN pg_class t ON t.oid = x.indrelid WHERE i.relnamespace = current_schema()::regnamespace",
)
_FOREIGN_KEYS = Statement(
    ForeignKey,
    "SELECT t.relname::text AS table, c.conname::text AS name, array(SELECT attname::text FROM pg_attribute"
    " WHERE attrelid = t.oid AND attnum = ANY(c.conkey)) AS columns, r.relname::text AS referenced"
    " FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid JOIN pg_class r ON r.oid = c.confrelid"
    " WHERE c.contype = 'f' AND t.relnamespace = current_schema()::regnamespace",
)


@dataclass(frozen=True, slots=True)
class Step:
    """One table that a statement locks, and the estimated time."""

    sql: str
    table: str | None
    lock: Lock
    work: Work
    rows: int
    size_bytes: int
    seconds: float
    release_before: str | None
    """Why the release before may fail afterwards; None if it cannot."""

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__} | {"blocks": self.lock.blocks}


@dataclass(frozen=True, slots=True)
class PlannedMigration:
    """A migration that is pending, or whose back-fill has not finished."""

    revision: str
    title: str
    statements: int
    steps: list[Step]
    backfill_table: str | None
    backfill_rows_left: int
    backfill_seconds: float
    is_applied: bool

    @property
    def seconds(self) -> float:
        """The estimate for the whole migration. Its locks are held from each statement to the end."""
        return sum(step.seconds for step in self.steps)

    def as_json(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in self.__slots__}
        return own | {"steps": [step.as_json() for step in self.steps], "seconds": self.seconds}


class MigrationPlan(NamedTuple):
    """Everything that `fuelroute migrate` would do now."""

    revision: str | None
    target: str
    migrations: list[PlannedMigration]

    def as_json(self) -> dict[str, Any]:
        return self._asdict() | {"migrations": [migration.as_json() for migration in self.migrations]}


def plan_migrations(url: str) -> MigrationPlan:
    """The plan for this database. Raises DatabaseProblem if PostgreSQL cannot be reached, or for a schema that these
    migrations do not know."""
    revision = current_revision(url)
    everything = migrations()
    lacking = pending(revision, everything)
    with connected(url) as connection:
        sizes = {row.name: row for row in _SIZES.all(connection)}
        catalog = read_catalog(connection, sizes)
        planned = [
            _planned(connection, one, sizes, catalog, is_applied=one not in lacking)
            for one in everything
            if one in lacking or _has_unfinished_backfill(connection, one, sizes)
        ]
    return MigrationPlan(revision, everything[-1].revision, planned)


def _has_unfinished_backfill(connection: Connection, migration: Migration, sizes: dict[str, TableSize]) -> bool:
    if migration.backfill is None or "backfills" not in sizes:
        return False
    state = find_state(connection, migration.revision)
    return state is None or not state.is_finished


def read_catalog(connection: Connection, tables: Collection[str]) -> Catalog:
    return Catalog(tables, {row.name: row.table for row in _INDEXES.all(connection)}, _FOREIGN_KEYS.all(connection))


def _planned(
    connection: Connection,
    migration: Migration,
    sizes: dict[str, TableSize],
    catalog: Catalog,
    *,
    is_applied: bool,
) -> PlannedMigration:
    statements = [] if is_applied else migration.statements()
    left = 0
    if migration.backfill is not None and migration.backfill.table in sizes:
        state = find_state(connection, migration.revision) if is_applied else None
        left = max(sizes[migration.backfill.table].rows - (state.rows_filled if state else 0), 0)
    return PlannedMigration(
        revision=migration.revision,
        title=migration.title,
        statements=len(statements),
        steps=[_step(sql, effect, sizes) for sql in statements for effect in effects_on(catalog, sql)],
        backfill_table=migration.backfill.table if migration.backfill else None,
        backfill_rows_left=left,
        backfill_seconds=round(left / BACKFILL_ROWS_PER_SECOND, 1),
        is_applied=is_applied,
    )


def _step(sql: str, effect: Effect, sizes: dict[str, TableSize]) -> Step:
    size = sizes.get(effect.table or "") or TableSize("", 0, 0)
    seconds = 0.0
    if effect.work in BYTES_PER_SECOND:
        seconds = size.size_bytes / BYTES_PER_SECOND[effect.work]
    elif effect.work in ROWS_PER_SECOND:
        seconds = size.rows / ROWS_PER_SECOND[effect.work]
    return Step(
        sql=" ".join(sql.split()),
        table=effect.table,
        lock=effect.lock,
        work=effect.work,
        rows=size.rows,
        size_bytes=size.size_bytes,
        seconds=round(seconds, 1),
        release_before=effect.breaks,
    )
