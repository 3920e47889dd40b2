"""A file whose dates have the day first is refused as a whole: half of them would be read as other days."""

from datetime import UTC, date, datetime
from pathlib import Path
from unittest.mock import Mock
from zoneinfo import ZoneInfo

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.files import route_files
from domain.files.csvfiles import ImportReport, UnreadableFile
from domain.files.day_order import refuse_days_first
from domain.files.route_files import open_route_file
from domain.files.spreadsheets import read_table
from domain.fills.card_files import open_fill_file
from domain.fills.profiles import CARDS

DAYS = st.lists(st.dates(date(2020, 1, 1), date(2030, 1, 1)), min_size=1, max_size=20)
ROUTES = "externalId,unitNumber,driverName,scheduledStart,stop_name,stop_latitude,stop_longitude"
FILLS = "Card #,Tran Date,Invoice,Unit,Location Name,City,State/ Prov,Item,Unit Price,Qty,Amt,Currency"


@given(DAYS, st.sampled_from("/-"))
def test_american_dates_are_never_refused(days: list[date], sign: str) -> None:
    refuse_days_first("Date", [f"{day.month}{sign}{day.day:02}{sign}{day.year} 08:00" for day in days])


@pytest.mark.slow
@given(DAYS, st.sampled_from("/-."))
def test_days_that_come_first_are_refused_once_one_of_them_can_be_no_month(days: list[date], sign: str) -> None:
    cells = [f"{day.day}{sign}{day.month}{sign}{day.year}" for day in days]
    if all(day.day <= 12 for day in days) or not any(day.day <= 12 and day.day != day.month for day in days):
        refuse_days_first("Date", cells)
        return
    with pytest.raises(UnreadableFile, match="day before the month"):
        refuse_days_first("Date", cells)


@pytest.mark.parametrize("cells", [["2026-11-20"], ["46174"], [46174.5, None], ["20 Nov 2026"], ["13/13/2026"]])
def test_other_dates_say_nothing(cells: list[object]) -> None:
    refuse_days_first("Date", cells)


@pytest.mark.parametrize("second", ["scheduledStart of another route", "of the same"])
def test_a_file_of_routes_with_the_day_first_is_refused(tmp_path: Path, second: str) -> None:
    path = tmp_path / "loads.csv"
    other = "B" if second.endswith("route") else "A"
    rows = [
        f"{route},101,Ann,{start},{stop}"
        for route, start in (("A", "05/11/2026 08:00"), (other, "20/11/2026 08:00"))
        for stop in ("Joliet,41.4,-88.1", "Gary,41.6,-87.3")
    ]
    path.write_text("\n".join([ROUTES, *rows]))

    with open_route_file(path, {}, ZoneInfo("America/Chicago")) as file, pytest.raises(UnreadableFile, match="20/11"):
        list(file.routes)


@pytest.mark.parametrize("is_excel", [False, True])
@pytest.mark.parametrize(("form", "is_refused"), [("%d/%m/%Y", True), ("%m/%d/%Y", False)])
def test_loads_in_the_order_of_their_days_are_looked_at_to_their_end(
    tmp_path: Path, form: str, is_refused: bool, is_excel: bool
) -> None:
    """The first hundred rows are all of days that can be months."""
    rows = [ROUTES] + [
        f"L{number},101,Ann,{date(2026, 11, 1 + number // 20):{form}} 08:00,{stop}"
        for number in range(400)
        for stop in ("Joliet,41.4,-88.1", "Gary,41.6,-87.3")
    ]
    path = tmp_path / ("loads.xlsx" if is_excel else "loads.csv")
    if is_excel:
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row.split(","))
        book.save(path)
    else:
        path.write_text("\n".join(rows))

    with open_route_file(path, {}, ZoneInfo("America/Chicago")) as file:
        if is_refused:
            with pytest.raises(UnreadableFile, match="13/11"):
                list(file.routes)
        else:
            assert [len(one.route.stops) for one in file.routes if one.route is not None] == [2] * 400


def test_columns_that_leave_their_order_open_are_looked_at_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row has a window at each of 20 stops."""
    times = [f"Stop {stop} Window {end}" for stop in range(1, 21) for end in ("Start", "End")]
    places = [f"Stop {stop} {part}" for stop in range(1, 21) for part in ("Name", "Latitude", "Longitude")]
    row = ["101", "Ann", *["05/11/2026 08:00"] * (1 + len(times)), *["Joliet", "41.4", "-88.1"] * 20]
    path = tmp_path / "loads.csv"
    head = ",".join(["Load Number", "Unit Number", "Driver Name", "Scheduled Start", *times, *places])
    path.write_text("\n".join([head, *(",".join([f"L{number}", *row]) for number in range(200))]))
    opened = Mock(side_effect=read_table)
    monkeypatch.setattr(route_files, "read_table", opened)

    with open_route_file(path, {}, ZoneInfo("America/Chicago")) as file:
        assert sum(one.route is not None for one in file.routes) == 200
    assert opened.call_count == 2


def test_a_file_of_a_card_with_the_day_first_is_refused_before_a_row_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "efs.csv"
    rows = [f"1,{day},{day[:2]},101,PILOT,GARY,IN,ULSD,4,50,200,USD/Gallons" for day in ("05/11/2026", "20/11/2026")]
    path.write_text("\n".join([FILLS, *rows]))
    now = datetime(2026, 11, 25, tzinfo=UTC)

    with (
        pytest.raises(UnreadableFile, match="Tran Date: '20/11/2026' has the day before the month"),
        open_fill_file(path, CARDS["efs"].profile, ImportReport(), now=now),
    ):
        pass


@pytest.mark.parametrize(
    ("form", "last", "is_refused"),
    [("%d/%m/%Y", 24, True), ("%m/%d/%Y", 24, False), ("%d/%m/%Y", 10, False), ("%Y-%m-%d", 24, False)],
)
@pytest.mark.parametrize("newest_first", [False, True])
def test_a_month_of_purchases_in_the_order_of_their_days_is_looked_at_to_its_end(
    tmp_path: Path, form: str, last: int, is_refused: bool, newest_first: bool
) -> None:
    """Its first rows are all of days that can be months, or of days that cannot. The purchases of the first twelve days
    were of other months."""
    path = tmp_path / "efs.csv"
    days = [date(2026, 11, 1 + number // 4) for number in range(4 * last)]
    rows = [f"1,{day:{form}},{day:%d},101,PILOT,GARY,IN,ULSD,4,50,200,USD/Gallons" for day in days]
    path.write_text("\n".join([FILLS, *(reversed(rows) if newest_first else rows)]))
    now = datetime(2026, 11, 25, tzinfo=UTC)

    report = ImportReport()
    if not is_refused:
        with open_fill_file(path, CARDS["efs"].profile, report, now=now) as file:
            assert len(list(file.fills)) + len(report.rejected) == 4 * last
        return
    with (
        pytest.raises(UnreadableFile, match="has the day before the month"),
        open_fill_file(path, CARDS["efs"].profile, report, now=now),
    ):
        pass
