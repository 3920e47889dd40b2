"""Diesel taxes of the states: imported from CSV files, or edited one by one.

Each import is one transaction and adds a row to `price_sets`, so that a plan knows which prices it has seen.
"""

from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from psycopg.errors import UniqueViolation

from domain.audit.entries import Actor
from domain.contract.captions import Caption
from domain.contract.checking import Invalid, read_query
from domain.database.connections import Connection
from domain.database.statements import Command
from domain.files.csvfiles import FileRow, ImportReport, Progress, read_rows, without_repeats
from domain.stations.price_sets import begin_price_set, record_by_hand
from domain.stations.staged_rows import AlreadyPriced, RowKey, count_outcomes, stage_rows
from domain.stations.tax_matrix import matrix_taxes

MOST_TAX_DOLLARS = 2.0
"""No rate is near this: the highest of IFTA's matrix is that of California, some 1.00. A slip of the decimal point
makes nearly all rates more."""


class TaxRow(Struct, frozen=True):
    """The rate is part of the pump's price. A surcharge is owed by miles driven, and no purchase is credited for it."""

    state: Annotated[str, Meta(pattern="^[A-Z]{2}$"), Caption("State", "two capital letters")]
    rate_per_gallon: Annotated[float, Meta(ge=0, lt=MOST_TAX_DOLLARS), Caption("Rate, dollars a gallon")]
    valid_from: Annotated[date, Caption("First day")]
    surcharge_per_gallon: Annotated[
        float, Meta(ge=0, lt=MOST_TAX_DOLLARS), Caption("Surcharge, dollars a gallon", "0 unless given")
    ] = 0.0


_TAX_KEY = RowKey(["state", "valid_from"])


def read_taxes(path: Path, report: ImportReport, *, progress: Progress = lambda _: None) -> Iterator[FileRow[TaxRow]]:
    """The taxes of a file with the columns of `TaxRow`, or of IFTA's matrix. Raises UnreadableFile."""
    matrix = matrix_taxes(path, report, progress=progress)
    if matrix is None:
        yield from read_rows(path, TaxRow, report, progress=progress)
        return
    for line, cells in matrix:
        try:
            yield FileRow(line, read_query(cells, TaxRow))
        except Invalid as invalid:
            report.reject(line, str(invalid))


def store_tax_rows(
    connection: Connection, path: Path, *, now: datetime, progress: Progress = lambda _: None
) -> ImportReport:
    """Add and update states' diesel taxes by state and first day. Raises UnreadableFile if the file is refused as a
    whole."""
    report = ImportReport()
    rows = read_taxes(path, report, progress=progress)
    lines = without_repeats(rows, report, "state", "valid_from")
    columns = TaxRow.__struct_fields__
    absent = stage_rows(connection, "fuel_taxes", columns, lines, msgspec.structs.astuple)
    begin_price_set(connection, "taxes", None, now=now)
    if "surcharge_per_gallon" in absent:
        _keep_surcharges(connection)
    count_outcomes(connection, "fuel_taxes", _TAX_KEY, columns, report)
    connection.execute(
        "INSERT INTO fuel_taxes (state, rate_per_gallon, valid_from, surcharge_per_gallon)"
        " SELECT state, rate_per_gallon, valid_from, surcharge_per_gallon FROM staged_fuel_taxes"
        " ON CONFLICT (state, valid_from) DO UPDATE SET rate_per_gallon = excluded.rate_per_gallon,"
        " surcharge_per_gallon = excluded.surcharge_per_gallon"
    )
    return report


def _keep_surcharges(connection: Connection) -> None:
    """A file without surcharges changes none: the one that holds on a rate's first day goes on. Otherwise the miles of
    later quarters in Kentucky and Virginia would owe none."""
    connection.execute(
        "UPDATE staged_fuel_taxes new SET surcharge_per_gallon = stored.surcharge_per_gallon FROM fuel_taxes stored"
        " WHERE stored.state = new.state AND stored.valid_from = ("
        "SELECT max(valid_from) FROM fuel_taxes before WHERE before.state = new.state"
        " AND before.valid_from <= new.valid_from)"
    )


_ADD_TAX = Command(
    "INSERT INTO fuel_taxes (state, rate_per_gallon, valid_from, surcharge_per_gallon) VALUES (%s, %s, %s, %s)"
)
_CHANGE_TAX = Command(
    "UPDATE fuel_taxes SET state = %s, rate_per_gallon = %s, valid_from = %s, surcharge_per_gallon = %s"
    " WHERE state = %s AND valid_from = %s"
)
_DELETE_TAX = Command("DELETE FROM fuel_taxes WHERE state = %s AND valid_from = %s")


def store_tax(connection: Connection, old: tuple[str, date] | None, row: TaxRow, by: Actor, *, now: datetime) -> bool:
    """Change the tax of a state from a day on, or for None add one. False: there is no such tax. Raises AlreadyPriced
    when there is another one of the same state and day. The transaction must then roll back."""
    begin_price_set(connection, "taxes", None, now=now)
    values = msgspec.structs.astuple(row)
    try:
        done = _ADD_TAX.execute(connection, values) if old is None else _CHANGE_TAX.execute(connection, (*values, *old))
    except UniqueViolation:
        raise AlreadyPriced(f"tax of {row.state}", row.valid_from) from None
    if done.rowcount == 0:
        return False
    record_by_hand(connection, by, "add" if old is None else "change", "tax", tax_key(row.state, row.valid_from))
    return True


def delete_tax(connection: Connection, state: str, valid_from: date, by: Actor, *, now: datetime) -> bool:
    """Delete one tax. False: there is no such tax."""
    begin_price_set(connection, "taxes", None, now=now)
    if _DELETE_TAX.execute(connection, (state, valid_from)).rowcount == 0:
        return False
    record_by_hand(connection, by, "remove", "tax", tax_key(state, valid_from))
    return True


def tax_key(state: str, valid_from: date) -> str:
    """The name of a tax for people, by which addresses find it."""
    return f"{state} {valid_from}"
