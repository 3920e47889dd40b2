"""The common part of vehicles and drivers: routes are matched to them, and they are in service until retired."""

from collections.abc import Container
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, get_args
from uuid import UUID

from msgspec import Struct
from psycopg import sql

from domain.database.connections import Connection
from domain.database.fence import is_at_work
from domain.database.staging import stage
from domain.database.statements import Command, Row, Scalar, Statement
from domain.errors import FuelrouteError, Unknown
from domain.files.cells import written_time
from domain.fleet.former_names import keep_names_mapped_to
from domain.fleet.matching import Matched
from domain.fleet.merging import CellValue, Merged, Record
from domain.ids import IdKind, shown_id

_KINDS: tuple[Matched, ...] = get_args(Matched)


ID_KIND: dict[Matched, IdKind] = {"vehicle": "veh", "driver": "drv"}


_GONE = frozenset(
    {
        *("inactive", "deactivated", "disabled", "terminated", "retired", "sold"),
        *("traded", "disposed", "scrapped", "archived", "deleted", "removed"),
    }
)
_NO_DAY_UP_TO = 1970
"""The days of TMW for none: 1950-01-01, and one in 2049. SQL Server's is 1900-01-01; a time of 0 seconds is 1970-01-01
in UTC, and the evening before in America."""


class _PastDays:
    """The days that are over in every time zone."""

    def __contains__(self, cell: object) -> bool:
        try:
            day = written_time(str(cell)).date()
        except ValueError:
            return False
        return day.year > _NO_DAY_UP_TO and day < (datetime.now(UTC) - timedelta(days=1)).date()


PAST_COLUMNS: dict[str, Container[str]] = {
    **dict.fromkeys(("status", "activationstatus", "employmentstatus", "workstatus"), _GONE),
    **dict.fromkeys(("vehiclestatus", "truckstatus", "tractorstatus", "unitstatus", "assetstatus"), _GONE),
    **dict.fromkeys(("driverstatus", "driveractivationstatus", "employeestatus"), _GONE),
    **dict.fromkeys(("active", "activeyn", "isactive"), frozenset({"false", "no", "n", "f", "0"}) | _GONE),
    **dict.fromkeys(("terminationdate", "termdate", "dateterminated", "separationdate"), _PastDays()),
    **dict.fromkeys(("solddate", "datesold", "saledate", "disposaldate"), _PastDays()),
    **dict.fromkeys(("retireddate", "retiredate", "retirementdate"), _PastDays()),
}
"""Columns that tell whether a vehicle or driver is still there, each with the words or days for no. The number of a
sold truck may be that of its successor. Trucks in the shop or out of service come back, so these words are not among
them."""

NOBODY = frozenset({"unknown"})
"""The number of TMW's record that stands for no truck and no driver. A load without one has it, too."""


class FleetTable(Generic[Row]):
    """The statements that read and write `vehicles` or `drivers`. The fields of `shape`, a row of the CSV file, are the
    columns that are written."""

    def __init__(self, name: str, stored: type[Row], shape: type[Struct]) -> None:
        self._columns = shape.__struct_fields__
        columns, every = ", ".join(self._columns), ", ".join(stored._fields)  # type: ignore[attr-defined]
        self._in_service = Statement(
            stored, f"SELECT {every} FROM {name} WHERE company_id = %s AND retired_at IS NULL ORDER BY id"
        )
        self._insert = Command(
            f"INSERT INTO {name} (id, company_id, {columns}) VALUES (%s, %s, {', '.join(['%s'] * len(self._columns))})"
        )
        self._name = name
        self._update = Command(
            f"UPDATE {name} SET {', '.join(f'{column} = %s' for column in self._columns)}"
            " WHERE company_id = %s AND id = %s"
        )

    def in_service(self, connection: Connection, company_id: UUID) -> list[Row]:
        """The company's vehicles or drivers that are not retired."""
        return self._in_service.all(connection, (company_id,))

    def insert(self, connection: Connection, company_id: UUID, record: Record) -> None:
        self._insert.execute(connection, (record.id, company_id, *self._written(record)))

    def update(self, connection: Connection, company_id: UUID, record: Record) -> None:
        self._update.execute(connection, (*self._written(record), company_id, record.id))

    def write(self, connection: Connection, company_id: UUID, merged: Merged[Any]) -> None:
        """Stores an import."""
        if merged.updates:
            updates = [(*self._written(record), company_id, record.id) for record in merged.updates]
            with connection.cursor() as cursor:
                cursor.executemany(self._update.text, updates)
        if merged.inserts:
            columns = ("id", "company_id", *self._columns)
            rows = ((record.id, company_id, *self._written(record)) for record in merged.inserts)
            connection.execute(
                sql.SQL("INSERT INTO {table} ({columns}) SELECT {columns} FROM {staged}").format(
                    table=sql.Identifier(self._name),
                    columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
                    staged=stage(connection, self._name, columns, rows),
                )
            )

    def _written(self, record: Record) -> list[CellValue]:
        return [record.values[column] for column in self._columns]


class UnknownTarget(Unknown):
    def __init__(self, kind: Matched, named: str) -> None:
        super().__init__(f"the company has no {kind} with the id {named!r}: see `fuelroute {kind}s list`")


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
    kind: Command(f"UPDATE {kind}s SET retired_at = coalesce(retired_at, %s) WHERE company_id = %s AND id = %s")
    for kind in _KINDS
}
_FORGET_MAPPINGS = Command("DELETE FROM mappings WHERE company_id = %s AND target_id = %s")
_RETIRED_SINCE: dict[Matched, Scalar[UUID]] = {
    kind: Scalar(UUID, f"SELECT id FROM {kind}s WHERE retired_at > %s AND {is_at_work('company_id')}")
    for kind in _KINDS
}

_IN_FLIGHT = timedelta(hours=1)
"""Time after which imports under way when a record was retired have ended."""


def require_in_service(connection: Connection, company_id: UUID, kind: Matched, record_id: UUID) -> None:
    """Checks that the record is in service. Raises UnknownTarget otherwise; the console answers 404."""
    if _FIND[kind].first(connection, (company_id, record_id)) is None:
        raise UnknownTarget(kind, shown_record(kind, record_id))


def retire_record(connection: Connection, company_id: UUID, kind: Matched, record_id: UUID, *, now: datetime) -> None:
    """Retires a vehicle or driver: references no longer lead to it. Its mappings are deleted; its history stays. A
    second call keeps the first time. `routes.intake.retiring` calls it, and then changes the record's routes. Raises
    UnknownTarget."""
    if _RETIRE[kind].execute(connection, (now, company_id, record_id)).rowcount == 0:
        raise UnknownTarget(kind, shown_record(kind, record_id))
    keep_names_mapped_to(connection, company_id, record_id)
    _FORGET_MAPPINGS.execute(connection, (company_id, record_id))


def lately_retired_records(connection: Connection, kind: Matched, *, now: datetime) -> list[UUID]:
    """Records that an import in flight may have given a route after they were retired."""
    return _RETIRED_SINCE[kind].all(connection, (now - _IN_FLIGHT,))
