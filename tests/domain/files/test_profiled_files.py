"""Files of vendors are read by their profiles: whatever their encoding, titles, delimiters and units."""

import zipfile
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from domain.files.csvfiles import ImportReport, UnreadableFile
from domain.files.file_records import FileRecord
from domain.files.profiles import Column, FileProfile, RecordField, RecordFields, guessed_columns
from domain.files.reading import open_profiled, read_sample, recognize

CHICAGO = ZoneInfo("America/Chicago")
FIELDS = RecordFields(
    "things",
    (
        RecordField("code", "Code", "code", ("Store No.",)),
        RecordField("city", "City", "text"),
        RecordField("price", "Price", "amount", ("Retail Price",)),
        RecordField("gallons", "Gallons", "number"),
        RecordField("since", "Effective", "moment", ("Effective Date",)),
        RecordField("day", "Day", "day"),
    ),
    (("code",), ("price",)),
)
PROFILE = FileProfile(
    "vendor",
    "things",
    {
        "code": Column(("Store No.", "Store Number")),
        "city": Column(("City",)),
        "price": Column(("Retail Price",)),
        "gallons": Column(("Qty",)),
        "since": Column(("Effective Date",)),
    },
    constants={"brand": "Vendor"},
)
PLAIN = "Store No.,City,Retail Price,Effective Date\n"


def read(path: Path, profile: FileProfile = PROFILE) -> tuple[list[FileRecord], list[tuple[int, str]]]:
    report = ImportReport()
    with open_profiled(path, profile, FIELDS, CHICAGO, report) as file:
        records = list(file.records)
    return records, [(row.line, row.message) for row in report.rejected]


def text_file(folder: Path, content: str | bytes) -> Path:
    path = folder / "file.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def excel_file(folder: Path, *rows: list[Any]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(folder / "file.xlsx")
    return folder / "file.xlsx"


def test_a_row_becomes_fields_of_ours(tmp_path: Path) -> None:
    path = text_file(tmp_path, PLAIN + '305,Amarillo,"$1,003.499",11/24/2026\n')

    assert read(path) == (
        [
            FileRecord(
                2,
                {
                    "brand": "Vendor",
                    "code": "305",
                    "city": "Amarillo",
                    "price": 1003.499,
                    "since": datetime(2026, 11, 24, 6, tzinfo=UTC),
                },
            )
        ],
        [],
    )


def test_titles_above_the_names_are_passed_over(tmp_path: Path) -> None:
    path = text_file(tmp_path, "Daily prices,,,\n,,,\nCity,for,you\n" + PLAIN + "305,Amarillo,3.499,11/24/2026\n")

    assert [(one.line, one.values["code"]) for one in read(path)[0]] == [(5, "305")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_encodings_and_delimiters_are_found_out(tmp_path: Path, encoding: str, delimiter: str) -> None:
    table = (PLAIN + "305,Cañon City,3.499,11/24/2026\n").replace(",", delimiter)

    (record,), refused = read(text_file(tmp_path, table.encode(encoding)))

    assert (record.values["city"], record.values["price"], refused) == ("Cañon City", 3.499, [])


def test_faults_are_told_by_line_and_column_and_the_other_rows_are_read(tmp_path: Path) -> None:
    rows = "305,Amarillo,three,11/24/2026\n306,Tulsa,3.5,tomorrow\n307,Elk City,3.6,11/24/2026\n"

    records, refused = read(text_file(tmp_path, PLAIN + rows))

    assert [one.values["code"] for one in records] == ["307"]
    assert refused == [
        (2, "Retail Price: 'three' is no number"),
        (3, "Effective Date: 'tomorrow' is no date: write it as 11/24/2026 or 2026-11-24"),
    ]


def test_a_column_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match=r"needs a column 'Retail Price'; line 1 names: Store No\., Town"):
        read(text_file(tmp_path, "Store No.,Town\n305,Amarillo\n"))


def test_an_optional_column_that_is_not_there_is_no_field_and_an_empty_cell_is_none(tmp_path: Path) -> None:
    (record,), _ = read(text_file(tmp_path, "Store Number,Retail Price,City\n305,3.499,\n"))

    assert record.values == {"brand": "Vendor", "code": "305", "price": 3.499, "city": None}


def test_cents_and_other_signs_are_a_matter_of_the_profile(tmp_path: Path) -> None:
    profile = FileProfile(
        "cents", "things", {"code": Column(("A",)), "price": Column(("B",), unit="cents", is_negated=True)}
    )

    records, _ = read(text_file(tmp_path, "A,B\n1,349.9\n2,(12)\n3,5-\n"), profile)

    assert [one.values["price"] for one in records] == [-3.499, 0.12, 0.05]


def test_a_column_that_comes_twice_must_be_chosen(tmp_path: Path) -> None:
    path = text_file(tmp_path, "Store No.,Retail Price,Retail Price\n305,3.1,3.2\n")
    second = FileProfile("second", "things", {"code": Column(("Store No.",)), "price": Column(("Retail Price (2)",))})

    with pytest.raises(UnreadableFile, match=r"map one of them as 'Retail Price \(1\)'"):
        read(path)
    assert read(path, second)[0][0].values["price"] == 3.2


def test_an_optional_column_that_comes_twice_must_say_the_same(tmp_path: Path) -> None:
    names = "Store No.,Retail Price,City,City\n"
    same = text_file(tmp_path, names + "305,3.1,Amarillo,AMARILLO\n306,3.2,,Tulsa\n307,3.2,Gary,Hammond\n")

    records, refused = read(same)

    assert [one.values["city"] for one in records] == ["Amarillo", "Tulsa"]
    assert refused == [(4, "City (1): the columns of this name say 'Gary' and 'Hammond'")]
    with pytest.raises(UnreadableFile, match=r"several columns 'City', which say different things"):
        read(text_file(tmp_path, names + "305,3.1,Amarillo,Tulsa\n"))


def test_a_row_with_more_cells_than_the_heading_is_refused_and_never_read_shifted(tmp_path: Path) -> None:
    rows = "305,Amarillo, TX,3.499,11/24/2026\n306,Tulsa,3.5,11/24/2026\n307,Elk City, OK,3.5,\n"

    records, refused = read(text_file(tmp_path, PLAIN + rows))

    assert [one.values["code"] for one in records] == ["306"]
    assert [line for line, _ in refused] == [2, 4]
    assert "5 cells, but the heading names 4 columns" in refused[0][1]


def test_rows_that_all_end_with_a_delimiter_are_read(tmp_path: Path) -> None:
    records, refused = read(text_file(tmp_path, PLAIN + "305,Amarillo,3.499,11/24/2026,\n306,Tulsa,3.5,11/24/2026,\n"))

    assert ([one.values["code"] for one in records], refused) == (["305", "306"], [])


def test_a_cell_beside_the_table_of_a_spreadsheet_refuses_its_row(tmp_path: Path) -> None:
    path = excel_file(tmp_path, ["Store No.", "Retail Price"], ["305", 3.5], ["306", "Gary", 3.6], ["307", 3.7])

    records, refused = read(path)

    assert ([one.values["code"] for one in records], [line for line, _ in refused]) == (["305", "307"], [3])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_a_stray_quote_costs_only_its_row(tmp_path: Path, delimiter: str, encoding: str) -> None:
    rows = [f"{number},Peña,3.5,11/24/2026\r\n" for number in range(301, 321)]
    rows[4] = '305,"Peña,3.5,11/24/2026\r\n'
    content = (PLAIN + "".join(rows)).replace(",", delimiter).encode(encoding)

    records, refused = read(text_file(tmp_path, content))

    assert [one.values["code"] for one in records] == [str(number) for number in range(301, 321) if number != 305]
    assert refused == [(6, "a quote is opened and never closed")]


@pytest.mark.parametrize(
    "above",
    ["Effective Date: 11/26/2026", "Effective Date,11/26/2026", "EFFECTIVE DATE:,,11/26/2026", "Effective date 46352"],
)
def test_a_value_above_the_heading_counts_for_every_row(tmp_path: Path, above: str) -> None:
    profile = replace(PROFILE, above={"since": Column(("Effective Date",))})
    path = text_file(tmp_path, f"Better Of Prices\n{above}\nStore No.,Retail Price\n305,3.5\n306,3.6\n")

    records, refused = read(path, profile)

    assert [one.values["since"] for one in records] == [datetime(2026, 11, 26, 6, tzinfo=UTC)] * 2
    assert refused == []


def test_a_row_that_has_the_value_itself_says_what_counts(tmp_path: Path) -> None:
    profile = replace(PROFILE, above={"since": Column(("Effective Date",))})
    path = text_file(tmp_path, f"Effective Date: 11/26/2026\n{PLAIN}305,Gary,3.5,11/27/2026\n306,Gary,3.6,\n")

    records, _ = read(path, profile)

    assert [one.values["since"].day for one in records] == [27, 26]


@pytest.mark.parametrize("above", ["Effective Date: tomorrow", "Effective Date,11/26/2026\nEffective Date,11/27/2026"])
def test_a_value_above_the_heading_that_cannot_be_read_is_a_fault_of_the_file(tmp_path: Path, above: str) -> None:
    profile = replace(PROFILE, above={"since": Column(("Effective Date",))})

    with pytest.raises(UnreadableFile, match="Effective Date"):
        read(text_file(tmp_path, f"{above}\n{PLAIN}305,Gary,3.5,\n"), profile)


def test_a_title_that_begins_like_a_label_is_no_value(tmp_path: Path) -> None:
    profile = replace(PROFILE, above={"since": Column(("Effective",))})

    records, _ = read(text_file(tmp_path, f"Effective prices of Acme\n{PLAIN}305,Gary,3.5,\n"), profile)

    assert records[0].values["since"] is None


@pytest.mark.parametrize("cell", ["46352", "46352.5", 46352, 46352.5])
def test_days_as_spreadsheets_count_them_are_dates(tmp_path: Path, cell: str | float) -> None:
    hour = 12 if str(cell).endswith(".5") else 0
    texts = text_file(tmp_path, PLAIN + f"305,Gary,3.5,{cell}\n")
    numbers = excel_file(tmp_path, ["Store No.", "Retail Price", "Effective Date"], ["305", 3.5, cell])

    assert [read(path)[0][0].values["since"] for path in (texts, numbers)] == [
        datetime(2026, 11, 26, 6 + hour, tzinfo=UTC)
    ] * 2


def test_a_number_that_is_no_day_is_no_date(tmp_path: Path) -> None:
    _, refused = read(text_file(tmp_path, PLAIN + "305,Gary,3.5,12345\n306,Gary,3.5,461740\n"))

    assert [line for line, _ in refused] == [2, 3]


NARROW = FileProfile("narrow", "things", {"code": Column(("Store No.",)), "price": Column(("Retail Price", "Price"))})
SITES = FileProfile("sites", "things", {"code": Column(("Site",)), "price": Column(("Retail Price",))}, {"brand": "A"})
OTHER_SITES = replace(SITES, name="other sites", constants={"brand": "B"})


def test_the_profile_that_knows_most_columns_of_a_file_is_found(tmp_path: Path) -> None:
    path = text_file(tmp_path, "Daily prices\n" + PLAIN + "305,Amarillo,3.499,11/24/2026\n")

    assert recognize(path, [NARROW, PROFILE, SITES], FIELDS).name == "vendor"
    assert recognize(path, [NARROW, SITES], FIELDS).name == "narrow"


def test_a_kept_profile_goes_before_others_when_the_file_has_all_its_columns(tmp_path: Path) -> None:
    path = text_file(tmp_path, PLAIN + "305,Amarillo,3.499,11/24/2026\n")
    ours = FileProfile("ours", "things", {"code": Column(("Store No.",)), "price": Column(("Retail Price",))})
    theirs = replace(PROFILE, name="theirs")

    assert recognize(path, [PROFILE], FIELDS, kept=[ours, theirs]).name == "ours"
    assert recognize(path, [PROFILE], FIELDS, kept=[theirs]).name == "vendor"


def test_a_file_that_fits_several_profiles_alike_waits_for_a_choice(tmp_path: Path) -> None:
    path = text_file(tmp_path, "Site,Retail Price\n305,3.5\n")

    with pytest.raises(UnreadableFile, match="fit the profiles 'sites' and 'other sites': choose one"):
        recognize(path, [SITES, OTHER_SITES, PROFILE], FIELDS)
    assert recognize(path, [SITES, replace(SITES, name="the same"), PROFILE], FIELDS).name == "sites"


def test_a_file_that_no_profile_knows_is_told_with_its_columns(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match=r"no profile fits this file; the profile 'sites' needs .* names: A, B"):
        recognize(text_file(tmp_path, "A,B\n1,2\n"), [SITES, PROFILE], FIELDS)
    with pytest.raises(UnreadableFile, match="empty"):
        recognize(text_file(tmp_path, ""), [SITES], FIELDS)


def test_excel_has_numbers_and_dates_of_its_own(tmp_path: Path) -> None:
    path = excel_file(
        tmp_path,
        ["Prices of the day"],
        [],
        ["Store No.", "City", "Retail Price", "Effective Date", "Qty"],
        [305, "Amarillo", 3.499, datetime(2026, 11, 24), "=1+1"],
        ["007", "Tulsa", "3.5", "11/24/2026 6:30 PM", 12.5],
    )

    records, refused = read(path)

    assert [(one.line, one.values["code"], one.values["since"]) for one in records] == [
        (4, "305", datetime(2026, 11, 24, 6, tzinfo=UTC)),
        (5, "007", datetime(2026, 11, 25, 0, 30, tzinfo=UTC)),
    ]
    assert (records[0].values["gallons"], refused) == (None, [])  # Excel has not computed the formula


def test_a_small_file_that_claims_a_huge_sheet_is_refused(tmp_path: Path) -> None:
    path = excel_file(tmp_path, ["Store No.", "Retail Price"], [305, 3.5])
    with zipfile.ZipFile(path) as parts:
        contents = {name: parts.read(name) for name in parts.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    far = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    contents[sheet] = contents[sheet].replace(b"</sheetData>", far)
    with zipfile.ZipFile(path, "w") as parts:
        for name, content in contents.items():
            parts.writestr(name, content)

    with pytest.raises(UnreadableFile, match="more cells than can be read: save it as CSV"):
        read(path)


@pytest.mark.parametrize(
    "content", [b"", b"\0\1\2", b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\xff\xfe\x00", b"\xff\xfe\x00\xd8a"]
)
def test_what_is_no_table_is_told(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UnreadableFile):
        read(text_file(tmp_path, content))


def test_a_sample_has_the_names_the_first_rows_and_guesses(tmp_path: Path) -> None:
    path = text_file(tmp_path, "Prices\n" + PLAIN + "305,Amarillo,3.499,11/24/2026\n306,Tulsa,3.5,11/24/2026\n")

    sample = read_sample(path, limit=1)

    assert sample.heading.names == ["Store No.", "City", "Retail Price", "Effective Date"]
    assert [row.cells[0] for row in sample.rows] == ["305"]
    assert guessed_columns(sample.heading.names, FIELDS) == {
        "code": "Store No.",
        "city": "City",
        "price": "Retail Price",
        "since": "Effective Date",
    }


def test_the_names_of_columns_can_be_stored(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_text("Re\x00tail,City\n1,2\n")

    assert read_sample(path).heading.names == ["Retail", "City"]


def test_a_day_has_no_zone(tmp_path: Path) -> None:
    profile = FileProfile("day", "things", {**PROFILE.columns, "day": Column(("D",), date_format="%d.%m.%Y")})

    (record,), _ = read(text_file(tmp_path, "Store No.,Retail Price,D\n305,3.5,24.11.2026\n"), profile)

    assert record.values["day"] == date(2026, 11, 24)


@settings(deadline=None)
@given(st.lists(st.lists(st.text(max_size=12), max_size=5), max_size=5))
def test_any_table_gives_records_or_faults(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    content = PLAIN + "\n".join(",".join(row) for row in rows)
    path = text_file(tmp_path_factory.mktemp("any"), content.encode("utf-8", "surrogatepass"))

    try:
        records, refused = read(path)
    except UnreadableFile:
        return
    assert all(record.line >= 2 for record in records)
    assert all(message for _, message in refused)


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("$1,234.56", 1234.56),
        ("(12.34)", -12.34),
        ("$(12.34)", -12.34),
        ("-$12.34", -12.34),
        ("12.34-", -12.34),
        ("12.34 CR", -12.34),
        ("USD 12.34", 12.34),
        ("1.234,56", 1234.56),
        ("1 234,56", 1234.56),
        ("12,34", 12.34),
        ("0,999", 0.999),
        ("1,234", 1234.0),
        ("12 €", None),
        ("1.23.4", None),
        ("--5", None),
    ],
)
def test_amounts_are_read_as_reports_write_them(tmp_path: Path, written: str, number: float | None) -> None:
    records, rejected = read(text_file(tmp_path, f"Store No.\tRetail Price\n1\t{written}\n"))
    assert [one.values["price"] for one in records] == ([] if number is None else [number])
    assert len(rejected) == (number is None)
