"""Rows of a company that replication does not carry. They are written in the other cell during the pause; writing them
twice does no harm."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from psycopg import sql
from sqlmodel import SQLModel

from domain.database.connections import Connection
from domain.database.statements import Command, Scalar, Statement
from domain.moving.moved_tables import RENUMBERED, numbered_columns
from domain.routes.reading.counts import count_anew


def write_unreplicated_rows(source: Connection, target: Connection, company_id: UUID) -> None:
    """Writes the rows that each cell numbers by itself, counts the routes, and moves the sequences beyond the numbers
    that were copied."""
    with target.transaction():
        for table in RENUMBERED:
            _copy_under_new_numbers(source, target, table, company_id)
        count_anew(target, company_id)
        for table, column in numbered_columns():
            _go_on_after(target, table, column, company_id)


def _copy_under_new_numbers(source: Connection, target: Connection, table: str, company_id: UUID) -> None:
    columns = [column.name for column in SQLModel.metadata.tables[table].c if column.name != "id"]
    name, listed = sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
    values = sql.SQL(", ").join(sql.Placeholder() for _ in columns)
    select = sql.SQL("SELECT {} FROM {} WHERE company_id = %s ORDER BY id").format(listed, name)
    rows = source.execute(select, (company_id,)).fetchall()
    target.execute(sql.SQL("DELETE FROM {} WHERE company_id = %s").format(name), (company_id,))
    with target.cursor() as cursor:
        cursor.executemany(sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(name, listed, values), rows)


def _go_on_after(target: Connection, table: str, column: str, company_id: UUID) -> None:
    """Moves a sequence beyond the company's copied numbers: rows are read in the order of their numbers, so new rows
    must come after copied ones."""
    target.execute(
        sql.SQL(
            "SELECT setval(pg_get_serial_sequence({table}, {name}), greatest(nextval(pg_get_serial_sequence({table},"
            " {name})), (SELECT max({column}) FROM {of} WHERE company_id = %s)))"
        ).format(
            table=sql.Literal(table), name=sql.Literal(column), column=sql.Identifier(column), of=sql.Identifier(table)
        ),
        (company_id,),
    )


# --- Flags of positions ----------------------------------------------------------------------------------------


class _Flagged(NamedTuple):
    vehicle_id: UUID
    environment: str
    recorded_at: datetime


_VEHICLES = Scalar(UUID, "SELECT id FROM vehicles WHERE company_id = %s")
_FLAGGED = Statement(
    _Flagged,
    "SELECT vehicle_id, environment, recorded_at FROM positions WHERE vehicle_id = ANY (%s) AND environment = 'live'"
    " AND recorded_at >= %s AND implausible"
    " UNION ALL SELECT vehicle_id, environment, recorded_at FROM positions_sandbox WHERE vehicle_id = ANY (%s)"
    " AND implausible",
)
_TURN_FLAGS = Command(
    """
    UPDATE positions p SET implausible = NOT p.implausible
    FROM unnest(%s::uuid[], %s::text[], %s::timestamptz[]) AS it (vehicle_id, environment, recorded_at)
    WHERE p.vehicle_id = it.vehicle_id AND p.environment = it.environment AND p.recorded_at = it.recorded_at
    """
)


def carry_flags(source: Connection, target: Connection, company_id: UUID, *, since: datetime) -> None:
    """Copies the implausible flags of positions recorded since then. Replication sends a position only once, and its
    flag may change afterwards. Positions of the sandbox have a time of their own."""
    vehicles = _VEHICLES.all(source, (company_id,))
    differing = list(_flagged(source, vehicles, since) ^ _flagged(target, vehicles, since))
    if differing:
        _TURN_FLAGS.execute(target, [list(column) for column in zip(*differing, strict=True)])


def _flagged(connection: Connection, vehicles: Sequence[UUID], since: datetime) -> set[_Flagged]:
    return set(_FLAGGED.all(connection, (vehicles, since, vehicles)))
