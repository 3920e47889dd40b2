"""CSV files of tests: the outcome of an import, and the records that it stored."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from domain.database.connections import Connection
from domain.files.csvfiles import ImportReport
from tests.factories import Fleet
from tests.rows import named

CsvFile = Callable[..., Path]
"""Writes lines to a file."""


def counts(report: ImportReport) -> tuple[int, int, int]:
    return report.created, report.updated, report.unchanged


def rejected(report: ImportReport) -> dict[int, str]:
    return {row["line"]: row["message"] for row in report.as_json()["rejected"]}


def vehicles(connection: Connection, fleet: Fleet) -> dict[str | None, Any]:
    rows = named(connection).execute("SELECT * FROM vehicles WHERE company_id = %s", (fleet.company_id,)).fetchall()
    return {row.unit_number: row for row in rows}


def drivers(connection: Connection, fleet: Fleet) -> dict[str | None, Any]:
    rows = named(connection).execute("SELECT * FROM drivers WHERE company_id = %s", (fleet.company_id,)).fetchall()
    return {row.external_id: row for row in rows}
