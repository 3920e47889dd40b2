"""Files of routes: each row becomes the body that a TMS would push, or says what is wrong with it."""

import json
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.contract.shapes import MAX_BODY_BYTES
from domain.encoding import write
from domain.files import spreadsheets
from domain.files.csvfiles import UnreadableFile, write_rows
from domain.files.route_files import open_route_file
from domain.files.route_layout import Layout
from domain.files.route_rows import FileRoute
from tests.factories import route_body

CHICAGO = ZoneInfo("America/Chicago")
BODY = route_body(datetime(2026, 12, 1, 8, tzinfo=UTC), externalId="LOAD-1")
WIDE = [
    *("externalId", "Reference", "unit_number", "Driver Name", "scheduled start"),
    *(f"stop{number}_{name}" for number in (1, 2, 3) for name in ("name", "latitude", "longitude", "windowStart")),
]
WIDE_ROW: list[Any] = [
    *("LOAD-1", "PO-1", "101", "Ann Lee", "2026-12-01 08:00"),
    *("Joliet", "41.462", "-88.125", ""),
    *("Newark", "40.695", "-74.155", "2026-12-02T09:30:00-05:00"),
    *("", "", "", ""),
]
LONG = ["externalId", "unitNumber", "driverName", "scheduledStart", "stop_name", "stop_latitude", "stop_longitude"]


def read(
    path: Path, mapping: Mapping[str, str] | None = None, zone: ZoneInfo | None = CHICAGO
) -> tuple[list[FileRoute], Layout | None]:
    with open_route_file(path, mapping or {}, zone) as file:
        return list(file.routes), file.layout


def csv_file(folder: Path, *rows: list[Any]) -> Path:
    path = folder / "loads.csv"
    with path.open("w", newline="") as file:
        write_rows(file, rows[0], rows[1:])
    return path


def excel_file(folder: Path, *rows: list[Any]) -> Path:
    path = folder / "loads.xlsx"
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def json_file(folder: Path, *lines: bytes) -> Path:
    path = folder / "loads.jsonl"
    path.write_bytes(b"\n".join(lines))
    return path


def test_a_line_of_json_is_a_body(tmp_path: Path) -> None:
    (route,), layout = read(json_file(tmp_path, b"\xef\xbb\xbf" + write(BODY), b"", b"  "))

    assert (route.line, route.external_id, route.body, route.fault) == (1, "LOAD-1", json.loads(write(BODY)), "")
    assert layout is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "not JSON"),
        (b"[1]", "Expected an object, got an array"),
        (b"\xff", "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (write({**BODY, "stops": []}), "stops: Expected"),
        (b" " * (MAX_BODY_BYTES + 9) + b"x", "longer than 1 MiB"),
    ],
    ids=["broken", "array", "bytes", "deep", "no stops", "long"],
)
def test_a_bad_line_costs_only_itself(tmp_path: Path, line: bytes, said: str) -> None:
    bad, good = read(json_file(tmp_path, line, write(BODY)))[0]

    assert said in bad.fault
    assert bad.route is None
    assert (good.line, good.fault) == (2, "")


def test_a_row_is_a_route(tmp_path: Path) -> None:
    (route,), layout = read(csv_file(tmp_path, WIDE, WIDE_ROW))

    assert route.fault == ""
    assert route.body == {
        "externalId": "LOAD-1",
        "reference": "PO-1",
        "vehicle": {"unitNumber": "101"},
        "driver": {"name": "Ann Lee"},
        "scheduledStart": "2026-12-01T08:00:00-06:00",
        "stops": [
            {"name": "Joliet", "latitude": 41.462, "longitude": -88.125},
            {
                "name": "Newark",
                "latitude": 40.695,
                "longitude": -74.155,
                "arrivalWindow": {"start": "2026-12-02T09:30:00-05:00"},
            },
        ],
    }
    assert layout is not None
    assert not layout.is_row_a_stop


def test_excel_has_numbers_and_times_of_its_own(tmp_path: Path) -> None:
    row = [4711, None, 101.0, "Ann Lee", datetime(2026, 12, 1, 8, 0, 0, 400_000), *WIDE_ROW[5:]]

    (route,), _ = read(excel_file(tmp_path, WIDE, row, [None] * 20))

    assert route.body is not None
    assert route.fault == ""
    assert (route.body["externalId"], route.body["vehicle"]) == ("4711", {"unitNumber": "101"})
    assert route.body["scheduledStart"] == "2026-12-01T08:00:00-06:00"


def test_a_whole_number_that_a_program_has_given_a_decimal_is_the_number(tmp_path: Path) -> None:
    """Python's pandas writes whole numbers so once a cell of the column is empty. The load would be another one than
    the TMS pushes."""
    joliet = ["5001.0", "101.0", "Ann Lee", "2026-12-01 08:00", "Joliet", "41.462", "-88.125"]
    newark = ["5001", "", "", "", "Newark", "40.695", "-74.155"]

    (route,), _ = read(csv_file(tmp_path, LONG, joliet, newark))

    assert route.body is not None
    assert (route.external_id, route.body["vehicle"]) == ("5001", {"unitNumber": "101"})
    assert len(route.body["stops"]) == 2


def test_a_row_can_be_a_stop(tmp_path: Path) -> None:
    path = csv_file(
        tmp_path,
        LONG,
        ["A", "101", "Ann Lee", "2026-12-01 08:00", "Joliet", "41.4", "-88.1"],
        ["A", "", "", "", "Perrysburg", "41.5", "-83.6"],
        ["", "101", "", "", "Newark", "40.7", "-74.1"],
        ["B", "102", "Bo Diaz", "2026-12-01 08:00", "Joliet", "41.4", "-88.1"],
        ["B", "103", "", "", "Newark", "140.7", "-74.1"],
    )

    first, second = read(path)[0]

    assert first.fault == ""
    assert first.body is not None
    assert [stop["name"] for stop in first.body["stops"]] == ["Joliet", "Perrysburg", "Newark"]
    assert second.line == 5
    assert "unitNumber: line 6 says something else than line 5 of the same route" in second.fault
    assert "stop_latitude (line 6): Expected a number <= 90.0" in second.fault


def test_columns_may_have_other_names(tmp_path: Path) -> None:
    names = ["Load No", "Truck", "Driver", "Pickup", *LONG[4:], "Rate"]
    row = ["A", "101", "Ann Lee", "2026-12-01 08:00", "Joliet", "41.4", "-88.1", "$900"]
    mapping = {"externalId": "load no", "unitNumber": "Truck", "driverName": "Driver", "scheduledStart": "Pickup"}

    (route,), layout = read(csv_file(tmp_path, names, row, ["", "", "", "", "Newark", "40.7", "-74.1", ""]), mapping)

    assert route.fault == ""
    assert layout is not None
    assert layout.unused == ["Rate"]


@pytest.mark.parametrize(
    ("names", "mapping", "said"),
    [
        ([], {}, "lacks columns for externalId, scheduledStart, unitNumber (or vin)"),
        (WIDE[1:], {}, "lacks columns for externalId; its columns are: Reference"),
        ([name for name in WIDE if name != "stop2_latitude"], {}, "lacks columns for stop2_latitude"),
        ([*WIDE, "stop_name"], {}, "leave out one kind"),
        ([*WIDE, "external-ID"], {}, "'externalId' and 'external-ID' are both the field externalId"),
        (WIDE, {"loadNumber": "externalId"}, "there is no field 'loadNumber': the fields are externalId"),
        (WIDE, {"vin": "VIN code"}, "no column 'VIN code'; its columns are: externalId, Reference"),
    ],
)
def test_columns_that_do_not_suffice_are_told(
    tmp_path: Path, names: list[str], mapping: dict[str, str], said: str
) -> None:
    with pytest.raises(UnreadableFile) as raised:
        read(csv_file(tmp_path, names, ["x"] * len(names)), mapping)

    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ("2026-03-08 02:30", "There is no such time in America/Chicago"),
        ("2026-02-30 08:00", "There is no such date and time"),
        ("13/01/2026 8:00 AM", "There is no such date and time"),
        ("12/01/2026 13:00 PM", "There is no such date and time"),
        ("12/01/2026", "scheduled start: Expected an RFC 3339 date-time"),
        ("07/01/2026 8:00 AM CST", "It is not CST then in America/Chicago: write CT"),
        ("0001-01-01 00:00", "There is no such date and time"),
        ("", "scheduled start: Required"),
    ],
)
def test_times_that_do_not_exist_are_refused(tmp_path: Path, start: str, said: str) -> None:
    row = [*WIDE_ROW[:4], start, *WIDE_ROW[5:]]
    zone = ZoneInfo("Asia/Tokyo") if start.startswith("0001") else CHICAGO

    (route,), _ = read(csv_file(tmp_path, WIDE, row), zone=zone)

    assert said in route.fault


@pytest.mark.parametrize(
    ("start", "moment"),
    [
        ("12/01/2026 8:00 AM", "2026-12-01T08:00:00-06:00"),
        ("12/1/26 20:30", "2026-12-01T20:30:00-06:00"),
        ("12/01/2026 12:05:09 am", "2026-12-01T00:05:09-06:00"),
        ("12/01/2026 08:00 EST", "2026-12-01T08:00:00-05:00"),
        ("12/01/2026 08:00 AM PT", "2026-12-01T08:00:00-08:00"),
        ("2026-12-01 08:00 (MST)", "2026-12-01T08:00:00-07:00"),
        ("46357.3333333333", "2026-12-01T08:00:00-06:00"),
    ],
)
def test_times_are_read_as_dispatchers_and_spreadsheets_write_them(tmp_path: Path, start: str, moment: str) -> None:
    (route,), _ = read(csv_file(tmp_path, WIDE, [*WIDE_ROW[:4], start, *WIDE_ROW[5:]]))

    assert route.body is not None
    assert (route.fault, route.body["scheduledStart"]) == ("", moment)


def test_a_column_may_tell_the_time_zone_of_a_row(tmp_path: Path) -> None:
    rows = [[*WIDE_ROW[:5], *WIDE_ROW[5:], zone] for zone in ("America/Denver", "ET", "", "Mars/Base")]

    routes, _ = read(csv_file(tmp_path, [*WIDE, "Time Zone"], *rows))

    starts = [route.body["scheduledStart"][-6:] for route in routes if route.body is not None]
    assert starts[:3] == ["-07:00", "-05:00", "-06:00"]
    assert "Time Zone: there is no time zone 'Mars/Base'" in routes[3].fault


def test_a_mapped_column_that_comes_twice_must_be_chosen(tmp_path: Path) -> None:
    names = ["Load", *WIDE[1:], "Load"]
    path = csv_file(tmp_path, names, [*WIDE_ROW, "LOAD-2"])

    with pytest.raises(UnreadableFile, match=r"2 columns 'Load': name one of them as 'Load \(2\)'"):
        read(path, {"externalId": "Load"})
    (route,), _ = read(path, {"externalId": "Load (2)"})
    assert route.external_id == "LOAD-2"


def test_a_route_whose_longitudes_all_lack_their_minus_is_refused(tmp_path: Path) -> None:
    """McLeod stores them so: the route would be one through western China."""
    row = [cell.removeprefix("-") for cell in WIDE_ROW]

    (route,), _ = read(csv_file(tmp_path, WIDE, row))

    assert route.fault.count("the place is in Asia: is a minus missing?") == 2


def test_a_route_of_australia_is_read(tmp_path: Path) -> None:
    sydney = {"stop1_latitude": "-33.9", "stop1_longitude": "150.9"}
    places = sydney | {"stop2_latitude": "-37.8", "stop2_longitude": "144.8"}
    row = [places.get(name, cell) for name, cell in zip(WIDE, WIDE_ROW, strict=True)]

    (route,), _ = read(csv_file(tmp_path, WIDE, row))

    assert route.fault == ""


def test_the_start_is_that_of_the_first_stop_by_number(tmp_path: Path) -> None:
    names = ["externalId", "unitNumber", "driverName", "ETA", "stop_sequence", *LONG[4:]]
    late = ["A", "101", "Ann Lee", "2026-12-02 09:30", "2", "Newark", "40.7", "-74.1"]
    early = ["A", "", "", "2026-12-01 08:00", "1", "Joliet", "41.4", "-88.1"]

    (route,), _ = read(csv_file(tmp_path, names, late, early), {"scheduledStart": "ETA", "stop_windowStart": "ETA"})

    assert route.body is not None
    assert (route.fault, route.body["scheduledStart"]) == ("", "2026-12-01T08:00:00-06:00")


def test_a_local_time_needs_a_zone(tmp_path: Path) -> None:
    (route,), _ = read(csv_file(tmp_path, WIDE, WIDE_ROW), zone=None)

    assert "scheduled start: The time has no UTC offset" in route.fault


def test_a_load_that_comes_twice_is_refused(tmp_path: Path) -> None:
    """Two pushes of it at a time would come in any order."""
    bad = [*WIDE_ROW[:4], "soon", *WIDE_ROW[5:]]

    faults = [route.fault for route in read(csv_file(tmp_path, WIDE, bad, WIDE_ROW, WIDE_ROW))[0]]

    assert faults[1:] == ["", "externalId: the route is already on line 3"]


def test_rows_that_csv_cannot_have_are_told_by_line(tmp_path: Path) -> None:
    path = csv_file(tmp_path, WIDE, WIDE_ROW)
    with path.open("a") as file:
        file.write('a,"b" c\n')
        file.write("x" + "," * 40 + "\n")

    routes = read(path)[0]

    assert [(route.line, bool(route.fault)) for route in routes] == [(2, False), (3, True), (4, True)]


@pytest.mark.parametrize("name", ["loads.txt", "none.csv", "none.xlsx", "none.jsonl"])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnreadableFile):
        read(tmp_path / name)


@pytest.mark.slow
def test_a_broken_excel_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "loads.xlsx"
    for content in (b"", b"PK\x03\x04", b"externalId,vin\n"):
        path.write_bytes(content)
        with pytest.raises(UnreadableFile):
            read(path)
    whole = excel_file(tmp_path, WIDE, WIDE_ROW).read_bytes()
    for cut in range(0, len(whole), 397):
        path.write_bytes(whole[:cut])
        with pytest.raises(UnreadableFile):
            read(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ('<row r="99999999999"><c r="A99999999999"><v>1</v></c></row>', "can be read: save it as"),
        ('<row r="2"><c r="ZZZZZZZ2"><v>1</v></c></row>', ""),
    ],
    ids=["rows", "columns"],
)
def test_a_sheet_that_claims_to_be_endless_ends(tmp_path: Path, cell: str, said: str) -> None:
    path = excel_file(tmp_path, WIDE, WIDE_ROW)
    part = "xl/worksheets/sheet1.xml"
    with zipfile.ZipFile(path) as parts:
        contents = {name: parts.read(name) for name in parts.namelist()}
    contents[part] = contents[part].replace(b"</sheetData>", cell.encode() + b"</sheetData>")
    with zipfile.ZipFile(path, "w") as parts:
        for name, content in contents.items():
            parts.writestr(name, content)

    try:
        read(path)
        heard = ""
    except UnreadableFile as error:
        heard = str(error)

    assert said in heard


@pytest.mark.parametrize("limit", ["MOST_UNPACKED_BYTES", "MOST_BYTES_IN_MEMORY"])
def test_a_file_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    path = excel_file(tmp_path, WIDE, WIDE_ROW)
    monkeypatch.setattr(spreadsheets, limit, 1 << 10)

    with pytest.raises(UnreadableFile, match="more than can be read: save it as CSV"):
        read(path)


CELLS = st.text(max_size=12) | st.sampled_from(["2026-12-01 08:00", "41.4", "-200", "101", "'=1", "0" * 300])


@pytest.mark.slow
@settings(deadline=None)  # it writes files
@given(st.lists(st.lists(CELLS, max_size=len(WIDE) + 1), max_size=4), st.sampled_from([WIDE, LONG]))
def test_any_table_gives_routes_or_faults(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], names: list[str]
) -> None:
    path = csv_file(tmp_path_factory.mktemp("any"), names, *rows)

    for route in read(path)[0]:
        assert (route.route is None) == bool(route.fault)
        assert route.line >= 2
