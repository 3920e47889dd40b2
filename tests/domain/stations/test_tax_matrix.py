"""The matrix of fuel tax rates of IFTA, Inc. is a file of taxes (tests/cases/taxes)."""

from datetime import date, datetime
from pathlib import Path

import pytest

from domain.database.connections import Connection
from domain.files.csvfiles import ImportReport, UnreadableFile
from domain.stations.taxes import TaxRow, read_taxes, store_tax_rows
from tests.domain.csv_files import rejected
from tests.rows import named

MATRIX = Path(__file__).parents[2] / "cases" / "taxes" / "ifta_2q2026.csv"


def read(path: Path) -> tuple[dict[str, TaxRow], ImportReport]:
    report = ImportReport()
    return {line.row.state: line.row for line in read_taxes(path, report)}, report


def test_a_matrix_gives_the_rates_of_diesel_in_dollars_a_gallon(connection: Connection, now: datetime) -> None:
    connection.execute("DELETE FROM fuel_taxes")

    report = store_tax_rows(connection, MATRIX, now=now)

    stored = named(connection).execute("SELECT * FROM fuel_taxes").fetchall()
    assert {row.state: (row.rate_per_gallon, row.surcharge_per_gallon) for row in stored} == {
        "AB": (0.3596, 0),
        "NL": (0.2628, 0),
        "IN": (0.63, 0),
        "KY": (0.22, 0.105),
        "OR": (0, 0),
        "VA": (0.327, 0.143),
    }
    assert {row.valid_from for row in stored} == {date(2026, 4, 1)}
    assert list(rejected(report)) == [23]  # Maine has no rate
    assert report.unused_columns[:3] == ["Gasoline", "Gasohol", "Propane"]


def test_a_matrix_copied_from_its_web_page_has_one_line_of_names(tmp_path: Path) -> None:
    copied = tmp_path / "copied.txt"
    copied.write_text(
        "4Q2026\nState / Province\tRate\tGasoline\tSpecial Diesel\n"
        "ONTARIO #5\tU.S.\t0.2490\t0.2490\n\tCan.\t0.0900\t0.0900\nATLANTIS\tU.S.\t0.1\t0.1\n"
        "KY\tU.S.\t0.2600\t0.2330\nKY (Surcharge)\tU.S.\t\t0.1050\nIN\tU.S.\t0.37\t0.63\nIN (Surcharge)\tU.S.\t\t\n"
    )

    taxes, report = read(copied)

    assert taxes == {
        state: TaxRow(state, rate, date(2026, 10, 1), surcharge)
        for state, rate, surcharge in (("ON", 0.249, 0), ("KY", 0.233, 0.105), ("IN", 0.63, 0))
    }
    assert "state" in rejected(report)[5]


def test_a_member_with_two_rates_of_one_quarter_gets_neither(tmp_path: Path) -> None:
    """IFTA's members have a day of effect in its XML, and none in the matrix."""
    lines = MATRIX.read_text().splitlines(keepends=True)
    twice = tmp_path / "twice.csv"
    same = [line.replace("0.2200", ".22") for line in lines[15:17]]
    twice.write_text("".join([*lines, lines[9].replace("0.6300", "0.6500"), *same]))

    taxes, report = read(twice)

    assert list(taxes) == ["AB", "NL", "KY", "OR", "VA"]
    assert taxes["KY"].rate_per_gallon == 0.22
    refused = rejected(report)
    assert "another rate, 0.6300: add both by hand" in refused[len(lines) + 1]
    assert refused[10] == "IN has two rates"


def test_a_matrix_that_does_not_tell_its_quarter_is_refused(tmp_path: Path) -> None:
    cut = tmp_path / "cut.csv"
    cut.write_text(MATRIX.read_text().partition("\n")[2])

    with pytest.raises(UnreadableFile, match="quarter"):
        read(cut)
