"""Reads the matrix of fuel tax rates that IFTA, Inc. publishes for each quarter as CSV, with all states and provinces.

Two lines of names stand above the rates and come again on each page; `Special` over `Diesel` is the fuel of trucks. A
member has a line in US dollars a gallon, `U.S.`, and below it the same rates in Canadian dollars a litre. A further
line, `KENTUCKY SurChg`, has its surcharge. `ALBERTA #14` points to a footnote, and `$-` is no tax. A member with two
rates of one kind changed it within the quarter, and no column tells the day. Its web page writes `KY (Surcharge)`, and
nothing where the surcharge is of other fuels. tests/cases/taxes has a part of one."""

import re
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from domain.files.cells import cell_text
from domain.files.column_names import usual_delimiter
from domain.files.csvfiles import ImportReport, Progress, UnreadableFile
from domain.files.reading import first_rows
from domain.files.spreadsheets import Row, file_rows, is_excel_file
from domain.stations.state_names import plain_state

_FUEL = "special diesel"
_QUARTER = re.compile(r"\b([1-4])(?:st|nd|rd|th)? ?Q(?:uarter)?,? ?(20\d\d)\b", re.IGNORECASE | re.ASCII)
_FOOTNOTE = re.compile(r"\s*#\d+\s*$", re.ASCII)
_SURCHARGE = re.compile(r"\s+(?:surch(?:g|arge)|\(surcharge\))$", re.IGNORECASE)


class TaxMatrix(NamedTuple):
    """The first lines of a matrix."""

    names: Sequence[str]
    """The names of the columns, each from all lines above the rates."""
    first_day: date | None
    """The first day of its quarter; None if no line above the rates tells it."""

    @property
    def diesel(self) -> int:
        """The place of the column with the rates of diesel."""
        return [name.casefold() for name in self.names].index(_FUEL)


def find_matrix(rows: Sequence[Row]) -> TaxMatrix | None:
    """The matrix of which a file has the first `rows`; None if it is another file."""
    above = list[list[str]]()
    for row in rows:
        cells = _texts(row)
        if _is_in_dollars(cells):
            names = [" ".join(filter(None, column)) for column in zip_longest(*above, fillvalue="")]
            told = _QUARTER.search(" ".join(names))
            first_day = None if told is None else date(int(told[2]), 3 * int(told[1]) - 2, 1)
            return TaxMatrix(names, first_day) if _FUEL in map(str.casefold, names) else None
        above.append(cells)
    return None


def matrix_names(rows: Sequence[Row]) -> list[str]:
    """The names of the columns of a matrix with these first `rows`; empty for another file."""
    matrix = find_matrix(rows)
    return [] if matrix is None else [name for name in matrix.names if name]


def matrix_taxes(
    path: Path, report: ImportReport, *, progress: Progress
) -> Iterator[tuple[int, dict[str, str]]] | None:
    """The diesel taxes of a matrix, each with its line and its cells by our columns; None for another file. Raises
    UnreadableFile, also for a matrix that does not tell its quarter."""
    matrix = find_matrix(first_rows(path))
    if matrix is None:
        return None
    if matrix.first_day is None:
        raise UnreadableFile(f"{path} does not tell its quarter: write a line above it, such as 4th Quarter 2026")
    report.unused_columns = [name for name in matrix.names[2:] if name.casefold() != _FUEL]
    taxes: dict[str, tuple[int, dict[str, str]]] = {}
    changed: dict[str, int] = {}
    for row in file_rows(path, report.refuse, usual_delimiter, is_excel=is_excel_file(path)):
        progress(1)
        cells = _texts(row)
        if not _is_in_dollars(cells) or len(cells) <= matrix.diesel:
            continue
        name, is_surcharge = _SURCHARGE.subn("", _FOOTNOTE.sub("", cells[0]))
        state, rate = plain_state(name), cells[matrix.diesel].strip("$ ")
        if is_surcharge and not rate:
            continue  # of other fuels
        line, values = taxes.setdefault(state, (row.line, {"state": state, "valid_from": matrix.first_day.isoformat()}))
        field, rate = "surcharge_per_gallon" if is_surcharge else "rate_per_gallon", "0" if rate == "-" else rate
        if not _is_same_rate(values.setdefault(field, rate), rate):
            changed[state] = line
            report.reject(row.line, f"{name} has another rate, {values[field]}: add both by hand with their first days")
    for state, line in changed.items():
        del taxes[state]
        report.reject(line, f"{state} has two rates")
    return iter(taxes.values())


def _is_same_rate(one: str, other: str) -> bool:
    """Tell if both texts are one number: `.21` is `0.2100`."""
    try:
        return float(one) == float(other)
    except ValueError:
        return one == other


def _texts(row: Row) -> list[str]:
    return [cell_text(cell).strip() for cell in row.cells]


def _is_in_dollars(cells: Sequence[str]) -> bool:
    return len(cells) > 1 and cells[0] != "" and cells[1].upper().startswith("U.S.")
