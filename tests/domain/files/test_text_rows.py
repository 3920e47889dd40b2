"""Text files are read row by row: a bad quote costs only its row, and no line takes more memory than it may."""

import csv
import io
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.files.column_names import usual_delimiter
from domain.files.text_rows import MOST_COLUMNS, MOST_ROW_CHARACTERS, encoding_of, text_rows

SIGNS = st.sampled_from([",", ";", "\t", "|"])


def read(text: str, delimiter: str = ",") -> tuple[list[list[str]], list[int]]:
    """The rows, and the lines that were refused."""
    refused: list[int] = []
    rows = [
        cells for _, cells in text_rows(io.StringIO(text, newline=""), delimiter, lambda row: refused.append(row.line))
    ]
    return rows, refused


def twenty(**changed: str) -> list[str]:
    """A heading and twenty rows; `line5="..."` stands in place of the row on that line."""
    rows = ["id,name,price", *(f"{number},Stop {number},3.5" for number in range(2, 22))]
    for name, row in changed.items():
        rows[int(name.removeprefix("line")) - 1] = row
    return rows


@pytest.mark.parametrize(
    ("changed", "lost"),
    [
        ({"line5": '5,"Joe,3.5'}, [5]),
        ({"line5": '5,"Joe\'s" Truck stop,3.5'}, [5]),
        ({"line5": '"5,Joe,3.5'}, [5]),
        ({"line5": '5,Joe,"3.5'}, [5]),
        ({"line21": '21,"Joe,3.5'}, [21]),
        ({"line5": '5,"Joe,3.5', "line12": '12,"Bob,3.5'}, [5, 12]),
        ({"line5": '5,"Joe,3.5', "line12": '12,Bob",3.5'}, [5]),
        ({"line5": '5,"Joe,3.5', "line12": '12,"A, B",3.5'}, [5]),
        ({"line5": '5,"Joe,3.5', "line12": '12,"",3.5'}, [5]),
        ({"line5": '5,5" pipe,3.5'}, []),
        ({"line5": '5,Trailer 53",3.5'}, []),
    ],
)
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_stray_quote_costs_only_its_row(changed: dict[str, str], lost: list[int], delimiter: str) -> None:
    rows, refused = read("\r\n".join(twenty(**changed)).replace(",", delimiter), delimiter)

    assert refused == lost
    assert [row[0] for row in rows[1:]] == [str(number) for number in range(2, 22) if number not in lost]


@pytest.mark.parametrize(
    ("last", "refused"),
    [
        ("22,Joe", [22]),
        ('22,"Joe"', [22]),
        ("22,Joe\n", []),
        ("22,Joe,", []),
        ("22,Joe,3.", []),  # nothing shows that it goes on
        ("End of the list", []),
        ("Total,75.0", []),
        ("Printed 11/28/2026,page 1", []),
        ("21 rows,", []),
    ],
)
@pytest.mark.parametrize("title", [[], ["Prices", ""]])
def test_a_row_in_which_the_file_ends_is_refused(title: list[str], last: str, refused: list[int]) -> None:
    text = "\n".join([*title, *twenty(), last])

    rows, lost = read(text)

    assert lost == [line + len(title) for line in refused]
    assert len([row for row in rows if row]) == 22 - len(refused) + len(title) // 2


def test_titles_above_a_table_hide_no_row_that_is_cut() -> None:
    """A report of Pilot has its account and its day in two cells each above the table."""
    rows = ["Account,7", "", "Site,City,Retail,Net", "206,Loxley,4.499,3.849"]

    assert read("\n".join([*rows, "305,Elkhart,4.299"])) == ([row.split(",") if row else [] for row in rows], [5])


def test_rows_of_many_lengths_may_end_with_a_short_one() -> None:
    """A writer may leave out empty cells at the end of a row."""
    rows = ["id,name,price", "1,Joe,3.5", "2,Joe", "3,Joe,3.5", "4,Joe,3.5", "5,Joe"]
    assert read("\n".join(rows)) == ([row.split(",") for row in rows], [])


def test_cells_in_quotes_may_have_several_lines() -> None:
    text = 'id,note,place\n1,"Gate 2\nring twice, then wait\n\nor call","Joliet, IL"\n2,none,Gary\n'

    rows, refused = read(text)

    assert (rows[1][1], rows[2], refused) == (
        "Gate 2\nring twice, then wait\n\nor call",
        ["2", "none", "Gary"],
        [],
    )


def test_spaces_between_a_delimiter_and_a_quote_do_not_count() -> None:
    assert read('1, "Joliet, IL", x\n') == ([["1", "Joliet, IL", "x"]], [])


@given(
    st.lists(st.lists(st.text("ab, \"\n\r;\t|'", max_size=6), min_size=2, max_size=4), min_size=1, max_size=6), SIGNS
)
def test_whatever_is_written_as_csv_is_read_or_refused_by_line(rows: list[list[str]], delimiter: str) -> None:
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows(rows)

    found, refused = read(file.getvalue(), delimiter)

    assert all(row in rows for row in found if row in rows or not refused)
    assert len(found) == len(rows) or refused


@pytest.mark.slow
@pytest.mark.parametrize(("piece", "times"), [("x", 40_000_000), ("a,b,", 10_000_000), ("a,", MOST_COLUMNS + 1)])
def test_a_line_that_is_too_long_costs_itself_and_no_memory(tmp_path: Path, piece: str, times: int) -> None:
    path = tmp_path / "long.csv"
    path.write_text(f"id,name\n{piece * times}\n3,Joe\n")
    refused: list[int] = []

    tracemalloc.start()
    with path.open(encoding=encoding_of(path), newline="") as file:
        rows = [cells for _, cells in text_rows(file, ",", lambda row: refused.append(row.line))]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (rows, refused) == ([["id", "name"], ["3", "Joe"]], [2])
    assert most < 60 * MOST_ROW_CHARACTERS


def test_the_usual_delimiter_divides_most_lines() -> None:
    assert usual_delimiter("a;b;c\n1,5;2,5;x\n") == ";"
    assert usual_delimiter("a,b\n") == ","
    assert usual_delimiter("Daily prices\nAs of today\nCustomer: X\n\nSite,City,Price\n7,Gary,3.5\n") == ","
    assert usual_delimiter("Prices, daily, of today\n\nSite\tCity\tPrice\n7\tGary, IN\t3.5\n") == "\t"
    assert usual_delimiter("Site;City;Net;Retail\n7;Gary;3,5;3,6\n8;Elko;3,5;3,6\n") == ";"
    assert usual_delimiter("") == ","
