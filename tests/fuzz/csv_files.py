"""The part `csv`: files of all kinds that are imported. A bad row never costs the good one beside it."""

import csv
import io
import tempfile
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import psycopg
from hypothesis import strategies as st

from domain.files.csvfiles import UnreadableFile
from domain.fleet.drivers import DriverRow
from domain.fleet.vehicles import VehicleRow
from domain.lifecycle import Role
from domain.operations.import_kinds import (
    DealsFile,
    DriversFile,
    ImportFile,
    StationsFile,
    TaxesFile,
    VehiclesFile,
)
from domain.operations.import_records import IMPORTING, StoredImport, latest_imports
from domain.operations.import_runs import ImportRun
from domain.stations.deals import DealRow
from domain.stations.stations import StationRow
from domain.stations.taxes import TaxRow
from tests.fuzz.engine import HANG_SECONDS, Fault, Part
from tests.ingress.console.conftest import Browser, World
from tests.ingress.console.uploads import send
from tests.rows import named
from tests.service import eventually

ROWS: dict[str, type[msgspec.Struct]] = {
    "vehicles": VehicleRow,
    "drivers": DriverRow,
    "stations": StationRow,
    "deals": DealRow,
    "taxes": TaxRow,
}
_OF_ALL = ("stations", "taxes")
"""Kinds that are the same for all companies."""
_CONSOLE_EVERY = 20

_WORDS = [
    "",
    "-",
    "101",
    "102",
    "1XKAD49X0CJ000101",
    "1xkad49x0cj000102",
    "Ann Lee",
    "D-1",
    "TX",
    "Pilot",
    "S-1",
    "S-2",
]
_ODD = [
    "\0", "a\0b", "\x01", "\x7f", "\u2028", "\u202eabc", "é", "e\u0301", "ß", "İ", "\ufeff", "\ufffe", "𝕏", "x" * 200,
    "x" * 201, "y" * 140_000,
    "=1+1", "'=1", "''", "@x", "\t", "\r", "\n", "a\nb", "a\r\nb", '"', '""', ",", ";", " 101 ", "\u00a0", "%s",
    "%(x)s", "{}", "\\", "\\N", "NULL",
    "mailto://a:b@c", "json://127.0.0.1", "mailtos://u:p@example.com?to=x@y.z", "file:///etc/passwd",
]  # fmt: skip
_NUMBERS = [
    "0", "-0", "1", "6.5", "200", "1e308", "1e309", "-1e308", "5e-324", "1e-400", "nan", "inf", "-inf", "+1", "1_000",
    "1,5", "0x10", "１", "٣", "9" * 400,
    "0." + "1" * 400, "90", "-90", "180.0001", "41.4", "-88.1", "3.459", "0.0001",
]  # fmt: skip
_DAYS = ["2026-11-23", "2026-02-29", "0001-01-01", "9999-12-31", "10000-01-01", "2026-11-23T00:00:00Z",
    "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "23.11.2026", "2026-W1"]  # fmt: skip
cells = (
    st.sampled_from(_WORDS)
    | st.sampled_from(_ODD)
    | st.sampled_from(_NUMBERS)
    | st.sampled_from(_DAYS)
    | st.text(max_size=8)
)


class File(NamedTuple):
    """A file as its bytes are made: its rows, the good one among them, and what is done to the text."""

    kind: str
    header: list[str]
    rows: list[list[str]]
    good_at: int
    encoding: str = "utf-8"
    delimiter: str = ","
    end: str = "\r\n"
    splice: bytes = b""
    at: float = 0
    skip: int = 0


@st.composite
def files(draw: st.DrawFn) -> File:
    """A file: mostly one whose rows are bad and whose text is right."""
    kind = draw(st.sampled_from(sorted(ROWS)))
    columns = [field.encode_name for field in msgspec.structs.fields(ROWS[kind])]
    header = draw(st.permutations(columns))
    extra = draw(st.sampled_from([[], [], ["junk"], [""], columns[:1], ["\0"]]))
    width = len(header) + len(extra)
    rows = draw(st.lists(st.lists(cells, max_size=width + 1) | _nearly_right(kind, header), max_size=6))
    good_at = draw(st.integers(0, len(rows)))
    if draw(st.integers(0, 4)):
        return File(kind, header + extra, rows, good_at, end=draw(st.sampled_from(["\r\n", "\n"])))
    return File(
        kind,
        draw(
            st.sampled_from(
                [header + extra, header[1:], [name.upper() for name in header], [f" {name} " for name in header], []]
            )
        ),
        rows,
        good_at,
        draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp037", "utf-32-be"])),
        draw(st.sampled_from([",", ",", ";", "\t"])),
        draw(st.sampled_from(["\r\n", "\n", "\r"])),
        draw(
            st.sampled_from(
                [
                    b"",
                    b'"',
                    b"\0",
                    b"\xff",
                    b"\xed\xa0\x80",
                    b"\r",
                    b'",',
                    b"\xef\xbb\xbf",
                    b'"' * 3,
                    b"," * 2000,
                    b"x" * 140_000,
                ]
            )
        ),
        draw(st.floats(0, 1)),
        draw(st.integers(0, 6)),
    )


def _nearly_right(kind: str, header: list[str]) -> st.SearchStrategy[list[str]]:
    """A row with one cell that is drawn."""

    def changed(choice: tuple[int, int, str]) -> list[str]:
        number, at, cell = choice
        row = list(_good_values(kind, number, header).values())
        row[at % len(row)] = cell
        return row

    return st.tuples(st.integers(1, 40), st.integers(0, 20), cells).map(changed)


def _good_values(kind: str, number: int, header: list[str]) -> dict[str, str]:
    """The cells of a row that fits, by column."""
    values = {
        "vehicles": {"unit_number": f"U-{number}", "vin": f"1XKAD49X0CJ{number:06}", "mpg": "6.5",
        "fuel_tank_capacity_gallons": "200"},
        "drivers": {"name": f"Driver {number}", "external_id": f"E-{number}"},
        "stations": {"station_id": f"S-{number}", "name": "Stop", "latitude": "41.5", "longitude": "-88.1",
        "retail_price": "3.9"},
        "deals": {"brand": f"Brand {number}", "discount_per_gallon": "0.3"},
        "taxes": {
            "state": chr(65 + number % 26) + chr(65 + number // 26 % 26),
            "rate_per_gallon": "0.25",
            "valid_from": str(date(2020, 1, 1) + timedelta(days=number // 676)),
        },
    }[kind]  # fmt: skip
    return {name: values.get(name, "") for name in header}


def _is_right(file: File) -> bool:
    """True when the text as a whole can be read, so that each row is judged on its own."""
    columns = {field.encode_name for field in msgspec.structs.fields(ROWS[file.kind])}
    names = [name for name in file.header if name in columns]
    return file == File(*file[:4], end=file.end) and set(names) == columns and len(names) == len(columns)


def _text_of(file: File, good: list[str]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=file.delimiter, lineterminator=file.end)
    writer.writerows([file.header, *file.rows[: file.good_at], good, *file.rows[file.good_at :]])
    data = text.getvalue().encode(file.encoding, errors="replace")
    at = int(file.at * len(data))
    return data[:at] + file.splice + data[at + file.skip :] if file.splice else data


_FIND = {
    "vehicles": "SELECT FROM vehicles WHERE unit_number = %s AND company_id = %s",
    "drivers": "SELECT FROM drivers WHERE external_id = %s AND company_id = %s",
    "stations": "SELECT FROM stations WHERE station_id = %s AND %s IS NOT NULL",
    "deals": "SELECT FROM deals WHERE brand = %s AND company_id = %s",
    "taxes": "SELECT FROM fuel_taxes WHERE state = %s AND %s IS NOT NULL",
}


class CsvFiles(Part):
    """Imports files with the functions of the console and the command line; each twentieth through the console."""

    name = "csv"

    def __init__(self, console: World) -> None:
        super().__init__()
        self._console = console
        self._fleet = console.new_fleet()
        self._browsers = {role: console.browser(role, self._fleet) for role in (Role.OWNER, Role.OPERATOR)}
        self._number = 1000
        self._checked = 0

    def cases(self) -> st.SearchStrategy[File]:
        return files()

    def check(self, case: File) -> None:
        self._number += 1
        self._checked += 1
        key = _good_values(case.kind, self._number, case.header or ["x"])
        body = _text_of(case, list(key.values()))
        bring_in = self._import if self._checked % _CONSOLE_EVERY else self._send
        is_read = bring_in(case.kind, body)
        self.counts["imported" if is_read else "unreadable"] += 1
        if _is_right(case):
            self.counts["with a good row"] += 1
            if not is_read:
                raise Fault(f"a file was refused though its text is right: {body[:2000]!r}")
            self._require_good_row(case.kind, body)

    def _import(self, kind: str, body: bytes) -> bool:
        """Import the file. False when it was refused as a whole."""
        with tempfile.NamedTemporaryFile(suffix=".csv") as file:
            file.write(body)
            file.flush()
            try:
                ImportRun(
                    self._file(kind, Path(file.name)),
                    partial(self._console.database.transaction, limits=IMPORTING),
                    "fuzz",
                ).store()
            except UnreadableFile:
                return False
            except (psycopg.Error, ArithmeticError, ValueError, LookupError, TypeError, AttributeError) as error:
                raise Fault(f"{error!r} for the {kind} {body[:2000]!r}") from error
        return True

    def _file(self, kind: str, path: Path) -> ImportFile:
        company_id = self._fleet.company_id
        match kind:
            case "vehicles":
                return VehiclesFile(path=path, company_id=company_id)
            case "drivers":
                return DriversFile(path=path, company_id=company_id)
            case "deals":
                return DealsFile(path=path, company_id=company_id)
        return StationsFile(path=path) if kind == "stations" else TaxesFile(path=path)

    def _send(self, kind: str, body: bytes) -> bool:
        """Send the file to the console and wait for the end of its import. False when it was refused as a whole."""
        self.counts["through the console"] += 1
        browser: Browser = self._browsers[Role.OPERATOR if kind in _OF_ALL else Role.OWNER]
        company_id = None if kind in _OF_ALL else self._fleet.company_id
        send(browser, kind, body)

        def newest() -> StoredImport:
            with self._console.database.transaction() as connection:
                return latest_imports(connection, company_id, kind, limit=1)[0]

        try:
            stored = eventually(newest, lambda one: one.finished_at is not None, HANG_SECONDS)
        except AssertionError as error:
            raise Fault(f"the console did not end the import of the {kind} {body[:2000]!r}") from error
        if stored.fault is not None and "The file" not in stored.fault:
            raise Fault(f"{stored.fault} for the {kind} {body[:2000]!r}")
        return stored.fault is None

    def _require_good_row(self, kind: str, body: bytes) -> None:
        columns = {
            "vehicles": "unit_number",
            "drivers": "external_id",
            "stations": "station_id",
            "deals": "brand",
            "taxes": "state",
        }
        value = _good_values(kind, self._number, [columns[kind]])[columns[kind]]
        with self._console.database.transaction() as connection:
            found = named(connection).execute(_FIND[kind], (value, self._fleet.company_id)).fetchone()
        if found is None:
            raise Fault(f"the good row {value} is missing after the import of the {kind} {body[:2000]!r}")
