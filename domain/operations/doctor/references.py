"""Check of references: a row whose parent is gone, or belongs to another company, is an orphan.

The references are the foreign keys of `domain.tables`, and a few that are declared nowhere because their checks would
cost too much. References of a route's children are checked with the routes, portion by portion: see `route_facts`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Column, LargeBinary
from sqlmodel import SQLModel

from domain import tables  # noqa: F401  (fills SQLModel.metadata)
from domain.database.statements import Scalar
from domain.operations.doctor.checks import Examined, Finding, NotFinished, problem

MOST_ORPHANS = 1_000
"""Orphans of one reference are counted up to this number."""

WHAT_TO_DO = "Report it with the time since when it is so: only a restore or a hand at the tables makes such rows"


class ParentReference(NamedTuple):
    """A column that names a row of another table. `condition` chooses the rows with such a parent."""

    child: str
    column: str
    parent: str
    key: str
    condition: str = ""

    @property
    def name(self) -> str:
        return f"{self.child}.{self.column}"


def declared_references() -> list[ParentReference]:
    """The foreign keys of all tables."""
    return [
        ParentReference(table.name, key.parent.name, key.column.table.name, key.column.name)
        for table in SQLModel.metadata.sorted_tables
        for key in sorted(table.foreign_keys, key=lambda one: str(one.parent.name))
    ]


UNDECLARED = (
    ParentReference("mappings", "target_id", "vehicles", "id", "child.kind IN ('unit_number', 'vin')"),
    ParentReference("mappings", "target_id", "drivers", "id", "child.kind IN ('driver_name', 'driver_external_id')"),
    ParentReference("former_names", "driver_id", "drivers", "id"),
    ParentReference("route_counts", "company_id", "companies", "id"),
)
"""References without a foreign key. The facts of routes hold the references of routes."""

CHILDREN_OF_ROUTES = tuple(one for one in declared_references() if one.parent == "routes")
_LARGE = {"routes", *(one.child for one in CHILDREN_OF_ROUTES)}
CHECKED_REFERENCES = tuple(one for one in (*declared_references(), *UNDECLARED) if one.child not in _LARGE)


def _columns(table: str) -> dict[str, Column[object]]:
    return {column.name: column for column in SQLModel.metadata.tables[table].columns}


def _shown_column(reference: ParentReference) -> str:
    """The column by which people find the row: its key, unless that is a hash."""
    key = next(iter(SQLModel.metadata.tables[reference.child].primary_key))
    return reference.column if isinstance(key.type, LargeBinary) else key.name


def _of_another_company(reference: ParentReference) -> str:
    owned = all("company_id" in _columns(table) for table in (reference.child, reference.parent))
    return " OR parent.company_id <> child.company_id" if owned else ""


_ORPHANS = {
    reference: Scalar(
        str,
        f"""
        SELECT child.{_shown_column(reference)}::text
        FROM {reference.child} child
        LEFT JOIN {reference.parent} parent ON parent.{reference.key} = child.{reference.column}
        WHERE child.{reference.column} IS NOT NULL AND {reference.condition or "true"}
          AND (parent.{reference.key} IS NULL{_of_another_company(reference)})
        ORDER BY 1 LIMIT %s
        """,
    )
    for reference in CHECKED_REFERENCES
}


_SAMPLED_PAGES = 2_000
_POSITION_PAGES = Scalar(
    int,
    "SELECT coalesce(sum(pg_relation_size(relid)), 0)::int8 / current_setting('block_size')::int8"
    " FROM pg_partition_tree('positions') WHERE isleaf",
)
_FOREIGN_POSITIONS = Scalar(
    str,
    """
    SELECT DISTINCT child.vehicle_id::text FROM positions child TABLESAMPLE SYSTEM (%s::float4)
    WHERE NOT EXISTS (SELECT FROM vehicles v WHERE v.id = child.vehicle_id AND v.company_id = child.company_id)
    ORDER BY 1 LIMIT %s
    """,
)
POSITIONS = ParentReference("positions", "vehicle_id", "vehicles", "id")
"""The positions' vehicles. There may be a billion positions, so a sample of their pages is read."""


def check_references(seen: Examined) -> Iterator[Finding]:
    for done, (reference, statement) in enumerate(_ORPHANS.items()):
        if seen.seconds_left() < 0:
            raise NotFinished(f"{done} of {len(_ORPHANS)} references were checked")
        rows = statement.all(seen.connection, (MOST_ORPHANS,))
        if rows:
            yield orphans(reference, rows, seen)
        seen.told((done + 1) / len(_ORPHANS))
    pages = max(_POSITION_PAGES.one(seen.connection), 1)
    foreign = _FOREIGN_POSITIONS.all(seen.connection, (min(100.0, 100 * _SAMPLED_PAGES / pages), MOST_ORPHANS))
    if foreign:
        yield orphans(POSITIONS, foreign, seen)


def orphans(reference: ParentReference, rows: list[str], seen: Examined) -> Finding:
    """The finding about the rows of a reference."""
    count = f"{len(rows):,}{' or more' if len(rows) >= MOST_ORPHANS else ''}"
    return problem(
        f"Rows of {reference.name} name a row of {reference.parent} that is gone or another company's: {count}",
        WHAT_TO_DO,
        tuple(rows[: seen.most_examples]),
    )
