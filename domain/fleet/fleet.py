"""A company's vehicles and drivers, as imported from CSV files until they are retired, and the mappings made in the
matching screens.

Whatever changes a fleet holds its company's row (`lock_company`), so that it happens one after the other.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, cast, get_args

import msgspec
from msgspec import Meta, Struct
from psycopg import sql

from domain.accounts.companies import lock_company
from domain.accounts.contacts import IN_CLEAR, Contacts, fault_of
from domain.contract.csvfiles import Line, Report, read_rows
from domain.contract.shapes import NO_NUL, Reference, Vin
from domain.database import Connection
from domain.errors import FuelrouteError
from domain.fleet.matching import MappingKind, Matched
from domain.ids import Kind, new_id
from domain.jobs import Job, import_routes, in_batches
from domain.lifecycle import Environment, RouteStatus
from domain.routes.holds import routes_waiting_for
from domain.routes.progress import end_routes, lock_unfinished, match_again

Text = Annotated[str, Meta(max_length=200, pattern=NO_NUL)]


class VehicleRow(Struct, frozen=True):
    unit_number: Reference | None = None
    vin: Vin | None = None
    license_plate: Text | None = None
    make: Text | None = None
    model: Text | None = None
    year: Text | None = None
    fuel_tank_capacity_gallons: Annotated[float, Meta(gt=0, le=1000)] | None = None
    mpg: Annotated[float, Meta(gt=0, le=50)] | None = None

    def __post_init__(self) -> None:
        if self.unit_number is None and self.vin is None:
            raise ValueError("unit_number or vin is needed")


class DriverRow(Struct, frozen=True):
    name: Reference
    display_name: Text | None = None
    external_id: Reference | None = None
    contact: Annotated[str, Meta(max_length=2000, pattern=NO_NUL)] | None = None

    def __post_init__(self) -> None:
        if self.contact is not None and (fault := fault_of(self.contact)) is not None:
            raise ValueError(f"contact {fault}")


class UnknownTarget(FuelrouteError):
    def __init__(self, target_id: str, table: str) -> None:
        super().__init__(f"the company has no {table[:-1]} with the id {target_id!r}")


Row = TypeVar("Row", VehicleRow, DriverRow)


def import_vehicles(connection: Connection, company_id: str, path: Path) -> tuple[Report, list[Job]]:
    """Upserts vehicles by unit number, else by VIN. The jobs import what waited for them, after the commit.

    Raises UnknownCompany, RetiredCompany, UnreadableFile.
    """
    report = Report()
    rows = read_rows(path, VehicleRow, report, clearing=True)
    touched = _upsert(connection, company_id, "vehicles", "veh", rows, ("unit_number", "vin"), report)
    return report, _jobs_for(connection, company_id, touched, unit_number="unit_number", vin="vin")


def import_drivers(
    connection: Connection, company_id: str, path: Path, *, contacts: Contacts = IN_CLEAR
) -> tuple[Report, list[Job]]:
    """Upserts drivers by external id, else by name. The jobs import what waited for them, after the commit.

    Raises UnknownCompany, RetiredCompany, UnreadableFile.
    """
    report = Report()
    rows = read_rows(path, DriverRow, report, clearing=True)
    touched = _upsert(connection, company_id, "drivers", "drv", rows, ("external_id", "name"), report, contacts)
    return report, _jobs_for(connection, company_id, touched, driver_external_id="external_id", driver_name="name")


def add_mapping(
    connection: Connection, company_id: str, kind: MappingKind, value: str, target_id: str
) -> tuple[int, list[Job]]:
    """From now on `value` means that vehicle or driver; an earlier mapping of the value is replaced.

    Returns how many held routes waited for it, and the jobs that import them, after the commit. Raises UnknownCompany,
    RetiredCompany, UnknownTarget.
    """
    lock_company(connection, company_id)
    table = "vehicles" if kind in ("unit_number", "vin") else "drivers"
    found = connection.execute(
        sql.SQL("SELECT FROM {} WHERE company_id = %s AND id = %s AND retired_at IS NULL").format(
            sql.Identifier(table)
        ),
        (company_id, target_id),
    ).fetchone()
    if found is None:
        raise UnknownTarget(target_id, table)
    connection.execute(
        "INSERT INTO mappings (company_id, kind, value, target_id) VALUES (%s, %s, %s, %s)"
        " ON CONFLICT (company_id, kind, value) DO UPDATE SET target_id = excluded.target_id",
        (company_id, kind, value, target_id),
    )
    waiting = routes_waiting_for(connection, company_id, kind, [value])
    return len(waiting), [import_routes(batch) for batch in in_batches(waiting)]


class StillDriving(FuelrouteError):
    def __init__(self, kind: Matched, record_id: str, route_ids: Sequence[str]) -> None:
        some = ", ".join(route_ids[:3]) + (", ..." if len(route_ids) > 3 else "")
        super().__init__(
            f"the {kind} {record_id!r} has {len(route_ids)} planned or active routes ({some}): wait until they are"
            " finished, or end them with --force"
        )


def is_driven(route: Any) -> bool:
    """Whether a driver has the plan of a route, or is about to get it."""
    return route.environment == Environment.LIVE and route.status in (RouteStatus.PLANNED, RouteStatus.ACTIVE)


class Retirement(NamedTuple):
    """What became of the routes of a vehicle or driver that was retired."""

    matched_again: int
    """Those that had not started: they are imported again."""
    ended: int
    """Those that were active; only by force."""


def retire(
    connection: Connection, company_id: str, kind: Matched, record_id: str, *, force: bool, now: datetime
) -> tuple[Retirement, list[Job]]:
    """From now on no reference leads to the vehicle or driver; its history goes on showing it.

    Returns what became of its routes, and the jobs to enqueue after the commit. Retiring twice keeps the first time.
    Raises UnknownCompany, UnknownTarget; StillDriving, unless by force.
    """
    lock_company(connection, company_id, even_retired=True)
    retired = connection.execute(
        sql.SQL("UPDATE {} SET retired_at = coalesce(retired_at, %s) WHERE company_id = %s AND id = %s").format(
            sql.Identifier(f"{kind}s")
        ),
        (now, company_id, record_id),
    )
    if retired.rowcount == 0:
        raise UnknownTarget(record_id, f"{kind}s")
    connection.execute("DELETE FROM mappings WHERE company_id = %s AND target_id = %s", (company_id, record_id))
    routes = lock_unfinished(connection, kind, [record_id])
    driving = [route.id for route in routes if is_driven(route)]
    if driving and not force:
        raise StillDriving(kind, record_id, driving)
    again = [route.id for route in routes if route.status != RouteStatus.ACTIVE]
    active = [route.id for route in routes if route.status == RouteStatus.ACTIVE]
    match_again(connection, kind, again, now=now)
    end_routes(connection, active, f"The {kind} was retired")
    return Retirement(len(again), len(active)), [import_routes(batch) for batch in in_batches(again)]


_IN_FLIGHT = timedelta(hours=1)
"""What was under way when a record was retired has ended by then."""


def match_again_lately_retired(connection: Connection, *, now: datetime) -> list[str]:
    """The five-minute pass: routes that an import in flight has given to a record while that was retired are imported
    again, but for those that somebody else has locked. Returns their ids."""
    again: list[str] = []
    for kind in get_args(Matched):
        rows = connection.execute(
            sql.SQL("SELECT id FROM {} WHERE retired_at > %s").format(sql.Identifier(f"{kind}s")), (now - _IN_FLIGHT,)
        ).fetchall()
        routes = lock_unfinished(connection, kind, [row.id for row in rows], wait=False)
        ids = [route.id for route in routes if route.status != RouteStatus.ACTIVE]
        match_again(connection, kind, ids, now=now)
        again += ids
    return again


def _jobs_for(connection: Connection, company_id: str, touched: Sequence[Any], **columns: str) -> list[Job]:
    """Jobs that import the held routes which name one of the touched records; `columns` is mapping kind to column."""
    waiting: dict[str, None] = {}
    for kind, column in columns.items():
        values = [value for row in touched if (value := getattr(row, column)) is not None]
        if values:
            found = routes_waiting_for(connection, company_id, cast(MappingKind, kind), values)
            waiting |= dict.fromkeys(found)
    return [import_routes(batch) for batch in in_batches(waiting)]


class _Record:
    """A stored vehicle or driver, or one about to be."""

    def __init__(self, id: str, values: dict[str, Any], *, stored: bool) -> None:
        self.id = id
        self.values = values
        self.stored = stored
        self.line: int | None = None


def _upsert(
    connection: Connection,
    company_id: str,
    table: str,
    id_kind: Kind,
    lines: Iterable[Line[Row]],
    keys: tuple[str, str],
    report: Report,
    contacts: Contacts = IN_CLEAR,
) -> list[Row]:
    """Stores the rows; an empty cell leaves a stored value as it is. Returns the rows that changed something."""
    lock_company(connection, company_id)
    records = _Records(keys, _stored_records(connection, company_id, table, contacts))
    inserts, updates, touched = [], [], []
    for number, row, cleared in lines:
        named = {name: value for name, value in msgspec.structs.asdict(row).items() if value is not None}
        given = named | dict.fromkeys(cleared)
        try:
            record = records.find(named)
        except _Ambiguous as error:
            report.reject(number, str(error))
            continue
        if record is None:
            record = _Record(new_id(id_kind), dict.fromkeys(row.__struct_fields__) | given, stored=False)
            inserts.append(record)
            report.created += 1
        elif record.line is not None:
            report.reject(number, f"the same one is already on line {record.line}")
            continue
        elif record.values == record.values | given:
            report.unchanged += 1
            record.line = number
            continue
        else:
            record.values |= given
            updates.append(record)
            report.updated += 1
        record.line = number
        records.add(record)
        touched.append(row)
    _write(connection, company_id, table, inserts, updates, contacts)
    return touched


class _Ambiguous(Exception):
    """A row fits more than one stored record."""


class _Records:
    """Stored records by their first key, else by their second."""

    def __init__(self, keys: tuple[str, str], records: Iterable[_Record]) -> None:
        self._keys = keys
        self._by: dict[tuple[str, str], list[_Record]] = {}
        for record in records:
            self.add(record)

    def add(self, record: _Record) -> None:
        for key in self._keys:
            known = self._by.setdefault((key, record.values[key]), [])
            if record.values[key] is not None and record not in known:
                known.append(record)

    def find(self, given: dict[str, Any]) -> _Record | None:
        """Raises _Ambiguous. A record that has no first key yet is found by its second one."""
        first, second = self._keys
        found = self._having(first, given)
        if not found:
            found = [
                record for record in self._having(second, given) if first not in given or record.values[first] is None
            ]
        if len(found) > 1:
            raise _Ambiguous(f"fits {len(found)} stored records: give its {first}")
        return found[0] if found else None

    def _having(self, key: str, given: dict[str, Any]) -> list[_Record]:
        known = self._by.get((key, given[key]), []) if key in given else []
        return [record for record in known if record.values[key] == given[key]]  # an earlier line may have cleared it


def _stored_records(connection: Connection, company_id: str, table: str, contacts: Contacts) -> list[_Record]:
    """Those in service; a row that names a retired one makes a new one."""
    rows = connection.execute(
        sql.SQL("SELECT * FROM {} WHERE company_id = %s AND retired_at IS NULL ORDER BY id").format(
            sql.Identifier(table)
        ),
        (company_id,),
    ).fetchall()
    records = [_Record(row.id, row._asdict(), stored=True) for row in rows]
    for record in records:
        if "contact" in record.values:
            record.values["contact"] = contacts.open_or_keep(record.values["contact"])
    return records


def _write(
    connection: Connection,
    company_id: str,
    table: str,
    inserts: Sequence[_Record],
    updates: Sequence[_Record],
    contacts: Contacts,
) -> None:
    columns = _COLUMNS[table]

    def values(record: _Record) -> list[Any]:
        given = record.values
        return [contacts.seal(given[name]) if name == "contact" else given[name] for name in columns]

    names = [sql.Identifier(name) for name in columns]
    with connection.cursor() as cursor:
        if updates:  # before the inserts: what one gives up another may take
            cursor.executemany(
                sql.SQL("UPDATE {} SET {} WHERE company_id = %s AND id = %s").format(
                    sql.Identifier(table),
                    sql.SQL(", ").join(sql.SQL("{} = %s").format(name) for name in names),
                ),
                [(*values(record), company_id, record.id) for record in updates],
            )
        if inserts:
            cursor.executemany(
                sql.SQL("INSERT INTO {} (id, company_id, {}) VALUES (%s, %s, {})").format(
                    sql.Identifier(table),
                    sql.SQL(", ").join(names),
                    sql.SQL(", ").join([sql.Placeholder()] * len(names)),
                ),
                [(record.id, company_id, *values(record)) for record in inserts],
            )


_COLUMNS = {"vehicles": VehicleRow.__struct_fields__, "drivers": DriverRow.__struct_fields__}
