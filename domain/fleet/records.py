"""What vehicles and drivers have in common: they are the records that routes are matched to, in service until they are
retired."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, get_args
from uuid import UUID

from psycopg import Cursor

from domain.database import Connection
from domain.errors import FuelrouteError
from domain.fleet.former_names import keep_names_mapped_to
from domain.fleet.matching import Matched
from domain.ids import IdKind, shown_id
from domain.statements import Command, IdRow, Statement

_KINDS: tuple[Matched, ...] = get_args(Matched)


ID_KIND: dict[Matched, IdKind] = {"vehicle": "veh", "driver": "drv"}


class UnknownTarget(FuelrouteError):
    def __init__(self, kind: Matched, named: str) -> None:
        super().__init__(f"the company has no {kind} with the id {named!r}")


def shown_record(kind: Matched, record_id: UUID) -> str:
    """The id of a vehicle or driver as people see it."""
    return shown_id(ID_KIND[kind], record_id)


class AlreadyInFleet(FuelrouteError):
    def __init__(self, kind: Matched, name: str, value: str) -> None:
        super().__init__(f"there is a {kind} with the {name} '{value}' already")


_FIND: dict[Matched, Command] = {
    kind: Command(f"SELECT FROM {kind}s WHERE company_id = %s AND id = %s AND retired_at IS NULL") for kind in _KINDS
}
_RETIRE: dict[Matched, Command] = {
    kind: Command(
        f"UPDATE {kind}s SET retired_at = coalesce(retired_at, %s) WHERE company_id = %s AND id = %s"  # noqa: S608
    )
    for kind in _KINDS
}
_FORGET_MAPPINGS = Command("DELETE FROM mappings WHERE company_id = %s AND target_id = %s")
_RETIRED_SINCE: dict[Matched, Statement[IdRow]] = {
    kind: Statement(IdRow, f"SELECT id FROM {kind}s WHERE retired_at > %s")  # noqa: S608
    for kind in _KINDS
}

_IN_FLIGHT = timedelta(hours=1)
"""What was under way when a record was retired has ended by then."""


def require_in_service(connection: Connection, company_id: UUID, kind: Matched, record_id: UUID) -> None:
    """Raises UnknownTarget, also for a retired record."""
    if _FIND[kind].first(connection, (company_id, record_id)) is None:
        raise UnknownTarget(kind, shown_record(kind, record_id))


def copy_rows(cursor: Cursor[tuple[Any, ...]], copy: Command, rows: Iterable[Sequence[object]]) -> None:
    """Inserts many rows: 100,000 in a second or two, where statements would take twenty."""
    with cursor.copy(copy.text.encode()) as copying:
        for row in rows:
            copying.write_row(row)


def retire_record(connection: Connection, company_id: UUID, kind: Matched, record_id: UUID, *, now: datetime) -> None:
    """From now on no reference leads to the vehicle or driver. Its mappings are deleted; its history stays. Retiring
    twice keeps the first time.

    `routes.retiring` calls it, and does what follows for the record's routes. Raises UnknownTarget.
    """
    if _RETIRE[kind].execute(connection, (now, company_id, record_id)).rowcount == 0:
        raise UnknownTarget(kind, shown_record(kind, record_id))
    keep_names_mapped_to(connection, company_id, record_id)
    _FORGET_MAPPINGS.execute(connection, (company_id, record_id))


def lately_retired_records(connection: Connection, kind: Matched, *, now: datetime) -> list[UUID]:
    """Records that an import in flight may have given a route after they were retired."""
    return [row.id for row in _RETIRED_SINCE[kind].all(connection, (now - _IN_FLIGHT,))]
