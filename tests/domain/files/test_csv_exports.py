"""An exported CSV file reads the same when it is imported, and no spreadsheet runs a cell of it."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from domain.files.csvfiles import ImportReport, read_rows, write_rows


class Thing(Struct, frozen=True):
    name: str
    note: str | None = None
    miles: float | None = None


texts = (
    st.text(st.one_of(st.sampled_from("'=+-@\t\r\n,\";1"), st.characters(exclude_categories=["Cs"])), max_size=12)
    .map(lambda text: text.replace("\0", "").strip())
    .filter(bool)
)
things = st.builds(Thing, texts, st.none() | texts, st.none() | st.floats(allow_nan=False, allow_infinity=False))


def written(rows: Sequence[Thing]) -> str:
    file = io.StringIO(newline="")
    write_rows(file, Thing.__struct_fields__, [msgspec.structs.astuple(row) for row in rows])
    return file.getvalue()


@pytest.mark.slow
@given(st.lists(things, max_size=5))
@pytest.mark.parametrize("clearing", [True, False])
def test_an_exported_file_reads_the_same(clearing: bool, rows: list[Thing]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "things.csv"
        path.write_text(written(rows), newline="")
        report = ImportReport()
        lines = list(read_rows(path, Thing, report, clearing=clearing))
    assert not report.rejected
    assert [line.row for line in lines] == rows
    assert not any(line.cleared for line in lines)


@given(st.lists(things, max_size=5))
def test_a_spreadsheet_runs_no_text(rows: list[Thing]) -> None:
    for cells in list(csv.reader(io.StringIO(written(rows), newline="")))[1:]:
        name, note, _ = cells
        assert not name.startswith(("=", "+", "-", "@", "\t", "\r"))
        assert not note.startswith(("=", "+", "-", "@", "\t", "\r"))


def test_numbers_stay_numbers() -> None:
    rows = [Thing("a", "-5", -88.125), Thing("=1+1", None, 200.0)]
    assert written(rows) == ('"name","note","miles"\r\n"a","\'-5","-88.125"\r\n"\'=1+1","","200"\r\n')


@pytest.mark.parametrize("text", ["x;=1+1", "x\t@SUM(1)", "a|+1;-2", "\t=1", "x;'=1", ";;=1", "x; = 1"])
def test_no_cell_is_a_formula_whatever_sign_a_spreadsheet_divides_at(text: str) -> None:
    file = written([Thing(text, text, 1.0)])

    for delimiter in ",;\t|":
        for row in csv.reader(io.StringIO(file, newline=""), delimiter=delimiter):
            assert not [cell for cell in row if cell[:1] in ("=", "+", "-", "@")]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "things.csv"
        path.write_text(file, newline="")
        assert [line.row for line in read_rows(path, Thing, ImportReport())] == [Thing(text, text, 1.0)]
